"""The probes of a function: one a file, run in their order, each writing the facts it names."""

from __future__ import annotations

from functools import cache

from rootdk._lib.discovery import subclasses
from rootdk.identify.probes._base import Probe

__all__ = ["Probe", "probes"]


@cache
def probes() -> tuple[Probe, ...]:
    """Return every probe, of this package and of plug-ins, in the order in which they run."""
    kinds = subclasses(
        __name__,
        Probe,  # type: ignore[type-abstract]
        group="rootdk.function_probes",
        key=lambda kind: kind.name,
    )
    return tuple(sorted((kind() for kind in kinds), key=lambda one: (one.order, one.name)))
