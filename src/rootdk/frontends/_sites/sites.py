"""From what was collected during the pass to AttentionSite records."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Literal

from rootdk.frontends._graph.declared import declared_initial_std, declared_scale
from rootdk.frontends._graph.node import LAYOUT, Node
from rootdk.frontends._graph.tags import behind_layout
from rootdk.frontends._graph.trail import FactorStep, Trail
from rootdk.frontends._sites.attend import Attending
from rootdk.frontends._sites.numbers import eps_of
from rootdk.frontends._sites.pending import Pending
from rootdk.frontends._sites.recording import Recording
from rootdk.records import (
    AttentionSite,
    Factor,
    Normalisation,
    Observed,
    OperandPath,
    Verification,
)
from rootdk.stats import Summary

__all__ = ["ConfigsAt", "build_sites", "faults_of"]

ConfigsAt = Callable[[str], Iterable[Any]]


def build_sites(
    pending: list[Pending],
    target: str,
    configs_at: ConfigsAt,
    *,
    unconfigured: str | None = None,
) -> tuple[tuple[AttentionSite, ...], dict[str, Summary]]:
    """Name the sites, in the order in which they ran, and describe each.

    ``target`` is the name of a site in no module; ``configs_at`` gives the configs that speak of
    a module path, the nearest first. ``unconfigured`` says why there can be none.
    """
    calls: Counter[str] = Counter()
    counts = Counter(_path(p) for p in pending)
    sites: list[AttentionSite] = []
    summaries: dict[str, Summary] = {}
    for item in pending:
        path = _path(item)
        calls[path] += 1
        name = path or target
        if counts[path] > 1:
            name = f"{name}#{calls[path]}"
        site = _site(item, name, path, calls[path] - 1)
        site = _with_declaration(site, configs_at(path), unconfigured)
        sites.append(site)
        if item.summary is not None and site.resolved:
            summaries[name] = item.summary
    return tuple(sites), summaries


def faults_of(attending: Attending, recording: Recording) -> tuple[str, ...]:
    """Sites at which the tracer itself failed are unresolved, and said."""
    remarks: list[str] = []
    for node, said in recording.faults:
        pending = attending.of(node)
        if pending is not None:
            pending.unresolved = pending.unresolved or f"the tracer failed here ({said})"
        else:
            remarks.append(f"the tracer failed at {node.source} in {node.module_path!r}: {said}")
    return tuple(dict.fromkeys(remarks))


def _path(pending: Pending) -> str:
    return pending.node.module_path


def _site(pending: Pending, name: str, path: str, call_index: int) -> AttentionSite:
    factors = _factors(pending)
    constants = [f.value for f in factors if f.kind == "constant" and f.place != "weights"]
    scale = float(math.prod(v for v in constants if v is not None))
    resolved = pending.unresolved is None
    product, shapes = pending.product_node, pending.shapes
    widths = pending.line.widths if pending.line is not None else ()
    return AttentionSite(
        name=name,
        spelling=pending.spelling,
        batch=shapes["batch"],
        num_heads=shapes["num_heads"],
        num_kv_heads=shapes["num_kv_heads"],
        kv_map=pending.kv_map if resolved else None,
        value_map=pending.value_map if resolved else None,
        repeat_source=pending.repeated.source if pending.repeated is not None else None,
        queries=shapes["queries"],
        keys=shapes["keys"],
        head_dim=shapes["head_dim"],
        value_dim=pending.value_dim,
        hidden=pending.hidden or _hidden(pending.query_trail),
        layer=_layer(path),
        attends_over=pending.along,
        module_path=path,
        call_index=call_index,
        source=(pending.place or pending.node).source,
        product_source=product.source if product is not None else None,
        factors=factors,
        output_factors=_output_factors(pending, factors),
        effective_scale=scale if resolved else None,
        scale_precision=max((f.precision for f in factors), default=0.0),
        score_terms=1 + len(widths),
        term_widths=widths,
        rotated=_rotated(pending.query_trail, pending.key_trail),
        query_path=_operand_path(pending.query_trail),
        key_path=_operand_path(pending.key_trail),
        softcap=pending.softcap,
        addends=tuple(pending.addends),
        causal=pending.causal,
        diagonal=pending.diagonal.offset if pending.diagonal is not None else None,
        only_later=pending.diagonal is not None and pending.diagonal.inverted,
        normalisation=_normalisation(pending),
        observed=_observed(pending),
        score_dtype=pending.score_dtype,
        autocast=pending.autocast,
        dropout=pending.dropout,
        dropout_source=pending.dropout_node.source if pending.dropout_node else None,
        training=pending.training,
        verification=_verification(pending),
        unresolved=pending.unresolved,
    )


def _factors(pending: Pending) -> tuple[Factor, ...]:
    found = [_factor(step, place) for step, place in pending.factors]
    found = _joined_roots(found, pending.factors)
    if pending.weights is not None:
        found.extend(_factor(step, "weights") for step in pending.weights.factors)
    after = pending.observed.get("after_output")
    if isinstance(after, FactorStep) and after.value is not None:
        scale = math.prod(f.value for f in found if f.value is not None)
        if _looks_misplaced(after.value, scale, pending.shapes):
            found.append(_factor(after, "weights"))
    return tuple(found)


def _output_factors(pending: Pending, factors: tuple[Factor, ...]) -> tuple[Factor, ...]:
    """What multiplies the values or the output, and none of it the scores as well.

    A multiple that is added to something else is a weight among branches.
    """
    after = pending.observed.get("after_output")
    steps = list(pending.value_factors)
    if isinstance(after, FactorStep) and "output_added" not in pending.observed:
        steps.append(after)
    scores = {step.node.index for step, _ in pending.factors}
    found = (_factor(step, "output") for step in steps if step.node.index not in scores)
    taken = {factor.source for factor in factors if factor.place == "weights"}
    return tuple(factor for factor in found if factor.source not in taken)


def _looks_misplaced(value: float, scale: float, shapes: dict[str, int]) -> bool:
    """Whether a factor on the output is the scale that the scores are missing."""
    standard = float(shapes.get("head_dim") or 1) ** -0.5
    missing = abs(scale - standard) > 1e-3 * standard
    return bool(missing and abs(value - standard) <= 1e-3 * standard)


def _joined_roots(found: list[Factor], steps: list[tuple[FactorStep, str]]) -> list[Factor]:
    """A decomposed library call multiplies q and k by √scale each: one factor of the kernel."""
    roots = [
        i
        for i, (step, place) in enumerate(steps)
        if place in {"query", "key"} and step.node.attrs.get("overload") == "Scalar"
    ]
    if len(roots) != 2 or {steps[i][1] for i in roots} != {"query", "key"}:
        return found
    one, two = (found[i] for i in roots)
    if one.source != two.source or one.value is None or two.value is None:
        return found
    joined = replace(
        one,
        value=one.value * two.value,
        place="kernel",
        origin="scale of scaled_dot_product_attention",
    )
    return [f for i, f in enumerate(found) if i not in roots] + [joined]


def _factor(step: FactorStep, place: Any) -> Factor:
    kind: Any = step.kind
    return Factor(
        value=step.value,
        place=place,
        kind=kind,
        origin=step.origin,
        source=step.node.source,
        precision=_precision(step),
    )


def _precision(step: FactorStep) -> float:
    """The precision that a constant was stored in: its own tensor's, float64 for a number."""
    node = step.node
    if "scalar_dtype" in node.attrs:
        return eps_of(node.attrs["scalar_dtype"])
    if "scalar" in node.attrs or node.op == "fused" or len(node.inputs) < 2:
        return 0.0
    sides = [s for s in node.inputs if s.value is not None or s.kind <= 1]
    floats = [s for s in sides if s.dtype in {"float16", "bfloat16", "float32"}]
    return max((eps_of(s.dtype) for s in floats), default=0.0)


