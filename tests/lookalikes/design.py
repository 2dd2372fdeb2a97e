"""What a look-alike is: a right design, what about it looks wrong, and what is true of it."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

__all__ = [
    "NOT_ATTENTION",
    "SCALE",
    "VERDICTS",
    "Design",
    "LookAlike",
    "attention",
    "causal",
    "looks_wrong",
]

SCALE = 16**-0.5
NOT_ATTENTION = frozenset({0})


def attention(scores: Tensor, v: Tensor) -> Tensor:
    """softmax(scores)·v, the last step of most formulas here."""
    return scores.softmax(-1) @ v


def causal(queries: int, keys: int) -> Tensor:
    """True where a query may see a key; the last query sees all keys."""
    return torch.arange(keys) <= torch.arange(queries)[:, None] + keys - queries


class Design(nn.Module):
    """Projections of standard gain around ``attend``; ``expected`` is its formula, written apart.

    q is (batch, heads, tokens, head_dim), k and v have ``kv_heads``. The sizes are pairwise
    different, except where a design is about sizes that agree.
    """

    heads = 4
    kv_heads: int | None = None
    head_dim = 16
    batch = 3
    length = 11
    dtype = torch.float32
    precision = torch.float64  # of the coarsest step when everything else is float64

    def __init__(self) -> None:
        super().__init__()
        kv_width = (self.kv_heads or self.heads) * self.head_dim
        self.norm = nn.LayerNorm(self.width)
        self.query = nn.Linear(self.width, self.width, bias=False)
        self.key = nn.Linear(self.width, kv_width, bias=False)
        self.value = nn.Linear(self.width, kv_width, bias=False)
        self.output = nn.Linear(self.width, self.width, bias=False)
        for linear in (self.query, self.key, self.value, self.output):
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5)

    @property
    def width(self) -> int:
        return self.heads * self.head_dim

    def inputs(self) -> tuple[Tensor, ...]:
        """What the model is called with."""
        return (torch.randn(self.batch, self.length, self.width, dtype=self.dtype),)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        q, k, v = self.split(self.query(h)), self.split(self.key(h)), self.split(self.value(h))
        return x + self.output(self.attend(q, k, v).transpose(1, 2).flatten(2))

    def split(self, x: Tensor) -> Tensor:
        """(batch, tokens, width) → (batch, heads, tokens, head_dim)."""
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The attention as the design's code has it."""
        raise NotImplementedError

    def expected(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The same by the plainest formula."""
        return attention(SCALE * q @ k.mT, v)

    def agreement(self) -> tuple[Tensor, Tensor]:
        """What the code gives and what the formula gives, from float64 inputs."""
        q, k, v = (
            torch.randn(self.batch, heads, self.length, self.head_dim, dtype=torch.float64)
            for heads in (self.heads, self.kv_heads or self.heads, self.kv_heads or self.heads)
        )
        return self.double().attend(q.clone(), k.clone(), v.clone()), self.expected(q, k, v)


@dataclass(frozen=True, kw_only=True)
class LookAlike:
    """A right design and the verdict that it deserves.

    ``sites``: how many attention calls there may be. ``scales``: what one site may have as its
    effective scale, or, as a tuple per site, each in order. ``learned``: a factor that is no
    constant must be listed. ``notes``: codes that must be there, as notes; ``may_note``: codes
    that may. Notes about entries and health (2xx, 6xx) are free; any other code is wrong.
    ``known``: warnings that are accepted, each with the reason. ``hard``: why a site may stay
    unresolved.
    """

    design: type[Design]
    suspicion: str
    training: bool = False
    sites: frozenset[int] = frozenset({1})
    scales: tuple[float, ...] = (SCALE,)
    per_site: bool = False
    learned: bool = False
    notes: frozenset[str] = frozenset()
    may_note: frozenset[str] = frozenset()
    known: dict[str, str] = field(default_factory=dict)
    hard: str = ""

    @property
    def name(self) -> str:
        return self.design.__name__

    def build(self, seed: int) -> tuple[Design, tuple[Tensor, ...]]:
        """The model in its mode, and what to call it with."""
        torch.manual_seed(seed)
        model = self.design().train(self.training)
        return model, model.inputs()

    def scales_at(self, index: int) -> tuple[float, ...]:
        """What the site of this index may have as its effective scale."""
        return self.scales[index : index + 1] if self.per_site else self.scales


VERDICTS: dict[type[Design], LookAlike] = {}


def looks_wrong(suspicion: str, **verdict) -> Callable[[type[Design]], type[Design]]:
    """Enter the verdict on a design, with what about it looks wrong."""

    def enter(design: type[Design]) -> type[Design]:
        VERDICTS[design] = LookAlike(design=design, suspicion=suspicion, **verdict)
        return design

    return enter
