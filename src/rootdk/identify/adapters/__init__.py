"""How functions of known signatures are called: one adapter a file, tried in their order.

An adapter that accepts a function says how it takes its arrays and what its arguments mean.
``plain`` accepts what no other does, and reads the signature. *Named targets* are functions that
cannot be written as ``module:function``, such as one backend of a library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from rootdk._lib.discovery import subclasses
from rootdk._lib.errors import TargetError
from rootdk.identify.adapted import Adapted
from rootdk.identify.adapters._base import Adapter, Wanted

__all__ = ["Adapter", "Wanted", "adapt", "adapters", "named_targets"]


@cache
def adapters() -> tuple[Adapter, ...]:
    """Return every adapter, in the order in which they are asked."""
    kinds = subclasses(
        __name__,
        Adapter,  # type: ignore[type-abstract]
        group="rootdk.adapters",
        key=lambda kind: kind.name,
    )
    return tuple(sorted((kind() for kind in kinds), key=lambda one: (one.order, one.name)))


def adapt(function: Any, wanted: Wanted) -> Adapted:
    """Return the function as the first adapter that accepts it sees it.

    Raises
    ------
    TargetError
        If it is nothing that can be called.
    """
    for adapter in adapters():
        if adapter.accepts(function):
            return adapter.adapt(function, wanted)
    raise TargetError(
        f"the function is a {type(function).__name__}; expected a callable, or an ONNX model file"
    )


def named_targets() -> Mapping[str, Callable[[], Any]]:
    """Return the targets that adapters name, and what makes each (a library may be missing)."""
    return {name: make for adapter in adapters() for name, make in adapter.targets().items()}
