"""The summary of attention calls: one state per statistic and head, and quantities made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np

from rootdk._lib.arrays import float_info, quiet
from rootdk._lib.errors import ArgumentError, ShapeError
from rootdk.stats.block import Floats, Integers
from rootdk.stats.quantity import (
    AbsentQuantityError,
    needed_statistics,
    quantities,
    unknown_quantity,
)
from rootdk.stats.statistic import Statistic, statistics

_FORMAT = 1
"""Version of what ``to_dict`` writes."""

NOT_ASKED = "it was not among the quantities asked for"
"""Why a statistic is absent unless there is a better reason."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Summary:
    r"""Statistics of one or more attention calls, per head.

    A quantity is read by name: ``summary["spread"]`` is a float64 array of shape
    ``(num_heads,)``. Two summaries of the same heads merge to the summary of both lots of
    rows, in any order: over batches, blocks of rows, steps or processes.

    Attributes
    ----------
    num_heads : int
        Number of query heads.
    states : mapping of str to Statistic
        The sufficient statistics, by name.
    scale : float or None
        The multiplier of the scores; None in the summary of nothing.
    head_dim : int or None
        Entries per query and head; None in the summary of nothing.
    score_dtype : str or None
        The dtype that ``headroom`` is about; None in the summary of nothing.
    engines : tuple of str
        What computed it, sorted.
    notes : tuple of str
        What keeps numbers from being exact, sorted: a sample of rows.
    absent : mapping of str to str
        Why a statistic is not there, by name.

    Examples
    --------
    >>> import numpy as np
    >>> nothing = Summary.empty(num_heads=2)
    >>> nothing["spread"], nothing["rows"]
    (array([nan, nan]), array([0., 0.]))
    >>> nothing
    Summary(2 heads, nothing measured)
    """

    num_heads: int
    states: Mapping[str, Statistic]
    scale: float | None = None
    head_dim: int | None = None
    score_dtype: str | None = None
    engines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def empty(cls, num_heads: int, quantities: Iterable[str] | None = None) -> Self:
        """Return the summary of nothing, which changes no summary that it is merged with.

        Parameters
        ----------
        num_heads : int
            Number of query heads.
        quantities : iterable of str, optional
            Names of the quantities it has; all by default.
        """
        names = needed_statistics(quantities)
        states = {name: statistics()[name].empty(num_heads) for name in names}
        return cls(num_heads=num_heads, states=states)

    # -- reading

    @cached_property
    def quantities(self) -> tuple[str, ...]:
        """Names of the quantities that the summary has."""
        known = quantities().items()
        return tuple(name for name, member in known if self.states.keys() >= set(member.needs))

    def __getitem__(self, name: str) -> Any:
        """Return a quantity: an array with a value per head.

        Raises
        ------
        AbsentQuantityError
            If there is no such quantity, or what it needs was not measured; the message
            says why.
        """
        why = self.why_absent(name)
        if why is not None:
            raise AbsentQuantityError(f"{name} is absent: {why}")
        member = quantities()[name]
        with quiet():
            return member.formula(**{given: self._argument(given) for given in member.parameters})

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.why_absent(name) is None

    def why_absent(self, name: str) -> str | None:
        """Return why the summary has no such quantity; None if it has it.

        Examples
        --------
        >>> Summary.empty(2, quantities=["spread"]).why_absent("entropy_nats")
        'it was not among the quantities asked for'
        >>> Summary.empty(2).why_absent("entropy")
        'there is no such quantity; did you mean entropy_nats?'
        """
        member = quantities().get(name)
        if member is None:
            return unknown_quantity(name)
        missing = [given for given in member.needs if given not in self.states]
        if not missing:
            return None
        return self.absent.get(missing[0], NOT_ASKED)

    @property
    def rows(self) -> Integers:
        """Query rows behind each head, as int64."""
        return self["rows"].astype(np.int64)  # type: ignore[no-any-return]

    @property
    def visible_scores(self) -> Integers:
        """Visible scores behind each head, as int64."""
        return self["visible_scores"].astype(np.int64)  # type: ignore[no-any-return]

    @property
    def engine(self) -> str:
        """What computed it: engine, library, arithmetic, block; several after a merge."""
        return "; ".join(self.engines) if self.engines else "nothing"

    @property
    def exact(self) -> bool:
        """Whether every row was measured; if not, ``notes`` say what that means."""
        return not self.notes

    def standard_error(self, name: str) -> Floats | None:
        r"""Return how far a mean over a sample of rows may be from that over all rows.

        .. math:: \sqrt{(\overline{x^2} - \bar x^2) / (n - 1)}

        for the n rows measured, as if they were few of many: an upper estimate when they
        are not. NaN of fewer than two rows; 0 where every row was measured; None if the
        quantity is no mean over rows.

        Raises
        ------
        AbsentQuantityError
            If the summary does not have the quantity.
        """
        mean, member = self[name], quantities()[name]
        if member.row_mean is None:
            return None
        if self.exact:
            return np.zeros(self.num_heads)
        statistic, _, of_rows = member.row_mean.partition(".")
        state: Any = self.states[statistic]
        squares = getattr(state, f"{of_rows}_squared", getattr(state, of_rows))
        with quiet():
            variance = np.maximum(squares / state.rows - mean**2, 0.0)
            return np.where(state.rows > 1, np.sqrt(variance / (state.rows - 1)), np.nan)

    # -- merging

    def merge(self, other: Summary) -> Summary:
        """Return the summary of both.

        Raises
        ------
        ShapeError
            If they are of different numbers of heads, or have different statistics.
        ArgumentError
            If they are of different scale, head_dim or score dtype.
        """
        if self.num_heads != other.num_heads:
            raise ShapeError(
                f"cannot merge a summary of {self.num_heads} heads with one of {other.num_heads}"
            )
        if self._blank or other._blank:
            return self._with_blank(other)
        self._check_same_calls(other)
        return Summary(
            num_heads=self.num_heads,
            states={name: state.merge(other.states[name]) for name, state in self.states.items()},
            scale=self.scale,
            head_dim=self.head_dim,
            score_dtype=self.score_dtype,
            engines=_union(self.engines, other.engines),
            notes=_union(self.notes, other.notes),
            absent={
                name: min(self.absent.get(name, why), other.absent.get(name, why))
                for name, why in {**self.absent, **other.absent}.items()
            },
        )

    def __add__(self, other: object) -> Summary:
        return self.merge(other) if isinstance(other, Summary) else NotImplemented

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Summary):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]  # summaries are compared, never looked up

    # -- crossing processes

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain, JSON-able values, non-finite numbers as strings."""
        return {
            "format": _FORMAT,
            "num_heads": self.num_heads,
            "scale": self.scale,
            "head_dim": self.head_dim,
            "score_dtype": self.score_dtype,
            "engines": list(self.engines),
            "notes": list(self.notes),
            "absent": dict(sorted(self.absent.items())),
            "states": {name: state.to_dict() for name, state in sorted(self.states.items())},
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Return the summary that :meth:`to_dict` has written.

        Raises
        ------
        ArgumentError
            If it was written in another format, or has a statistic that is not known here.
        """
        if state.get("format") != _FORMAT:
            raise ArgumentError.unexpected("format", state.get("format"), repr(_FORMAT))
        unknown = sorted(set(state["states"]) - set(statistics()))
        if unknown:
            raise ArgumentError.unexpected("states", unknown, f"some of {sorted(statistics())}")
        return cls(
            num_heads=state["num_heads"],
            scale=state["scale"],
            head_dim=state["head_dim"],
            score_dtype=state["score_dtype"],
            engines=tuple(state["engines"]),
            notes=tuple(state["notes"]),
            absent=dict(state["absent"]),
            states={
                name: statistics()[name].from_dict(values)
                for name, values in state["states"].items()
            },
        )

    def __repr__(self) -> str:
        heads = f"{self.num_heads} head{'s' * (self.num_heads != 1)}"
        if self._blank:
            return f"Summary({heads}, nothing measured)"
        rows = int(np.max(self.rows, initial=0))
        lines = [f"Summary({heads}, {rows} rows each, scale={self.scale:.6g}; {self.engine})"]
        lines += [f"  note: {note}" for note in self.notes]
        lines += [
            f"  {name:<16} {_range(self[name])}"
            for name, member in quantities().items()
            if name in self and member.per_head == "number" and name not in ("rows", *_COUNTS)
        ]
        return "\n".join(lines)

    # -- inside

    @property
    def _blank(self) -> bool:
        return self.scale is None

    def _argument(self, name: str) -> Any:
        if name in self.states:
            return self.states[name]
        if name == "head_dim":
            return self.head_dim or 0
        if name == "scale":
            return np.nan if self.scale is None else self.scale
        return np.nan if self.score_dtype is None else float_info(self.score_dtype).max

    def _with_blank(self, other: Summary) -> Summary:
        if not (self._blank and other._blank):
            return other if self._blank else self
        return Summary(num_heads=self.num_heads, states={**self.states, **other.states})

    def _check_same_calls(self, other: Summary) -> None:
        if set(self.states) != set(other.states):
            only = sorted(set(self.states) - set(other.states))
            others = sorted(set(other.states) - set(self.states))
            raise ShapeError(
                "cannot merge summaries of different statistics: "
                f"only the first has {_list(only)}, only the second has {_list(others)}"
            )
        for fact in ("scale", "head_dim", "score_dtype"):
            mine, theirs = getattr(self, fact), getattr(other, fact)
            if mine != theirs:
                raise ArgumentError(
                    f"cannot merge summaries of different {fact}: {mine!r} and {theirs!r}"
                )


_COUNTS = ("visible_scores", "nonfinite_scores", "nonfinite_rows", "empty_rows", "single_key_rows")


def _union(mine: Sequence[str], theirs: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted({*mine, *theirs}))


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "none"


def _range(values: Any) -> str:
    known = values[np.isfinite(values)]
    if not len(known):
        return "nan" if not len(values) or np.isnan(values).all() else "inf"
    low, high = f"{np.min(known):.4g}", f"{np.max(known):.4g}"
    return low if low == high else f"{low} … {high}"
