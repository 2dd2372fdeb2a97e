"""A tiny transformer that learns to recall: pairs of a key and a value, and keys asked again.

One block. A pair is one token, the sum of the embeddings of its key and its value. A question is
the embedding of a key and a mark. The value that belongs to the key can only come through
attention: which goes with which is drawn anew in every sequence.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rootdk._lib.extras import require

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["OPTIMIZERS", "Recall", "train"]

Integers = npt.NDArray[np.int64]

OPTIMIZERS = ("adam", "sgd")
MOMENTUM = 0.9
"""Of sgd."""


@dataclass(frozen=True, kw_only=True)
class Recall:
    """Sequences of pairs and of questions about them.

    Attributes
    ----------
    vocabulary : int
        Keys that there are; those of a sequence are all different.
    values : int
        Values that there are.
    pairs, questions : int
        In a sequence.
    sequences : int
        In a batch.
    """

    vocabulary: int = 64
    values: int = 32
    pairs: int = 32
    questions: int = 16
    sequences: int = 32

    def draw(self, rng: np.random.Generator) -> tuple[Integers, Integers, Integers]:
        """Return keys and values ``(sequences, pairs)``, and which are asked for."""
        order = rng.permuted(np.tile(np.arange(self.vocabulary), (self.sequences, 1)), axis=1)
        keys = np.ascontiguousarray(order[:, : self.pairs])
        values = rng.integers(0, self.values, (self.sequences, self.pairs))
        asked = rng.integers(0, self.pairs, (self.sequences, self.questions))
        return keys, values, asked


def train(
    seed: np.random.SeedSequence,
    *,
    recall: Recall,
    scale: float,
    head_dim: int,
    width: int,
    steps: int,
    every: int,
    rate: float,
    optimizer: str,
) -> list[dict[str, float]]:
    """Train from a seed and return what is seen every so many steps.

    The seed decides the data and the initial weights; with another scale they are the same.

    Parameters
    ----------
    seed : SeedSequence
        Of all randomness.
    recall : Recall
        The task.
    scale : float
        What scores are multiplied by.
    head_dim, width : int
        Of the only head, and of the stream.
    steps, every : int
        Steps of the optimizer, and how many lie between two looks.
    rate : float
        Learning rate.
    optimizer : {"adam", "sgd"}
        Adam, or gradient descent with momentum 0.9.

    Returns
    -------
    list of dict
        ``step``, ``loss`` (nats), ``recalled`` (part of the questions), ``query_gradient`` and
        ``key_gradient`` (norms), ``entropy_nats`` and ``spread`` of the scores.
    """
    torch: Any = require("torch", extra="torch", purpose="to train a transformer")
    weights_seed, data_seed = seed.spawn(2)
    rng = np.random.default_rng(data_seed)
    seen = []
    with _one_thread(torch):
        model = _Block.drawn(np.random.default_rng(weights_seed), recall, head_dim, width)
        tensors = list(vars(model).values())
        made = torch.optim.Adam if optimizer == "adam" else torch.optim.SGD
        options = {} if optimizer == "adam" else {"momentum": MOMENTUM}
        optimiser = made(tensors, lr=rate, **options)
        for step in range(steps + 1):
            keys, values, asked = (torch.from_numpy(part) for part in recall.draw(rng))
            guesses, scores, weights = model.forward(keys, values, asked, scale)
            right = values.gather(1, asked)
            loss = torch.nn.functional.cross_entropy(guesses.flatten(0, 1), right.flatten())
            optimiser.zero_grad()
            loss.backward()
            if step % every == 0:
                recalled = (guesses.argmax(-1) == right).double().mean()
                seen.append({"step": step, **_seen(loss, recalled, model, scores, weights)})
            optimiser.step()
    return seen


def _seen(
    loss: Tensor, recalled: Tensor, model: _Block, scores: Tensor, weights: Tensor
) -> dict[str, float]:
    import torch

    assert model.query.grad is not None
    assert model.key.grad is not None
    values = {
        "loss": loss,
        "recalled": recalled,
        "query_gradient": model.query.grad.norm(),
        "key_gradient": model.key.grad.norm(),
        "entropy_nats": torch.special.entr(weights).sum(-1).mean(),
        "spread": scores.std(correction=0),
    }
    return {name: float(value.detach()) for name, value in values.items()}


@contextlib.contextmanager
def _one_thread(torch: Any) -> Iterator[None]:
    """Have torch compute in one thread, so that sums do not depend on how many there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True, kw_only=True)
class _Block:
    """Weights of the block; those of projections give entries of size 1 for inputs of size 1."""

    keys: Tensor
    values: Tensor
    mark: Tensor
    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor
    up: Tensor
    down: Tensor
    guess: Tensor

    @classmethod
    def drawn(cls, rng: np.random.Generator, recall: Recall, head_dim: int, width: int) -> _Block:
        import torch

        def normal(*shape: int, size: float) -> Tensor:
            drawn = size * rng.standard_normal(shape)
            return torch.from_numpy(drawn.astype(np.float32)).requires_grad_()

        unit = width**-0.5
        return cls(
            keys=normal(recall.vocabulary, width, size=1.0),
            values=normal(recall.values, width, size=1.0),
            mark=normal(width, size=1.0),
            query=normal(width, head_dim, size=unit),
            key=normal(width, head_dim, size=unit),
            value=normal(width, width, size=unit),
            output=normal(width, width, size=unit),
            up=normal(width, 4 * width, size=unit),
            down=normal(4 * width, width, size=unit / 2.0),
            guess=normal(width, recall.values, size=unit),
        )

    def forward(
        self, keys: Tensor, values: Tensor, asked: Tensor, scale: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits of the values asked for, scaled scores, and weights."""
        from torch.nn.functional import gelu, layer_norm

        def normed(x: Tensor) -> Tensor:
            return layer_norm(x, x.shape[-1:])

        pairs = normed(self.keys[keys] + self.values[values])
        stream = self.keys[keys.gather(1, asked)] + self.mark
        scores = scale * ((normed(stream) @ self.query) @ (pairs @ self.key).mT)
        weights = scores.softmax(-1)
        stream = stream + (weights @ (pairs @ self.value)) @ self.output
        stream = stream + gelu(normed(stream) @ self.up) @ self.down
        return normed(stream) @ self.guess, scores, weights