def _operand_path(trail: Trail | None) -> OperandPath | None:
    if trail is None:
        return None
    terminal = next(iter(sorted(trail.terminals, key=lambda n: n.index)), None)
    kind: Any = trail.kind
    return OperandPath(
        terminal=kind,
        module_path=terminal.module_path if terminal is not None else "",
        source=terminal.source if terminal is not None else None,
        normalised=trail.normalised,
        learned_gain=trail.learned_gain,
        rotary=trail.rotary,
        steps=tuple(dict.fromkeys(trail.steps)),
    )


def _rotated(query: Trail | None, key: Trail | None) -> Literal["both", "query", "key"] | None:
    """Which side was rotated by position, where both are projections of the same tensor."""
    if query is None or key is None or not (query.rotary or key.rotary):
        return None
    read = _reads(query)
    if read is None or _reads(key) is not read:
        return None
    return "both" if query.rotary and key.rotary else "query" if query.rotary else "key"


def _reads(trail: Trail) -> Node | None:
    """What the projection at the end of a trail reads, if nothing else can stand in between."""
    node = next(iter(trail.terminals)) if len(trail.terminals) == 1 else None
    for _ in range(12):
        if node is None or not node.inputs:
            return None
        if node.op in {"matmul", "linear"}:
            return behind_layout(max(node.inputs[:2], key=lambda n: n.kind))
        if node.op not in (LAYOUT | {"norm"}) - {"cat", "stack", "assemble"}:
            return None
        node = node.inputs[0]
    return None


