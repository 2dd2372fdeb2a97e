"""What a quantity is: a formula over sufficient statistics, and a definition to hold it to."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal, TypeAlias

from rootdk._lib import discovery
from rootdk._lib.errors import ArgumentError, DiscoveryError
from rootdk.stats.definition import Head
from rootdk.stats.statistic import statistics

Stage: TypeAlias = Literal["scaled", "biased", "weights", "entries"]
"""Where a quantity is measured: stages as in ``rootdk.attention.Stage``, or the entries."""

FACTS = ("scale", "head_dim", "largest_score")
"""What a formula can ask for beside statistics: numbers that belong to the whole call."""


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """A named number per head.

    Attributes
    ----------
    name : str
        Its name in a summary.
    unit : str
        "nats", "1" (a share or a ratio), or what is counted.
    stage : str
        Where it is measured.
    per_head : str
        What one head has: "number", or another word for what it holds.
    bound_when_sampled : str or None
        "lower" or "upper" if, measured on some rows, it bounds the value of all rows.
    formula : callable
        Takes statistics and facts by the names of its parameters, returns an array with
        a leading dimension num_heads.
    definition : callable
        Takes a Head and returns the number, straight from the definition.
    row_mean : str or None
        The statistic and its field, as ``"row_entropy.entropy"``, that hold the sum over
        rows whose mean it is, if it is one; None otherwise. The sum of squares stands in
        the field of that name with ``_squared``; a count is its own sum of squares.
    """

    name: str
    unit: str
    stage: Stage
    per_head: str
    bound_when_sampled: Literal["lower", "upper"] | None
    formula: Callable[..., Any]
    definition: Callable[[Head], Any]
    row_mean: str | None = None

    @property
    def doc(self) -> str:
        """One sentence, mathematics, shape, unit, value on empty input, source."""
        return inspect.getdoc(self.formula) or ""

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """Names of the statistics and facts that the formula takes."""
        return tuple(inspect.signature(self.formula).parameters)

    @cached_property
    def needs(self) -> tuple[str, ...]:
        """Names of the statistics that the formula takes."""
        return tuple(name for name in self.parameters if name not in FACTS)

    def __repr__(self) -> str:
        return f"Quantity({self.name}, unit={self.unit}, stage={self.stage}, needs={self.needs})"


class AbsentQuantityError(ArgumentError, KeyError):
    """A summary was asked for a quantity that it does not have."""

    def __str__(self) -> str:
        # A KeyError would show the repr of its message.
        return Exception.__str__(self)


def quantity(
    *,
    unit: str,
    stage: Stage,
    definition: Callable[[Head], Any],
    per_head: str = "number",
    bound_when_sampled: Literal["lower", "upper"] | None = None,
    row_mean: str | None = None,
) -> Callable[[Callable[..., Any]], Quantity]:
    """Make a quantity of a formula; its name and its docstring become the quantity's.

    Parameters
    ----------
    unit, stage, definition, per_head, bound_when_sampled, row_mean
        As for :class:`Quantity`.
    """

    def decorate(formula: Callable[..., Any]) -> Quantity:
        return Quantity(
            name=formula.__name__,
            unit=unit,
            stage=stage,
            per_head=per_head,
            bound_when_sampled=bound_when_sampled,
            formula=formula,
            definition=definition,
            row_mean=row_mean,
        )

    return decorate


@cache
def quantities() -> Mapping[str, Quantity]:
    """Return every quantity by name: one file each, in ``rootdk.stats.quantities``.

    Other distributions add theirs through the entry-point group ``rootdk.quantities``.

    Raises
    ------
    DiscoveryError
        If a formula takes a statistic that is not there, or two have one name.
    """
    found = discovery.instances(
        "rootdk.stats.quantities",
        Quantity,
        group="rootdk.quantities",
        key=lambda member: member.name,
    )
    for member in found:
        unknown = sorted(set(member.needs) - set(statistics()))
        if unknown:
            raise DiscoveryError(
                f"quantity {member.name} takes {', '.join(unknown)}; "
                f"expected names of statistics or of {', '.join(FACTS)}"
            )
    return {member.name: member for member in found}


def needed_statistics(names: Iterable[str] | None) -> tuple[str, ...]:
    """Return the statistics that quantities need, and the counts behind every number.

    Parameters
    ----------
    names : iterable of str or None
        Names of quantities; None for all there are.

    Raises
    ------
    AbsentQuantityError
        If a name is not that of a quantity.
    """
    if isinstance(names, str):
        names = [names]
    wanted = [_known(name) for name in names] if names is not None else quantities().values()
    needed = {"counts"}.union(*(member.needs for member in wanted))
    if names is None:
        needed = set(statistics())
    return tuple(name for name in statistics() if name in needed)


def unknown_quantity(name: str) -> str:
    """Return that a name is not that of a quantity, and which may have been meant."""
    close = difflib.get_close_matches(name, quantities(), n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(quantities()))}"
    return f"there is no such quantity; {hint}"


def _known(name: str) -> Quantity:
    member = quantities().get(name)
    if member is None:
        raise AbsentQuantityError(f"{name} is absent: {unknown_quantity(name)}")
    return member
