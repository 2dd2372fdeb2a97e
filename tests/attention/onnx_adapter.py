"""ONNX's Attention operator on top of rootdk's: layouts, caches and names, no mathematics.

See the operator's specification, opsets 23 to 25. What ONNX keeps in one place is taken
apart here: packed heads, a cache that comes in two parts or with a length per sequence,
and the choice of what to return.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, helper

from rootdk.attention import Stage, attention, band

_MODES = (Stage.SCALED, Stage.SOFTCAPPED, Stage.BIASED, Stage.WEIGHTS)


def run(model: ModelProto, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a model of one Attention node, in the order that the node names them."""
    (node,) = model.graph.node
    values = dict(zip([value.name for value in model.graph.input], arrays, strict=True))
    inputs = [values.get(name) for name in node.input]
    options = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    outputs = attention_operator(*inputs, **options)
    return [array for array, name in zip(outputs, node.output, strict=False) if name]


def attention_operator(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    attn_mask: np.ndarray | None = None,
    past_key: np.ndarray | None = None,
    past_value: np.ndarray | None = None,
    nonpad_kv_seqlen: np.ndarray | None = None,
    **options: Any,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Output, present key, present value, and the scores of the stage asked for."""
    packed = query.ndim == 3
    if packed:
        query = _unpacked(query, options["q_num_heads"])
        key, value = (_unpacked(a, options["kv_num_heads"]) for a in (key, value))
    past = 0
    if past_key is not None:
        past = past_key.shape[2]
        key, value = (
            np.concatenate(parts, axis=2) for parts in ((past_key, key), (past_value, value))
        )
    visible = _visible(query.shape[2], key.shape[2], past, nonpad_kv_seqlen, options)
    term = _padded(attn_mask, key.shape[2])
    if term is not None and term.dtype == bool:
        visible, term = visible & term, None
    stages = attention(
        query,
        key,
        value,
        scale=options.get("scale"),
        softcap=options.get("softcap") or None,  # 0 is ONNX's word for no cap
        mask=visible,
        bias=term,
        return_stages=True,
    )
    output = stages.output
    if packed:
        output = output.swapaxes(1, 2).reshape(*output.shape[::2], -1)
    scores = stages.at(_MODES[options.get("qk_matmul_output_mode", 0)]).astype(query.dtype)
    return output, key, value, scores


def _unpacked(array: np.ndarray, heads: int) -> np.ndarray:
    return array.reshape(*array.shape[:2], heads, -1).swapaxes(1, 2)


def _padded(term: np.ndarray | None, keys: int) -> np.ndarray | None:
    """A mask may stop short of the keys; what it does not reach, it forbids."""
    if term is None or term.shape[-1] == keys:
        return term
    missing = (*term.shape[:-1], keys - term.shape[-1])
    forbidden = np.zeros(missing, bool) if term.dtype == bool else np.full(missing, -np.inf)
    return np.concatenate((term, forbidden.astype(term.dtype)), axis=-1)


def _visible(
    queries: int,
    keys: int,
    past: int,
    lengths: np.ndarray | None,
    options: Mapping[str, Any],
) -> np.ndarray:
    """Causal order, window and padding; the diagonal stands behind what is in the cache."""
    left, right = (options.get(f"{side}_window_size", -1) for side in ("left", "right"))
    left, right = (None if side == -1 else side for side in (left, right))
    if options.get("is_causal"):
        right = 0
    if lengths is None:
        return band(queries, keys, shift=past, left=left, right=right, xp=np)
    per_sequence = [
        band(queries, keys, shift=int(length) - queries, left=left, right=right, xp=np)
        & (np.arange(keys) < length)
        for length in lengths
    ]
    return np.stack(per_sequence)[:, None]
