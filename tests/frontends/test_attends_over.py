"""What scores are between: positions, features of one position, or both cut across each other."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn

import rootdk

BATCH, LENGTH, HEADS, HEAD_DIM = 3, 10, 4, 16
WIDTH = HEADS * HEAD_DIM

SPLITS: dict[str, tuple[str, Callable]] = {
    "transposed": ("positions", lambda y: y.reshape(*y.shape[:2], HEADS, HEAD_DIM).swapaxes(1, 2)),
    "one-head": ("positions", lambda y: y[:, None]),
    "windows": ("positions", lambda y: y.reshape(BATCH, 2, LENGTH // 2, WIDTH)),
    "tokens-in-parts": ("positions", lambda y: y.reshape(BATCH, 1, LENGTH * HEADS, HEAD_DIM)),
    "channels": ("positions", lambda y: y.swapaxes(1, 2)[:, None]),
    "not-transposed": ("features", lambda y: y.reshape(BATCH, LENGTH, HEADS, HEAD_DIM)),
    "reshaped": ("mixture", lambda y: y.reshape(BATCH, HEADS, LENGTH, HEAD_DIM)),
    "merged": ("mixture", lambda y: y.reshape(BATCH * HEADS, LENGTH, HEAD_DIM)),
}


class Raw(nn.Module):
    """Projections by plain matrices."""

    def __init__(self, split: Callable) -> None:
        super().__init__()
        self.split = split
        self.w = nn.ParameterList(nn.Parameter(torch.randn(WIDTH, WIDTH) / 8) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (self.split(x @ w) for w in self.w)
        return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v


@pytest.mark.parametrize("name", SPLITS)
def test_what_scores_are_between_is_read_off_the_axes(name: str, seed: int) -> None:
    expected, split = SPLITS[name]
    torch.manual_seed(seed)
    diagnosis = rootdk.check(Raw(split), torch.randn(BATCH, LENGTH, WIDTH))
    (site,) = diagnosis.sites
    assert site.resolved
    assert site.attends_over == expected
    assert ("RDK502" in {f.code for f in diagnosis.findings}) == (expected != "positions")


@pytest.mark.parametrize("name", SPLITS)
def test_the_same_in_jax(name: str, rng: np.random.Generator) -> None:
    expected, split = SPLITS[name]

    def model(w: list[jax.Array], x: jax.Array) -> jax.Array:
        q, k, v = (split(x @ one) for one in w)
        return jax.nn.softmax(q @ k.mT * q.shape[-1] ** -0.5) @ v

    w = [jnp.asarray(rng.normal(size=(WIDTH, WIDTH)) / 8, jnp.float32) for _ in range(3)]
    x = jnp.asarray(rng.normal(size=(BATCH, LENGTH, WIDTH)), jnp.float32)
    (site,) = rootdk.check(model, w, x).sites
    assert site.resolved
    assert site.attends_over == expected


def test_fields_of_one_vector_are_no_heads_that_lost_their_positions() -> None:
    class Fields(Raw):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).flatten(1)

    model = Fields(lambda y: y.view(-1, HEADS, HEAD_DIM))
    (site,) = rootdk.check(model, torch.randn(BATCH, WIDTH)).sites
    assert site.attends_over == "positions"
