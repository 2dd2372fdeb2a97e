"""The table of a datasheet: every fact in words that stand for themselves."""

from __future__ import annotations

from collections.abc import Iterator

from rootdk.identify.properties_mask import mask_properties
from rootdk.identify.wording import number, signed
from rootdk.records import Behaviour, PrecisionFacts, Property, ScaleFacts, ScalePoint

__all__ = ["properties_of"]


def properties_of(behaviour: Behaviour) -> tuple[Property, ...]:
    """Return the properties, those that matter most first.

    A value depends on what the function does and not on rounding, so that two datasheets can be
    compared; a note may hold digits.
    """
    return tuple(_every(behaviour))


def _every(behaviour: Behaviour) -> Iterator[Property]:
    yield from _scale(behaviour)
    yield from _scores(behaviour)
    yield from _softmax(behaviour)
    yield from mask_properties(behaviour)
    yield from _heads(behaviour)
    yield from _arguments(behaviour)
    yield from _precision(behaviour)
    yield from _gradients(behaviour)
    yield from _paths(behaviour)


def _scale(behaviour: Behaviour) -> Iterator[Property]:
    scale = behaviour.scale
    if scale is None:
        return
    law = scale.law
    sizes = scale.points[0].sizes if scale.points else None
    where = f"{number(scale.value)} at head_dim {sizes.head_dim}" if sizes else number(scale.value)
    if scale.varies:
        one = scale.varies[0]
        low, high = min(one.scales), max(one.scales)
        value = f"differs by {one.along}: {number(low)} to {number(high)}"
        yield Property(key="scale", label="scale", value=value)
        return
    if law is not None and law.name is not None:
        also = law.readings[1:]
        value = law.name + (f" (or {', '.join(also)})" if also else "")
        value += "".join(f"; {number(p.scale)} {_where_single(p, scale)}" for p in scale.apart)
        yield Property(
            key="scale", label="scale", value=value, note=f"{where}; {_exponents(scale)}"
        )
        return
    value = f"{number(scale.value)}, by no law that was found"
    note = _exponents(scale) if law is not None else "measured at one set of sizes"
    yield Property(
        key="scale", label="scale", value=value, note=note, number=scale.value,
        within=1e-3 * abs(scale.value),
    )  # fmt: skip


def _where_single(point: ScalePoint, scale: ScaleFacts) -> str:
    base = scale.points[0].sizes
    changed = (n for n in ("queries", "heads", "batch") if getattr(base, n) != 1)
    return next(f"where {n} is 1" for n in changed if getattr(point.sizes, n) == 1)


def _exponents(scale: ScaleFacts) -> str:
    """Return the fitted exponents; those of sizes that were not varied are left out."""
    law = scale.law
    if law is None:
        return ""
    words = []
    for name in ("head_dim", "keys", "queries", "heads", "batch", "value_dim"):
        one = getattr(law, name)
        if one is not None and one.uncertainty < 1.0:
            words.append(f"{name} {signed(one.value)}")
    return "exponents " + ", ".join(words) if words else ""


def _scores(behaviour: Behaviour) -> Iterator[Property]:
    scale = behaviour.scale
    if scale is not None and scale.normalised is not None:
        value = "cosine of query and key" if scale.normalised else "q·k"
        yield Property(key="scores", label="scores", value=value)
    cap = behaviour.softcap
    if cap is not None:
        form = {"tanh": "by tanh", "clamp": "by clipping", "other": "in no known form"}[cap.form]
        yield Property(
            key="softcap", label="softcap", value=f"{number(cap.value)} {form}",
            number=cap.value, within=5e-3 * cap.value,
        )  # fmt: skip
    elif scale is not None and scale.linear:
        yield Property(key="softcap", label="softcap", value="none")
    bias = behaviour.bias
    if bias is not None:
        value = {
            "none": "none",
            "alibi": f"linear in the position: slopes {', '.join(map(number, bias.slopes))}",
            "relative": "by key − query",
            "per-position": "by position",
        }[bias.kind]
        yield Property(key="bias", label="own bias", value=value)