def _hidden(trail: Trail | None) -> int | None:
    """The width of what enters the query projection."""
    if trail is None or not trail.terminals:
        return None
    node = min(trail.terminals, key=lambda n: n.index)
    for _ in range(8):
        if node.op in {"matmul", "linear"}:
            source = max(node.inputs[:2], key=lambda n: n.kind)
            return source.shape[-1] if source.shape else None
        if node.op == "conv":
            return node.inputs[0].shape[1] if len(node.inputs[0].shape) > 1 else None
        if not node.inputs:
            return node.shape[-1] if node.shape else None
        node = node.inputs[0]
    return None


def _layer(path: str) -> int | None:
    numbers = re.findall(r"(?:^|\.)(\d+)(?=\.|$)", path)
    return int(numbers[0]) if numbers else None


def _normalisation(pending: Pending) -> Normalisation:
    facts = dict(pending.normalisation)
    weights, line = pending.weights, pending.line
    sink = bool(facts.pop("sink", False))
    if line is not None:
        sink = sink or any(step.kind == "extra" for step in line.steps)
    bounded = line.bounded_by if line is not None else None
    trails = [t for t in (pending.query_trail, pending.key_trail) if t is not None]
    if bounded is None and len(trails) == 2 and all(t.normalised for t in trails):
        bounded = "normalisation"
    renormalised = weights.renormalised if weights is not None else None
    return Normalisation(
        axis=pending.axis,
        bounded_by=bounded,
        sink=sink,
        second_normalisation=renormalised is not None and pending.axis != "keys",
        softmax_again=weights.softmax.source if weights and weights.softmax else None,
        mask_after=weights.mask.source if weights and weights.mask else None,
        renormalised_after_mask=renormalised is not None,
        **facts,
    )


def _observed(pending: Pending) -> Observed:
    keys = Observed.__dataclass_fields__.keys()
    return Observed(**{k: v for k, v in pending.observed.items() if k in keys})


def _verification(pending: Pending) -> Verification:
    mismatch = pending.mismatch
    if mismatch is None:
        return Verification(operands=pending.operands)
    return Verification(
        rows=mismatch.rows,
        mismatch=mismatch.difference,
        bound=mismatch.bound,
        operands=pending.operands,
    )


def _with_declaration(
    site: AttentionSite, configs: Iterable[Any], unconfigured: str | None
) -> AttentionSite:
    """What a config says about the scale of this site, and the size of its initial weights."""
    known = tuple(configs)
    return replace(
        site,
        expected=declared_scale(known, site),
        initial_std=declared_initial_std(known),
        unconfigured=unconfigured,
    )
