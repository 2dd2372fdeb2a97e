"""What a frontend is, what it returns, and how one is chosen."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Literal

from rootdk._lib import discovery
from rootdk._lib.errors import ArgumentError
from rootdk.records import AttentionSite, Environment, Unhandled
from rootdk.stats import Summary

__all__ = ["Frontend", "Trace", "trace"]


@dataclass(frozen=True, kw_only=True)
class Trace:
    """What one forward pass showed: sites in the order in which they ran, and what was not seen.

    ``operations`` is how many operations were recorded; ``summaries`` maps the names of resolved
    sites to their statistics.
    """

    sites: tuple[AttentionSite, ...] = ()
    summaries: Mapping[str, Summary] = field(default_factory=dict)
    unhandled: tuple[Unhandled, ...] = ()
    remarks: tuple[str, ...] = ()
    environment: Environment = field(default_factory=Environment)
    state: Literal["init", "trained", "unknown"] = "unknown"
    state_reason: str = ""
    operations: int = 0


class Frontend(abc.ABC):
    """One way to lower a model. A new frontend is one new file in this folder."""

    name: ClassVar[str]

    @abc.abstractmethod
    def accepts(
        self, model: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> bool:
        """Whether this frontend can run ``model`` on these arguments; imports no framework."""

    @abc.abstractmethod
    def trace(
        self,
        model: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        rows: int,
        seed: int | None,
        statistics: bool,
        progress: Callable[[str], None] | None,
    ) -> Trace:
        """Run ``model`` once and return what it showed."""


def trace(
    model: object,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    rows: int = 32,
    seed: int | None = 0,
    statistics: bool = True,
    progress: Callable[[str], None] | None = None,
) -> Trace:
    """Run ``model`` once under the frontend that accepts it.

    Parameters
    ----------
    model : object
        A ``torch.nn.Module``, a function of JAX arrays, or what another frontend accepts.
    args, kwargs :
        The model's own arguments.
    rows : int
        How many query rows of each site are recomputed to verify it.
    seed : int or None
        Seeds the pass and the choice of those rows; the caller's random state is put back.
        None runs the model under the state as it is.
    statistics : bool
        Whether the scores of each site are measured.
    progress : callable or None
        Called with the module path of each site as it is reached.

    Returns
    -------
    Trace
        The sites in the order in which they ran, with their statistics.

    Raises
    ------
    ArgumentError
        If no frontend accepts the model.
    """
    known = _known()
    for kind in known:
        frontend = kind()
        if frontend.accepts(model, args, kwargs):
            return frontend.trace(
                model,
                args,
                dict(kwargs or {}),
                rows=rows,
                seed=seed,
                statistics=statistics,
                progress=progress,
            )
    names = ", ".join(sorted(kind.name for kind in known))
    raise ArgumentError(
        f"model is a {type(model).__module__}.{type(model).__qualname__}, "
        f"which no frontend accepts; expected one of: {names}"
    )


@cache
def _known() -> tuple[type[Frontend], ...]:
    """Every frontend: one file each, here or in another distribution."""
    return discovery.subclasses(
        "rootdk.frontends",
        Frontend,  # type: ignore[type-abstract]
        group="rootdk.frontends",
        allow_modules_without=True,
    )
