"""Whether a tree of parameters is at initialisation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np

from rootdk.frontends._graph.node import Kind
from rootdk.frontends._jax.arguments import Leaf
from rootdk.frontends._jax.tape import host

__all__ = ["state_of"]

_NORM = re.compile(r"norm|(^|[._])ln(_|\d|f|\.|$)", re.IGNORECASE)


def state_of(leaves: Sequence[Leaf]) -> tuple[Literal["init", "trained", "unknown"], str]:
    """At initialisation every vector of a norm is exactly 1, or exactly 0, throughout."""
    norms = 0
    for leaf in leaves:
        array = host(leaf.array) if leaf.kind == Kind.PARAMETER else None
        if array is None or array.ndim != 1 or array.size < 2 or not _NORM.search(leaf.path):
            continue
        norms += 1
        if not (bool(np.all(array == 1)) or bool(np.all(array == 0))):
            return "trained", f"{leaf.path} is not at its initial value"
    if not norms:
        return "unknown", "no norm to tell by was found among the parameters"
    return "init", f"all {norms} norm parameters are at their initial values"
