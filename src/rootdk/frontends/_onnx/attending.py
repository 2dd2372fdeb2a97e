"""The listener of the recorder: attention in pieces, and ONNX's Attention operator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rootdk.frontends._graph.node import Node
from rootdk.frontends._graph.trail import FactorStep
from rootdk.frontends._onnx.attention import FusedCall
from rootdk.frontends._sites.attend import Attending
from rootdk.frontends._sites.call import Call
from rootdk.records import Addend

__all__ = ["OnnxAttending"]


class OnnxAttending(Attending):
    """Understands the Attention operator of opsets 23 to 25."""

    def on_fused(
        self, name: str, node: Node, args: Sequence[Any], kwargs: dict[str, Any], out: Any
    ) -> bool:
        """Understand one fused call; return whether it could be."""
        if not args or not isinstance(args[0], FusedCall):
            return False
        given = args[0]
        query, key, value = given.query.array, given.key.array, given.value.array
        default = 1.0 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0
        scale = default if given.scale is None else float(given.scale)
        aligned = given.causal and _is_top_left(given)
        call = Call(query, key, value, scale, causal=aligned, softcap=given.softcap)
        if given.mask is not None:
            self.mask_call(call, given.mask.array, node, given.mask.node)
        if given.visible is not None and not aligned:
            seen = given.visible
            call.visible = seen if call.visible is None else call.visible & seen
            call.fills.append(Addend(kind="mask", fill=-math.inf, source=node.source))
        pending = self.begin_call(node, "Attention operator", call, 0.0)
        if given.causal and not aligned:
            pending.causal = "bottom_right"
        origin = "default of the Attention operator" if given.scale is None else "scale attribute"
        factor = FactorStep(node, scale, origin=origin)
        self.finish_call(pending, call, factor, [query, key, value], given.output)
        return True


def _is_top_left(given: FusedCall) -> bool:
    """Whether what is visible is the triangle from the first query and key, and nothing else."""
    if given.visible is None or given.visible.shape[0] != 1:
        return False
    queries, keys = given.visible.shape[-2:]
    return bool(np.array_equal(given.visible[0, 0], np.tri(queries, keys, dtype=bool)))
