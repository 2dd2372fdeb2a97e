"""One small transformer as numbers, and the faults that its attention can be given.

A fault is said in numbers and not in code, so that every framework can be given the same: what
is multiplied where, over which axis the softmax runs, how the exponentials are taken.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

__all__ = ["FAULTS", "SOUND", "Case", "Fault", "Size", "make_case"]

Array = np.ndarray
BLOCKS = 2


@dataclass(frozen=True, kw_only=True)
class Size:
    """Sizes of which no two laws of the scale agree."""

    width: int = 64
    heads: int = 4
    batch: int = 3
    length: int = 11

    @property
    def head_dim(self) -> int:
        return self.width // self.heads


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What an attention does; the defaults are right.

    ``query``, ``scores`` and ``weights`` are the factors there; ``axis`` is that of the softmax
    over (batch, heads, queries, keys); ``gain`` multiplies the projections to query and key.
    """

    code: str | None
    name: str
    query: Callable[[Size], float] = lambda size: 1.0
    scores: Callable[[Size], float] = lambda size: size.head_dim**-0.5
    weights: Callable[[Size], float] = lambda size: 1.0
    axis: int = -1
    again: bool = False
    bare: bool = False
    gain: float = 1.0

    def scale(self, size: Size) -> float:
        """The product of all factors in front of the softmax."""
        return self.query(size) * self.scores(size)

    @property
    def fused(self) -> bool:
        """Whether a fused kernel with a scale argument can have it."""
        return not (self.again or self.bare or self.axis != -1)


SOUND = Fault(code=None, name="sound")


def one(size: Size) -> float:
    return 1.0


FAULTS = (
    SOUND,
    Fault(code="RDK101", name="missing", scores=one),
    Fault(code="RDK102", name="twice", query=lambda s: s.head_dim**-0.5),
    Fault(code="RDK103", name="model-width", scores=lambda s: s.width**-0.5),
    Fault(code="RDK104", name="unrooted", scores=lambda s: 1.0 / s.head_dim),
    Fault(code="RDK105", name="length", scores=lambda s: s.length**-0.5),
    Fault(code="RDK106", name="inverted", scores=lambda s: s.head_dim**0.5),
    Fault(code="RDK107", name="head-count", scores=lambda s: s.heads**-0.5),
    Fault(code="RDK108", name="constant", scores=lambda s: 0.07),
    Fault(code="RDK109", name="after", scores=one, weights=lambda s: s.head_dim**-0.5),
    Fault(code="RDK201", name="oversized", gain=2.3),
    Fault(code="RDK301", name="axis-queries", axis=-2),
    Fault(code="RDK301", name="axis-heads", axis=1),
    Fault(code="RDK302", name="bare", bare=True),
    Fault(code="RDK305", name="softmax-twice", again=True),
)


@dataclass(frozen=True, kw_only=True)
class Case:
    """Parameters and an input, as NumPy has them; weights are (in, out)."""

    size: Size
    fault: Fault
    parameters: dict[str, Array]
    x: Array
    shapes: dict[str, int] = field(default_factory=dict)

    def block(self, number: int) -> dict[str, Array]:
        prefix = f"blocks.{number}."
        return {
            name.removeprefix(prefix): array
            for name, array in self.parameters.items()
            if name.startswith(prefix)
        }


def make_case(fault: Fault, rng: np.random.Generator, size: Size | None = None) -> Case:
    """Projections that keep the size of their input, norms as they are made."""
    size = size or Size()
    parameters: dict[str, Array] = {}
    for block in range(BLOCKS):
        for name in ("query", "key", "value", "output"):
            weight = rng.normal(size=(size.width, size.width)) / np.sqrt(size.width)
            if name in {"query", "key"}:
                weight = weight * fault.gain
            parameters[f"blocks.{block}.{name}"] = weight.astype(np.float32)
        parameters[f"blocks.{block}.norm.scale"] = np.ones(size.width, np.float32)
        parameters[f"blocks.{block}.norm.offset"] = np.zeros(size.width, np.float32)
    x = rng.normal(size=(size.batch, size.length, size.width)).astype(np.float32)
    return Case(size=size, fault=fault, parameters=parameters, x=x)
