"""Statistics and observations of one site, taken while its tensors are alive."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rootdk.engines import measure
from rootdk.frontends._graph.node import LAYOUT, Kind, Node
from rootdk.frontends._graph.scores import ScoreLine, ScoreStep
from rootdk.frontends._graph.trail import UnresolvedError
from rootdk.frontends._sites.arrange import Arrangement, leading_labels
from rootdk.frontends._sites.values import TensorValues
from rootdk.records import Addend
from rootdk.stats import Summary

if TYPE_CHECKING:
    from rootdk.frontends._sites.pending import Pending

__all__ = [
    "Masks",
    "alignment",
    "hidden_by",
    "largest_raw_score",
    "measure_call",
    "measure_site",
    "observe",
]

# An additive mask writes at least this far below zero; a bias of a model stays above it.
MASK_BELOW = -9e3
# A tensor of exactly two values, 0 and something at least this low, is a mask as well.
_TWO_VALUED_BELOW = -40.0


@dataclass
class Masks:
    """What hides keys, and what is added, as the engines take it; (b, h, queries, keys)."""

    mask: torch.Tensor | None = None
    bias: torch.Tensor | None = None
    usable: bool = True
    extra: bool = False
    suspect: torch.Tensor | None = None

    @classmethod
    def of(
        cls,
        line: ScoreLine,
        arrangement: Arrangement,
        values: TensorValues,
        addends: list[Addend],
    ) -> Masks:
        """Collect them from the steps, and describe each as a record."""
        masks = cls()
        capped = False
        for position, step in enumerate(line.steps):
            after = line.factor_after(position)
            before_cap = any(s.kind == "softcap" for s in line.steps[position + 1 :])
            if step.kind == "add":
                masks._add(step, after, before_cap, arrangement, values, addends)
            elif step.kind == "fill":
                masks._fill(step, after, before_cap, arrangement, values, addends)
            elif step.kind == "extra":
                masks.extra = True
            elif step.kind == "multiply":
                masks.usable = False
            capped = capped or step.kind == "softcap"
        return masks

    def _add(
        self,
        step: ScoreStep,
        after: float,
        before_cap: bool,
        arrangement: Arrangement,
        values: TensorValues,
        addends: list[Addend],
    ) -> None:
        other = step.other
        assert other is not None
        tensor = values.tensor(other)
        if tensor is None and other.value is not None:
            return
        if tensor is None:
            raise UnresolvedError("a mask or bias was no longer held")
        kind, fill, hidden = _classify(other, tensor)
        addends.append(
            Addend(
                kind=kind,
                fill=fill,
                learned=other.kind >= Kind.PARAMETER,
                multiplied_by=after,
                before_softcap=before_cap,
                source=step.node.source,
            )
        )
        given = arrangement.beside(tensor, step.axes)
        if tensor.dtype == torch.bool:
            # Booleans added as numbers hide nothing, whichever of the two was to be hidden.
            self.suspect = given
            self._bias(given.float() * (step.sign * after))
            return
        if hidden is not None:
            self._hide(~arrangement.beside(hidden, step.axes))
        if kind == "mask" and hidden is not None:
            return
        if hidden is not None:
            given = torch.where(arrangement.beside(hidden, step.axes), 0.0, given)
        self._bias(given * (step.sign * after) if step.sign * after != 1.0 else given)

    def _fill(
        self,
        step: ScoreStep,
        after: float,
        before_cap: bool,
        arrangement: Arrangement,
        values: TensorValues,
        addends: list[Addend],
    ) -> None:
        assert step.other is not None
        tensor = values.tensor(step.other)
        if tensor is None:
            raise UnresolvedError("a mask was no longer held")
        visible = (tensor != 0) if step.keep_when else (tensor == 0)
        addends.append(
            Addend(
                kind="mask",
                fill=step.value,
                replaces=True,
                multiplied_by=after,
                before_softcap=before_cap,
                source=step.node.source,
            )
        )
        self._hide(arrangement.beside(visible, step.axes))

    def _hide(self, visible: torch.Tensor) -> None:
        self.mask = visible if self.mask is None else self.mask & visible

    def _bias(self, given: torch.Tensor) -> None:
        self.bias = given if self.bias is None else self.bias + given


def alignment(masks: Masks, queries: int, keys: int) -> Any:
    """Which causal mask the visible keys are exactly, the same for every batch and head."""
    mask = masks.mask
    if mask is None or tuple(mask.shape[-2:]) != (queries, keys) or queries < 2:
        return None
    flat = mask.reshape(-1, queries, keys)
    first = flat[0]
    for name, shift in (("top_left", 0), ("bottom_right", keys - queries)):
        triangle = torch.ones_like(first).tril(shift)
        if bool((first == triangle).all()) and bool((flat == triangle).all()):
            return name
    return None


def hidden_by(tensor: torch.Tensor) -> tuple[float, torch.Tensor | None]:
    """The lowest entry of what is added to scores, and where it hides keys (None: nowhere)."""
    low = float(tensor.min()) if tensor.numel() else 0.0
    if low <= MASK_BELOW or _two_valued(tensor):
        return low, tensor <= max(low, MASK_BELOW)
    return low, None


def _two_valued(tensor: torch.Tensor) -> bool:
    if tensor.numel() == 0 or tensor.is_complex():
        return False
    low = tensor.min()
    return bool(((tensor == 0) | (tensor == low)).all()) and float(low) < _TWO_VALUED_BELOW


def _classify(node: Node, tensor: torch.Tensor) -> tuple[Any, float | None, torch.Tensor | None]:
    """mask, bias or term; the fill; and where keys are hidden."""
    if tensor.dtype == torch.bool:
        # True and False added as 1 and 0: meant as a mask, and none.
        return "mask", 1.0, tensor
    low, hidden = hidden_by(tensor)
    if hidden is not None:
        rest = torch.where(hidden, torch.zeros_like(tensor), tensor)
        if not bool((rest != 0).any()):
            return "mask", low, hidden
        return ("term" if _has_product(node) else "bias"), low, hidden
    if node.on_scores or _has_product(node):
        return "term", None, None
    failed = _failed_mask(node, tensor)
    if failed is not None:
        return "mask", failed, tensor == failed
    return "bias", None, None


def _failed_mask(node: Node, tensor: torch.Tensor) -> float | None:
    """The fill of a constant mask of 0 and one number so small that it forbids nothing."""
    if node.kind > Kind.INDEX or tensor.numel() < 2 or tensor.is_complex():
        return None
    other = tensor[tensor != 0]
    if not other.numel() or other.numel() == tensor.numel():
        return None
    value = float(other.reshape(-1)[0])
    return value if abs(value) < 1e-3 and bool((other == value).all()) else None


def _has_product(node: Node) -> bool:
    """Whether an addend was computed from activations by a product (a second score term)."""
    todo: list[Node] = [node]
    seen: set[int] = set()
    while todo and len(seen) < 200:
        current = todo.pop()
        if current.index in seen or current.kind < Kind.ACTIVATION:
            continue
        seen.add(current.index)
        if current.op in {"matmul", "linear", "conv"}:
            return True
        if current.op in LAYOUT | {
            "add",
            "sub",
            "mul",
            "div",
            "where",
            "masked_fill",
            "sum",
            "neg",
            "nonlinear",
            "clamp",
            "maximum",
            "exp",
            "log",
            "relu",
            "tanh",
        }:
            todo.extend(current.inputs)
    return False


def measure_site(
    pending: Pending,
    rows: torch.Tensor,
    columns: torch.Tensor,
    scale: float,
    masks: Masks,
    value: torch.Tensor | None,
    inputs: torch.Tensor | None,
) -> Summary | None:
    """The statistics of the site, per head."""
    arrangement, line = pending.arrangement, pending.line
    assert arrangement is not None
    assert line is not None
    if not masks.usable:
        return None
    product = line.product
    one = arrangement.operand(rows, leading_labels(product, rows.dim()))
    two = arrangement.operand(columns, leading_labels(product, columns.dim()))
    query, key = (one, two) if pending.axis_label == "K" else (two, one)
    query_trail, key_trail = pending.query_trail, pending.key_trail
    assert query_trail is not None
    assert key_trail is not None
    query_factor, key_factor = query_trail.constant, key_trail.constant
    return measure_call(
        query,
        key,
        scale * query_factor * key_factor,
        query_factor,
        key_factor,
        mask=masks.mask,
        bias=masks.bias,
        softcap=line.softcap,
        score_dtype=pending.score_dtype,
        inputs=inputs,
        value=value,
    )


def measure_call(
    query: torch.Tensor,
    key: torch.Tensor,
    scale: float,
    query_factor: float,
    key_factor: float,
    *,
    mask: torch.Tensor | None,
    bias: torch.Tensor | None,
    softcap: float | None,
    score_dtype: str,
    causal: Any = None,
    value: torch.Tensor | None = None,
    inputs: torch.Tensor | None = None,
) -> Summary:
    """Measure with the constant factors moved off the operands and into the scale."""
    working = torch.float32 if query.element_size() < 4 else query.dtype
    if query_factor not in {1.0, 0.0}:
        query = query.to(working) / query_factor
    if key_factor not in {1.0, 0.0}:
        key = key.to(working) / key_factor
    if query.dtype != key.dtype:
        query, key = query.to(working), key.to(working)
    if bias is not None:
        bias = bias.to(query.dtype)
    if value is not None and value.dtype != query.dtype:
        value = value.to(query.dtype)
    return measure(
        query.detach(),
        key.detach(),
        value,
        scale=scale,
        mask=mask,
        bias=bias,
        causal=causal,
        softcap=softcap,
        score_dtype=score_dtype,
        inputs=inputs,
    )


def largest_raw_score(line: ScoreLine, summary: Summary) -> float | None:
    """The largest |query·key| as the product's own dtype had to hold it, before later factors.

    A factor inside the product (alpha of baddbmm) is applied before the result is rounded.
    """
    later = (s for s in line.steps if s.kind == "factor" and s.node is not line.product.node)
    scale = math.prod(abs(s.value) for s in later if s.value is not None)
    ends = np.abs(np.concatenate([summary["min_score"], summary["max_score"]]))
    ends = ends[np.isfinite(ends)]
    return float(ends.max()) / scale if scale and ends.size else None


def observe(
    pending: Pending,
    weights: torch.Tensor,
    argument: torch.Tensor | None,
    dim: int,
    masks: Masks,
    rows: torch.Tensor,
    columns: torch.Tensor,
) -> dict[str, Any]:
    """Counts and extremes read off the tensors of one softmax."""
    found: dict[str, Any] = {}
    bad = sum(int((~torch.isfinite(t)).sum()) for t in (rows, columns))
    found["nonfinite_inputs"] = bad
    if argument is not None:
        found["nonfinite_scores"] = _not_finite(argument)
    sums = weights.sum(dim, dtype=torch.float32 if weights.element_size() < 4 else None)
    alive = torch.isfinite(sums) & (sums != 0)
    if bool(alive.any()):
        found["row_sum_min"] = float(sums[alive].min())
        found["row_sum_max"] = float(sums[alive].max())
    forbidden = _forbidden(pending, weights, dim, masks)
    if forbidden is not None:
        found["forbidden_weight"], found["empty_rows_nan"] = forbidden
    return found


def _not_finite(scores: torch.Tensor) -> int:
    """NaN and +inf entries; -inf is how a mask speaks."""
    return int((torch.isnan(scores) | (scores == float("inf"))).sum())


def _forbidden(
    pending: Pending, weights: torch.Tensor, dim: int, masks: Masks
) -> tuple[float | None, int] | None:
    """The largest weight on a hidden key in a row that has a visible one; NaN empty rows."""
    arrangement, axes = pending.arrangement, pending.axes
    hiding = masks.mask if masks.suspect is None else masks.suspect
    if hiding is None or arrangement is None or axes is None or masks.extra:
        return None
    if dim != len(axes.dims) - 1 or pending.axis_label != "K" or pending.axis != "keys":
        return None
    try:
        ordered = arrangement.beside(weights, axes)
    except UnresolvedError:
        return None
    largest, nans = _weight_beyond(ordered, hiding)
    if masks.suspect is not None:
        largest = min(largest, _weight_beyond(ordered, ~hiding)[0])
    return largest, nans


def _weight_beyond(weights: torch.Tensor, visible: torch.Tensor) -> tuple[float, int]:
    some = visible.any(-1, keepdim=True)
    nans = torch.isnan(weights).all(-1, keepdim=True) & ~some
    hidden = weights.masked_fill(visible | ~some, 0.0)
    return float(torch.nan_to_num(hidden).max()) if hidden.numel() else 0.0, int(nans.sum())
