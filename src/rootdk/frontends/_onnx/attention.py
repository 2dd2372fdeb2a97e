"""The Attention operator of opsets 23 to 25, and fused operators that are only listed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rootdk.frontends._graph.node import Kind
from rootdk.frontends._onnx.products import moved, shaped
from rootdk.frontends._onnx.recorder import Recorder
from rootdk.frontends._onnx.table import entry, opaque
from rootdk.frontends._onnx.tensors import Array, Operation, Tensor

__all__ = ["FusedCall"]

Outputs = Sequence[Tensor | None]

_CONTRIBUTED = (
    "MultiHeadAttention",
    "GroupQueryAttention",
    "DecoderAttention",
    "DecoderMaskedMultiHeadAttention",
    "DecoderMaskedSelfAttention",
    "LongformerAttention",
    "PackedAttention",
    "PackedMultiHeadAttention",
    "QAttention",
    "QOrderedAttention",
    "RelativePositionBias",
    "SparseAttention",
    "PagedAttention",
    "LinearAttention",
)


@dataclass(frozen=True, kw_only=True)
class FusedCall:
    """The arguments of one Attention operator, everything on (batch, heads, positions, width).

    ``visible`` holds causal order, window and lengths; ``mask`` is what the model gave.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    visible: Array | None
    scale: float | None
    softcap: float | None
    causal: bool
    output: Array


@entry(*_CONTRIBUTED)
def _listed(operation: Operation, recorder: Recorder) -> Outputs:
    """Fused operators of onnxruntime: what they compute is not taken apart."""
    made = opaque(operation, recorder)
    first = next((tensor for tensor in made if tensor is not None), None)
    if first is not None and first.node.kind < Kind.PARAMETER:
        recorder.note_unhandled(str(first.node.attrs["name"]))
    return made


@entry("Attention")
def _attention(operation: Operation, recorder: Recorder) -> Outputs:
    if operation.domain not in {"", "ai.onnx"}:
        return _listed(operation, recorder)
    given = operation.attributes
    tensors = [operation.input(i) for i in range(3)]
    packed = operation.outputs[0].ndim == 3
    counts = [given.get("q_num_heads"), *[given.get("kv_num_heads")] * 2]
    query, key, value = (
        _spread(recorder, tensor, heads) if packed else tensor
        for tensor, heads in zip(tensors, counts, strict=True)
    )
    assert query is not None
    assert key is not None
    assert value is not None
    past = operation.input(4)
    before = 0
    if past is not None:
        before = int(past.array.shape[2])
        key = _joined(recorder, past, key)
        cached = operation.input(5)
        value = _joined(recorder, cached, value) if cached is not None else value
    call = FusedCall(
        query=query,
        key=key,
        value=value,
        mask=_whole(operation.input(3), int(key.array.shape[2]), recorder),
        visible=_visible(operation, query.array.shape, key.array.shape, before),
        scale=given.get("scale"),
        softcap=float(given.get("softcap", 0.0)) or None,
        causal=bool(given.get("is_causal", 0)),
        output=_output(operation.outputs[0], packed, given.get("q_num_heads")),
    )
    sources = [query, key, value, *([call.mask] if call.mask is not None else [])]
    made = recorder.emit("fused", sources, operation.outputs[0], None, name="Attention")
    recorder.tell(made.node, "Attention", [], made.array, (call,), {}, made.array)
    rest = [
        recorder.leaf(array, "unknown", Kind.UNKNOWN, "Attention") if array is not None else None
        for array in operation.outputs[1:]
    ]
    for position, tensor in ((1, key), (2, value)):
        if len(operation.outputs) > position and operation.outputs[position] is not None:
            rest[position - 1] = tensor
    return [made, *rest]


def _spread(recorder: Recorder, tensor: Tensor | None, heads: int | None) -> Tensor | None:
    """(batch, positions, heads·width) to (batch, heads, positions, width)."""
    if tensor is None or not heads:
        return tensor
    batch, positions, width = tensor.array.shape
    apart = shaped(recorder, tensor, (batch, positions, heads, width // heads))
    return moved(recorder, apart, (0, 2, 1, 3))


def _joined(recorder: Recorder, past: Tensor, now: Tensor) -> Tensor:
    if not past.array.size:
        return now
    array = np.concatenate([past.array, now.array], axis=2)
    return recorder.emit(
        "cat", [past, now], array, lambda a: np.concatenate(list(a), axis=2), dim=2, name="Concat"
    )


def _output(array: Array, packed: bool, heads: int | None) -> Array:
    if not packed or not heads:
        return array
    batch, positions, width = array.shape
    return array.reshape(batch, positions, heads, width // heads).transpose(0, 2, 1, 3)


def _whole(mask: Tensor | None, keys: int, recorder: Recorder) -> Tensor | None:
    """A mask may stop short of the keys; what it does not reach, it forbids."""
    if mask is None or mask.array.shape[-1] in {keys, 1}:
        return mask
    short = mask.array
    fill = False if short.dtype == bool else -np.inf
    missing = np.full((*short.shape[:-1], keys - short.shape[-1]), fill, dtype=short.dtype)
    array = np.concatenate([short, missing], axis=-1)
    return recorder.emit("rearrange", [mask], array, None, name="pad")


def _visible(
    operation: Operation, query: Sequence[int], key: Sequence[int], past: int
) -> Array | None:
    """Causal order and windows, from behind what is in the cache; and lengths per sequence."""
    given = operation.attributes
    left = int(given.get("left_window_size", -1))
    right = int(given.get("right_window_size", -1))
    if given.get("is_causal", 0):
        right = 0 if right < 0 else min(right, 0)
    lengths = operation.input(6)
    if left < 0 and right < 0 and lengths is None:
        return None
    queries, keys = int(query[2]), int(key[2])
    rows, columns = np.arange(queries)[:, None], np.arange(keys)[None, :]
    counts = [keys] if lengths is None else [int(n) for n in lengths.array.reshape(-1)]
    made = []
    for count in counts:
        place = rows + (past if lengths is None else count - queries)
        seen = columns < count
        if right >= 0:
            seen = seen & (columns <= place + right)
        if left >= 0:
            seen = seen & (columns >= place - left)
        made.append(np.broadcast_to(seen, (queries, keys)))
    return np.stack(made)[:, None]
