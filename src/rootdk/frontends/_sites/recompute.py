"""Recompute sampled rows from what the graph claims, and compare with what was observed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from rootdk.frontends._graph.axes import Axes
from rootdk.frontends._graph.node import Node
from rootdk.frontends._graph.product import Product
from rootdk.frontends._graph.scores import ScoreLine, ScoreStep
from rootdk.frontends._graph.trail import UnresolvedError
from rootdk.frontends._sites.arrange import leading_labels, operand_tensors
from rootdk.frontends._sites.values import TensorValues

__all__ = ["Mismatch", "Sample", "check_weights", "dot_products", "draw_sample", "eps_of"]

_INVISIBLE = -1e3


@dataclass
class Mismatch:
    """The largest difference found, what the dtype allows, and over how many rows."""

    rows: int
    difference: float
    bound: float

    @property
    def within(self) -> bool:
        return self.difference <= self.bound or self.difference == 0.0


@dataclass
class Sample:
    """Index arrays (samples, along) of the label values, and which entries the product made."""

    index: dict[str, torch.Tensor]
    valid: torch.Tensor
    places: list[torch.Tensor]


def eps_of(dtype: torch.dtype | str) -> float:
    """The relative precision of a floating dtype (of float32 for anything else)."""
    if isinstance(dtype, str):
        dtype = getattr(torch, dtype, torch.float32)
    return float(torch.finfo(dtype).eps) if dtype.is_floating_point else 2.0**-23


def draw_sample(axes: Axes, dim: int, rows: int, generator: torch.Generator) -> Sample:
    """Draw rows along ``dim`` of a tensor with these axes, evenly over all the others."""
    shape = axes.shape
    along = shape[dim]
    total = 1
    for position, size in enumerate(shape):
        total *= size if position != dim else 1
    count = min(rows, total)
    chosen = (
        torch.randperm(total, generator=generator)[:count]
        if total <= 1 << 20
        else (torch.randint(total, (count,), generator=generator))
    )
    places: list[torch.Tensor] = []
    rest = chosen
    for position in range(len(shape) - 1, -1, -1):
        if position == dim:
            places.append(torch.arange(along)[None, :])
            continue
        places.append((rest % shape[position])[:, None])
        rest = rest // shape[position]
    places.reverse()
    index: dict[str, torch.Tensor] = {}
    valid = torch.ones(1, along, dtype=torch.bool)
    for position, at in enumerate(places):
        dim_axes = axes.dims[position]
        local = at - dim_axes.start
        size = 1
        for atom in dim_axes.atoms:
            size *= atom.size
        if position == dim:
            valid = (local >= 0) & (local < max(size, 1))
            local = local.clamp(0, max(size - 1, 0))
        for atom in reversed(dim_axes.atoms):
            digit = (local % atom.size) * atom.stride
            index[atom.label] = index[atom.label] + digit if atom.label in index else digit
            local = local // atom.size
    return Sample(index, valid, places)


def _gathered(tensor: torch.Tensor, labels: tuple[str, ...], sample: Sample) -> torch.Tensor:
    """Rows of (…, head_dim) at the sampled label values, in float64."""
    zero = torch.zeros(1, 1, dtype=torch.long)
    where = []
    for label, size in zip(labels, tensor.shape[:-1], strict=True):
        at = sample.index.get(label, zero)
        where.append((at if size != 1 else torch.zeros_like(at)).to(tensor.device))
    return tensor[tuple(where)].double()


def dot_products(product: Product, sample: Sample) -> tuple[torch.Tensor, torch.Tensor]:
    """q·k and |q||k| at the sampled places, (samples, along), in float64."""
    rows, columns = operand_tensors(product)
    one = _gathered(rows, (*leading_labels(product, rows.dim()), "Q"), sample)
    two = _gathered(columns, (*leading_labels(product, columns.dim()), "K"), sample)
    dots = (one * two).sum(-1)
    sizes = one.norm(dim=-1) * two.norm(dim=-1)
    return dots, sizes


def recompute(
    line: ScoreLine, product: Product, sample: Sample, scale: float, values: TensorValues
) -> tuple[torch.Tensor, torch.Tensor]:
    """The final scores at the sampled places from the claimed scale and steps; and |q||k|·c."""
    dots, sizes = dot_products(product, sample)
    total = scale
    scores = dots * total
    for position, step in enumerate(line.steps):
        scores = _apply(step, scores, line.factor_after(position), sample, values)
    return scores, sizes * abs(total)


def _side(node: Node, step: ScoreStep, sample: Sample, values: TensorValues) -> torch.Tensor:
    """A side operand at the sampled places."""
    if node.value is not None and not node.shape:
        return torch.tensor(node.value, dtype=torch.float64)
    tensor = values.tensor(node)
    if tensor is None:
        raise UnresolvedError("a mask or bias was no longer held")
    shape = step.axes.shape
    tensor = tensor.reshape((1,) * (len(shape) - tensor.dim()) + tuple(tensor.shape))
    zero = torch.zeros(1, 1, dtype=torch.long)
    where = []
    for dim, have in zip(step.axes.dims, tensor.shape, strict=True):
        at = zero
        for atom in dim.atoms:
            label = sample.index.get(atom.label, zero)
            at = at * atom.size + (label // atom.stride) % atom.size
        where.append((at + dim.start if have != 1 else torch.zeros_like(at)).to(tensor.device))
    out = tensor[tuple(where)]
    return out if out.dtype == torch.bool else out.double()


def _apply(
    step: ScoreStep,
    scores: torch.Tensor,
    after: float,
    sample: Sample,
    values: TensorValues,
) -> torch.Tensor:
    if step.kind == "add" and step.other is not None:
        return scores + step.sign * after * _side(step.other, step, sample, values).double()
    if step.kind == "multiply" and step.other is not None:
        side = _side(step.other, step, sample, values).double()
        return scores / side if step.node.op == "div" else scores * side
    if step.kind == "fill" and step.other is not None:
        mask = _side(step.other, step, sample, values)
        hit = (mask == 0) if step.keep_when else (mask != 0)
        fill = torch.full_like(scores, float(step.value or 0.0) * after)
        return torch.where(hit, fill, scores)
    if step.kind == "softcap":
        return torch.tanh(scores / after) * after
    if step.kind == "clamp":
        return (scores / after).clamp(min=step.low, max=step.value) * after
    if step.kind == "extra":
        return _extended(step, scores, after, sample, values)
    return scores


def _extended(
    step: ScoreStep, scores: torch.Tensor, after: float, sample: Sample, values: TensorValues
) -> torch.Tensor:
    """Concatenated columns (a sink): their own values where the product made none."""
    node, dim = step.node, step.node.attrs["dim"]
    parts = []
    for position, source in enumerate(node.inputs):
        if position == int(step.value or 0):
            parts.append(torch.full(source.shape, float("nan")))
            continue
        held = values.tensor(source)
        if held is None:
            raise UnresolvedError("a concatenated column was no longer held")
        parts.append(held.double().cpu())
    # The places are those of the softmax; they are the same here unless axes moved in between.
    if len(sample.places) != len(node.shape):
        raise UnresolvedError("concatenated scores were reshaped before the softmax")
    whole = torch.cat([p.double() for p in parts], dim)
    extra = whole[tuple(torch.broadcast_tensors(*sample.places))]
    return torch.where(sample.valid, scores, extra * after)


def check_weights(
    line: ScoreLine,
    sample: Sample,
    scale: float,
    observed: torch.Tensor,
    argument: torch.Tensor | None,
    score_dtype: str,
    values: TensorValues,
    ratio_only: bool,
) -> Mismatch:
    """Compare recomputed with observed weights, and scores where they are at hand."""
    scores, sizes = recompute(line, line.product, sample, scale, values)
    scores = scores.expand(torch.broadcast_shapes(scores.shape, sample.valid.shape)).contiguous()
    places = torch.broadcast_tensors(*sample.places)
    seen = observed[tuple(p.to(observed.device) for p in places)].double().cpu()
    scores, sizes = scores.cpu(), sizes.cpu()
    eps = eps_of(score_dtype)
    # A row whose keys are all hidden by a finite fill has lost its scores to rounding.
    alive = (torch.isfinite(scores) & (scores > _INVISIBLE)).any(-1)
    alive &= torch.isfinite(sizes).all(-1)
    # The error of a sum of n products grows with its depth.
    depth = 4.0 + math.log2(max(line.product.rows.shape[-1] if line.product.rows.shape else 1, 2))
    slack = eps * (16.0 + 2.0 * depth * sizes.amax(-1) + 4.0 * _largest(scores))
    worst, bound = 0.0, 0.0
    if argument is not None:
        given = argument[tuple(p.to(argument.device) for p in places)].double().cpu()
        both = torch.isfinite(given) & torch.isfinite(scores) & (given > _INVISIBLE)
        both &= alive[:, None] & torch.isfinite(sizes)
        apart = torch.where(both, given - scores, torch.zeros_like(given))
        if line.shifted:
            # A number per row was subtracted before the softmax; it changes nothing.
            apart = apart - apart.sum(-1, keepdim=True) / both.sum(-1, keepdim=True).clamp(min=1)
        off = torch.where(both, apart.abs(), torch.zeros_like(given))
        allowed = eps * (depth * sizes + 4.0 * given.abs().nan_to_num(0.0) + 1e-3 * sizes.amax())
        allowed = allowed.expand_as(off) + 1e-30
        excess = (off / allowed).nan_to_num(0.0)
        if excess.numel():
            place = int(excess.reshape(-1).argmax())
            worst = float(off.reshape(-1)[place])
            bound = float(allowed.reshape(-1)[place])
            if worst > bound:
                return Mismatch(int(alive.sum()), worst, 0.0 if math.isnan(bound) else bound)
    weights = torch.softmax(scores, -1)
    if ratio_only:
        seen = seen / seen.sum(-1, keepdim=True)
    alive &= torch.isfinite(seen).all(-1) & torch.isfinite(weights).all(-1)
    gap = (weights - seen).abs()
    allowed = 4.0 * eps_of(observed.dtype) * (1.0 + 0.0 * weights) + 2.0 * weights * slack[:, None]
    allowed = allowed.clamp(max=1.0).nan_to_num(0.0)
    gap = torch.where(alive[:, None], gap, torch.zeros_like(gap))
    if gap.numel():
        place = int((gap - allowed).reshape(-1).argmax())
        if float(gap.reshape(-1)[place]) > float(allowed.reshape(-1)[place]) or argument is None:
            worst = float(gap.reshape(-1)[place])
            bound = float(allowed.reshape(-1)[place])
    return Mismatch(int(alive.sum()), worst, 0.0 if math.isnan(bound) else bound)


def _largest(scores: torch.Tensor) -> torch.Tensor:
    finite = torch.where(
        torch.isfinite(scores) & (scores > _INVISIBLE), scores.abs(), torch.zeros_like(scores)
    )
    return finite.amax(-1)
