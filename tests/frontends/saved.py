"""Attention calls computed in NumPy, as somebody without a framework would store them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["attend", "header_of", "npz", "safetensors"]

DTYPES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int64": "I64",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
}


def attend(
    rng: np.random.Generator,
    scale: float,
    *,
    batch: int = 2,
    heads: int = 4,
    kv_heads: int | None = None,
    queries: int = 12,
    keys: int = 12,
    head_dim: int = 16,
    softcap: float | None = None,
    visible: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    dtype: str = "float32",
) -> dict[str, np.ndarray]:
    """query, key, value and what softmax attention makes of them at a scale, in float64 inside."""
    shared = heads if kv_heads is None else kv_heads
    query = rng.normal(size=(batch, heads, queries, head_dim)).astype(dtype)
    key, value = rng.normal(size=(2, batch, shared, keys, head_dim)).astype(dtype)
    repeat = heads // shared
    all_keys = np.repeat(key, repeat, axis=1).astype(np.float64)
    scores = scale * (query.astype(np.float64) @ all_keys.swapaxes(-1, -2))
    if softcap is not None:
        scores = softcap * np.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    if visible is not None:
        scores = np.where(visible, scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    weights = powers / powers.sum(-1, keepdims=True)
    output = weights @ np.repeat(value, repeat, axis=1).astype(np.float64)
    made = {"weights": weights, "scores": scores, "output": output}
    return {
        "query": query,
        "key": key,
        "value": value,
        **{name: array.astype(dtype) for name, array in made.items()},
    }


def npz(path: Path, arrays: Mapping[str, Any]) -> Path:
    np.savez(path, **arrays)
    return path


def safetensors(
    path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None
) -> Path:
    """Written by hand, so that a name of a dtype can be given: ``("BF16", shape, bytes)``."""
    import json
    import struct

    header: dict[str, Any] = {"__metadata__": dict(metadata or {})}
    data = b""
    for name, array in arrays.items():
        dtype, shape, raw = header_of(array)
        header[name] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def header_of(array: Any) -> tuple[str, list[int], bytes]:
    if isinstance(array, tuple):
        return array
    return DTYPES[array.dtype.name], list(array.shape), array.tobytes()
