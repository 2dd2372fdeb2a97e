"""Attention calls that every engine must measure right, from the plain to the hostile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np

from rootdk.stats import Head

Arrays = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Case:
    """The arguments of one call, as float64 and bool NumPy arrays."""

    query: np.ndarray
    key: np.ndarray
    arguments: Arrays = field(default_factory=dict)

    def rounded(self, dtype: str) -> Case:
        """The case that the oracle takes: every entry rounded to a dtype, held in float64."""
        return replace(
            self,
            query=_rounded(self.query, dtype),
            key=_rounded(self.key, dtype),
            arguments={
                name: _rounded(value, dtype) if name == "bias" else value
                for name, value in self.arguments.items()
            },
        )

    def given(self, library: str, dtype: str) -> tuple[tuple[Any, Any], Arrays]:
        """The call's arguments as arrays of a library and a dtype."""
        convert = _torch if library == "torch" else _numpy
        arguments = {
            name: convert(value, dtype) if isinstance(value, np.ndarray) else value
            for name, value in self.arguments.items()
        }
        return (convert(self.query, dtype), convert(self.key, dtype)), arguments


def _rounded(array: np.ndarray, dtype: str) -> np.ndarray:
    return _numpy(array, dtype).astype(np.float64)


def _numpy(array: np.ndarray, dtype: str) -> np.ndarray:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    with np.errstate(over="ignore"):  # −1e9 is −∞ in float16
        return array if array.dtype == np.bool_ else array.astype(kind)


def _torch(array: np.ndarray, dtype: str) -> Any:
    import torch

    if array.dtype == np.bool_:
        return torch.from_numpy(np.ascontiguousarray(array))
    # torch rounds to float16 by way of float32, and so differently from NumPy.
    return torch.from_numpy(_rounded(array, dtype)).to(getattr(torch, dtype))


def _normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape)


def _plain(rng: np.random.Generator, **arguments: Any) -> Case:
    return Case(query=_normal(rng, 2, 4, 13, 8), key=_normal(rng, 2, 2, 17, 8), arguments=arguments)


def _sized(rng: np.random.Generator, queries: int, keys: int, **arguments: Any) -> Case:
    query, key = _normal(rng, 1, 2, queries, 8), _normal(rng, 1, 2, keys, 8)
    return Case(query=query, key=key, arguments=arguments)


def _scaled_to(rng: np.random.Generator, largest: float, **arguments: Any) -> Case:
    case = _plain(rng, **arguments)
    scores = np.einsum("bhqd,bhkd->bhqk", case.query, np.repeat(case.key, 2, axis=1)) / np.sqrt(8)
    factor = np.sqrt(largest / np.max(np.abs(scores)))
    return replace(case, query=case.query * factor, key=case.key * factor)


def _offset(rng: np.random.Generator, **arguments: Any) -> Case:
    case = _plain(rng, **arguments)
    return replace(case, query=case.query + 300.0, key=case.key + 300.0)


def _mask(rng: np.random.Generator, *shape: int) -> np.ndarray:
    mask = rng.random(shape) < 0.6
    mask[..., 2, :] = False
    mask[..., 3, :] = False
    mask[..., 3, 5] = True
    return mask


def _bias(rng: np.random.Generator, fill: float) -> np.ndarray:
    """A bias that fills most of some rows, and all of one."""
    bias = _normal(rng, 2, 4, 13, 17)
    bias[..., 4:8, 6:] = fill
    bias[..., 9, :] = fill
    return bias