def _softmax(behaviour: Behaviour) -> Iterator[Property]:
    facts = behaviour.softmax
    if facts is None:
        return
    if facts.axis is not None:
        value = f"over {facts.axis}" if facts.axis != "unknown" else "no axis found"
        if facts.times == 2:
            value += ", twice"
        if facts.renormalised:
            value += ", rows then divided by their sum"
        yield Property(key="softmax", label="softmax", value=value)
    if facts.sink is not None:
        plus = all(abs(s) < 1e-3 for s in facts.sink)
        what = "1 (softmax plus one)" if plus else f"e^{number(facts.sink[0])} at the first head"
        yield Property(key="rows", label="rows", value=f"the denominator holds a further {what}")
    elif facts.factor is not None:
        law = facts.factor_law
        value = law.name if law is not None and law.name else number(facts.factor)
        yield Property(key="rows", label="rows", value=f"sum to {value}, not to 1")
    elif facts.rows_normalised:
        yield Property(key="rows", label="rows", value="sum to 1")
    elif facts.row_sum_min is not None and facts.row_sum_max is not None:
        low, high = number(facts.row_sum_min, 3), number(facts.row_sum_max, 3)
        yield Property(key="rows", label="rows", value=f"do not sum to 1: {low} to {high}")
    if facts.lowest_weight:
        low = number(facts.lowest_weight, 3)
        yield Property(key="negative", label="weights", value=f"some are negative, down to {low}")


def _heads(behaviour: Behaviour) -> Iterator[Property]:
    heads = behaviour.heads
    if heads is None:
        return
    if heads.swapped:
        yield Property(key="heads", label="heads", value="attended over in place of keys")
    if heads.pattern is not None and heads.kv_map is not None:
        by = f", with {heads.needs_argument}" if heads.needs_argument else ""
        shown = ", ".join(map(str, heads.kv_map))
        word = {"other": "in no known order"}.get(heads.pattern, heads.pattern)
        yield Property(
            key="kv_heads",
            label="shared kv heads",
            value=f"{word}{by}",
            note=f"{len(heads.kv_map)} query heads read {shown}",
        )


def _arguments(behaviour: Behaviour) -> Iterator[Property]:
    for name, fact in behaviour.arguments.items():
        if fact.meaning in ("mask", "causal", "window") and fact.effect == "as-asked":
            continue
        value = {
            "as-asked": "acts as asked",
            "none": "changes nothing",
            "wrong": "acts otherwise than asked",
            "refused": "refused",
        }[fact.effect]
        if fact.effect == "wrong" and fact.detail:
            value += f": {fact.detail}"
        note = fact.detail if fact.effect == "refused" else fact.tried
        yield Property(
            key=f"arguments.{fact.meaning}", label=f"argument {name}", value=value, note=note
        )


def _precision(behaviour: Behaviour) -> Iterator[Property]:
    for dtype, facts in behaviour.precision.items():
        yield Property(
            key=f"precision.{dtype}", label=dtype, value=_rounding(facts), note=_limits(facts)
        )


def _rounding(facts: PrecisionFacts) -> str:
    words = []
    if facts.inner_dtype is not None:
        words.append(f"has the digits of {facts.inner_dtype} inside")
    if facts.error is not None and facts.bound is not None:
        fine = facts.error <= facts.bound
        words.append("right to rounding" if fine else f"off by {number(facts.error, 2)}")
    if facts.shift_breaks_at is not None:
        words.append(f"{facts.shift_outcome} from scores of {facts.shift_breaks_at:g}")
    if facts.product_breaks_at is not None:
        words.append(f"{facts.product_outcome} from products of {facts.product_breaks_at:.3g}")
    if facts.softmax_dtype is not None and facts.softmax_dtype != "float32":
        words.append(f"softmax in {facts.softmax_dtype}")
    return ", ".join(words) or "not compared"


def _limits(facts: PrecisionFacts) -> str:
    words = []
    if facts.bound is not None:
        words.append(f"bound {number(facts.bound, 2)}")
    if facts.shift_breaks_at is None and facts.shift_reached is not None:
        words.append(f"scores to {facts.shift_reached:g}")
    if facts.product_breaks_at is None and facts.product_reached is not None:
        words.append(f"products to {facts.product_reached:.3g}")
    return ", ".join(words)


def _gradients(behaviour: Behaviour) -> Iterator[Property]:
    facts = behaviour.gradients
    if facts is None or facts.query is None or facts.bound is None:
        return
    worst = max(facts.query, facts.key or 0.0, facts.value or 0.0)
    fine = worst <= facts.bound
    value = "right to rounding" if fine else f"off by {number(worst, 2)}"
    if facts.masked_finite is False:
        value += ", NaN under a mask"
    yield Property(key="gradients", label="gradients", value=value)


def _paths(behaviour: Behaviour) -> Iterator[Property]:
    empty = behaviour.call.empty_batch
    if empty is not None:
        words = {"right-shape": "an output of the right shape", "wrong-shape": "another shape"}
        yield Property(key="empty_batch", label="batch of none", value=words.get(empty, "refused"))
    for one in behaviour.paths:
        value = "agree" if one.agrees else f"differ by {number(one.difference, 2)}"
        yield Property(key=f"paths.{one.what}", label=one.what, value=value)
    if behaviour.deterministic is False:
        yield Property(
            key="deterministic", label="two equal calls", value="differ in the last digits or more"
        )
