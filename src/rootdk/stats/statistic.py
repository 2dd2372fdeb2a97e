"""Sufficient statistics: what is kept of the rows, one state per head, and how two states merge.

A statistic is a frozen dataclass whose fields are arrays with a leading dimension
``num_heads``. The type of a field states its merge law: a :data:`Count` or :data:`Total`
is added, a :data:`Least` or :data:`Greatest` is compared. For every statistic

- ``empty`` is the identity of ``merge``;
- ``merge`` is commutative and associative (exactly for counts and extremes, up to
  rounding for sums);
- the statistic of two lots of rows is the merge of the statistics of each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Self, TypeAlias, get_type_hints

import numpy as np
import numpy.typing as npt

from rootdk._lib import discovery
from rootdk._lib.errors import ShapeError
from rootdk.stats.block import HISTOGRAM_BINS, Block, Floats, Integers


@dataclass(frozen=True)
class Law:
    """How a field starts and merges.

    Attributes
    ----------
    combine : callable or None
        Merges two arrays; None where fields merge jointly, in ``Statistic._merged``.
    start : float
        The value of an empty state.
    dtype : type
        NumPy scalar type of the field.
    shape : tuple of int
        Dimensions after ``num_heads``.
    """

    combine: Callable[[Any, Any], Any] | None
    start: float = 0
    dtype: type[np.generic] = np.float64
    shape: tuple[int, ...] = ()


Count: TypeAlias = Annotated[Integers, Law(np.add, dtype=np.int64)]
"""A number of things. Merges by addition, exactly."""

Bins: TypeAlias = Annotated[Integers, Law(np.add, dtype=np.int64, shape=(HISTOGRAM_BINS,))]
"""Numbers of things by bin. Merges by addition, exactly."""

Total: TypeAlias = Annotated[Floats, Law(np.add)]
"""A sum. Merges by addition."""

Least: TypeAlias = Annotated[Floats, Law(np.minimum, start=np.inf)]
"""A minimum, +∞ of nothing. Merges by comparison, exactly."""

Greatest: TypeAlias = Annotated[Floats, Law(np.maximum, start=-np.inf)]
"""A maximum, −∞ of nothing. Merges by comparison, exactly."""

Joint: TypeAlias = Annotated[Floats, Law(None)]
"""A number that merges together with other fields; its statistic says how."""


@dataclass(frozen=True, eq=False)
class Statistic(ABC):
    """Base of every statistic."""

    name: ClassVar[str]

    @classmethod
    def empty(cls, num_heads: int) -> Self:
        """Return the state of no rows at all."""
        return cls(
            **{
                field: np.full((num_heads, *law.shape), law.start, dtype=law.dtype)
                for field, law in _laws(cls).items()
            }
        )

    @classmethod
    def stack(cls, parts: Sequence[Self]) -> Self:
        """Join states of different heads, in order, to one state of them all."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            **{
                field: np.concatenate([getattr(part, field) for part in parts])
                for field in _laws(cls)
            }
        )

    @property
    def num_heads(self) -> int:
        """Number of heads."""
        return len(next(iter(self._fields().values())))

    def merge(self, other: Self) -> Self:
        """Return the state of both lots of rows.

        Raises
        ------
        ShapeError
            If the other is a different statistic, or of another number of heads.
        """
        if type(self) is not type(other) or self.num_heads != other.num_heads:
            raise ShapeError(
                f"cannot merge {self.name} of {self.num_heads} heads "
                f"with {other.name} of {other.num_heads} heads"
            )
        return self._merged(other)

    def _merged(self, other: Self) -> Self:
        mine, theirs = self._fields(), other._fields()
        return type(self)(
            **{
                field: law.combine(mine[field], theirs[field])
                for field, law in _laws(type(self)).items()
                if law.combine is not None
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain lists; a non-finite number becomes a string."""
        return {field: _plain(values.tolist()) for field, values in self._fields().items()}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Return the state that :meth:`to_dict` has written."""
        return cls(
            **{
                field: np.asarray(_numbers(state[field]), dtype=law.dtype).reshape(-1, *law.shape)
                for field, law in _laws(cls).items()
            }
        )

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, Statistic):
            return NotImplemented
        theirs = other._fields()
        return all(
            np.array_equal(values, theirs[field], equal_nan=values.dtype.kind == "f")
            for field, values in self._fields().items()
        )

    __hash__ = None  # type: ignore[assignment]  # states are compared, never looked up

    def _fields(self) -> dict[str, npt.NDArray[Any]]:
        return {field: getattr(self, field) for field in _laws(type(self))}


class BlockStatistic(Statistic):
    """A statistic of scores and rows, filled block by block."""

    @classmethod
    @abstractmethod
    def of(cls, block: Block) -> Self:
        """Return the state of one block of rows."""

    def update(self, block: Block) -> Self:
        """Return the state with one more block of rows."""
        return self.merge(type(self).of(block))


def per(totals: npt.NDArray[Any], counts: Integers) -> Floats:
    """Return totals over counts; NaN where there was nothing to count.

    Examples
    --------
    >>> per(np.asarray([3.0, 0.0]), np.asarray([2, 0]))
    array([1.5, nan])
    """
    return np.where(counts > 0, totals, np.nan) / np.maximum(counts, 1)


@cache
def statistics() -> Mapping[str, type[Statistic]]:
    """Return every statistic by name: one file each, in ``rootdk.stats.statistics``.

    Other distributions add theirs through the entry-point group ``rootdk.statistics``.
    """
    found = discovery.subclasses(
        "rootdk.stats.statistics",
        Statistic,
        group="rootdk.statistics",
        key=lambda statistic: statistic.name,
    )
    return {statistic.name: statistic for statistic in found}


@cache
def _laws(statistic: type[Statistic]) -> Mapping[str, Law]:
    hints = get_type_hints(statistic, include_extras=True)
    return {
        field: next(mark for mark in hint.__metadata__ if isinstance(mark, Law))
        for field, hint in hints.items()
        if hasattr(hint, "__metadata__")
    }


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if np.isfinite(value) else str(value)


def _numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return float(value) if isinstance(value, str) else value