CASES: dict[str, Callable[[np.random.Generator], Case]] = {
    "plain": _plain,
    "causal_top_left": lambda rng: _plain(rng, causal="top_left"),
    "causal_bottom_right": lambda rng: _plain(rng, causal="bottom_right"),
    "more_queries_than_keys": lambda rng: _sized(rng, 19, 7, causal="bottom_right"),
    "window": lambda rng: _plain(rng, window=(3, 2)),
    "open_window": lambda rng: _plain(rng, window=(None, 1)),
    "causal_window": lambda rng: _plain(rng, causal="bottom_right", window=(4, None)),
    "segments": lambda rng: _sized(rng, 17, 17, segments=[0, 3, 3, 12, 13, 17]),
    "segments_causal": lambda rng: _sized(
        rng, 17, 17, segments=[0, 9, 17], causal="top_left", window=(4, None)
    ),
    "segments_mask": lambda rng: _sized(rng, 17, 17, segments=[0, 5, 17], mask=_mask(rng, 17, 17)),
    "mask_whole": lambda rng: _plain(rng, mask=_mask(rng, 2, 4, 13, 17)),
    "mask_of_heads": lambda rng: _plain(rng, mask=_mask(rng, 4, 13, 17)),
    "mask_of_padding": lambda rng: _plain(rng, mask=rng.random((2, 1, 1, 17)) < 0.5),
    "mask_of_rows": lambda rng: _plain(rng, mask=rng.random((1, 1, 13, 1)) < 0.5),
    "mask_and_causal": lambda rng: _plain(rng, mask=_mask(rng, 13, 17), causal="top_left"),
    "nothing_visible": lambda rng: _plain(rng, mask=np.zeros((13, 17), dtype=np.bool_)),
    "bias": lambda rng: _plain(rng, bias=3.0 * _normal(rng, 4, 13, 17)),
    "bias_of_keys": lambda rng: _plain(rng, bias=_normal(rng, 17)),
    "bias_minus_infinity": lambda rng: _plain(rng, bias=_bias(rng, -np.inf)),
    "bias_minus_1e9": lambda rng: _plain(rng, bias=_bias(rng, -1e9)),
    "bias_minus_1e4": lambda rng: _plain(rng, bias=_bias(rng, -1e4), causal="top_left"),
    "bias_lowest": lambda rng: _plain(rng, bias=_bias(rng, -3.3e38), mask=_mask(rng, 13, 17)),
    "softcap": lambda rng: _plain(rng, softcap=1.5),
    "softcap_bias_causal": lambda rng: _plain(
        rng, softcap=2.0, bias=_normal(rng, 4, 13, 17), causal="bottom_right"
    ),
    "scale_negative": lambda rng: _plain(rng, scale=-0.7),
    "scale_zero": lambda rng: _plain(rng, scale=0.0),
    "one_key": lambda rng: _sized(rng, 5, 1),
    "one_query": lambda rng: _sized(rng, 1, 9, causal="bottom_right"),
    "no_queries": lambda rng: _sized(rng, 0, 9, causal="top_left"),
    "no_keys": lambda rng: _sized(rng, 5, 0),
    "saturated": lambda rng: _scaled_to(rng, 200.0),
    "scores_to_1e4": lambda rng: _scaled_to(rng, 1e4),
    "scores_to_1e4_causal": lambda rng: _scaled_to(rng, 1e4, causal="bottom_right"),
    "scores_to_1e4_softcap": lambda rng: _scaled_to(rng, 1e4, softcap=50.0),
    "mean_of_300": _offset,
    "mean_of_300_window": lambda rng: _offset(rng, window=(6, 0)),
    "mean_of_300_mask": lambda rng: _offset(rng, mask=_mask(rng, 13, 17)),
    "mean_of_300_softcap": lambda rng: _offset(rng, softcap=30.0),
    "equal_keys": lambda rng: replace(_plain(rng), key=np.full((2, 2, 17, 8), 0.3)),
    "no_batch": lambda rng: Case(query=_normal(rng, 4, 6, 8), key=_normal(rng, 4, 7, 8)),
    "no_heads": lambda rng: Case(query=_normal(rng, 6, 8), key=_normal(rng, 7, 8)),
}


def heads_of(
    case: Case, *, largest_score: float, inputs: Any = None, value: Any = None
) -> list[Head]:
    """Spell out each head of a case with loops: the definition of definitions."""
    query, key = (x.reshape((1,) * (4 - x.ndim) + x.shape) for x in (case.query, case.key))
    batch, num_heads, queries, head_dim = query.shape
    keys, group = key.shape[2], num_heads // key.shape[1]
    arguments = case.arguments
    scale = arguments.get("scale", 1.0 / np.sqrt(head_dim))
    shape = (batch, num_heads, queries, keys)
    bias = np.broadcast_to(arguments.get("bias", np.zeros(())), shape)
    mask = np.broadcast_to(arguments.get("mask", np.ones((), dtype=np.bool_)), shape)
    heads = []
    for head in range(num_heads):
        visible = np.zeros((batch, queries, keys), dtype=np.bool_)
        scores, final = np.zeros(visible.shape), np.zeros(visible.shape)
        for at in np.ndindex(*visible.shape):
            element, i, j = at
            scores[at] = scale * np.dot(query[element, head, i], key[element, head // group, j])
            cap = arguments.get("softcap")
            capped = scores[at] if cap is None else cap * np.tanh(scores[at] / cap)
            final[at] = capped + bias[element, head, i, j]
            visible[at] = (
                mask[element, head, i, j]
                and bias[element, head, i, j] != -np.inf
                and _within(arguments, i, j, queries, keys)
            )
        heads.append(
            Head(
                scores=scores.reshape(-1, keys) if keys else np.zeros((batch * queries, 0)),
                final=final.reshape(-1, keys) if keys else np.zeros((batch * queries, 0)),
                visible=visible.reshape(batch * queries, keys),
                query=query[:, head],
                key=key[:, head // group],
                value=None if value is None else value[:, head // group],
                inputs=inputs,
                scale=scale,
                head_dim=head_dim,
                largest_score=largest_score,
            )
        )
    return heads


def _within(arguments: Arrays, i: int, j: int, queries: int, keys: int) -> bool:
    begins = arguments.get("segments", [0])[1:]
    if any((i < begin) != (j < begin) for begin in begins):
        return False
    causal = arguments.get("causal")
    diagonal = i + (keys - queries if causal == "bottom_right" else 0)
    left, right = arguments.get("window", (None, None))
    return (
        (causal is None or j <= diagonal)
        and (left is None or j >= diagonal - left)
        and (right is None or j <= diagonal + right)
    )
