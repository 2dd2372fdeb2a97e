"""From the softmax back to the query-key product, step by step.

The result is a straight line of steps in execution order. Constant factors become one number;
what else happens (a softcap, a mask, a bias, a sink column) is kept as a step with the node of
its side operand, so that the weights of any row can be recomputed from the line alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rootdk.frontends._graph.axes import Axes, AxesLostError, advance, plain_axes
from rootdk.frontends._graph.factors import learned_steps
from rootdk.frontends._graph.guards import guarded
from rootdk.frontends._graph.line import ScoreLine, ScoreStep
from rootdk.frontends._graph.node import LAYOUT, Kind, Node
from rootdk.frontends._graph.pieces import is_join, joined_at
from rootdk.frontends._graph.product import (
    Product,
    descends_from,
    factors_inside,
    find_product,
    is_shift,
    term_widths,
)
from rootdk.frontends._graph.trail import (
    FactorStep,
    NotAttentionError,
    UnresolvedError,
    Values,
)

__all__ = ["walk_scores"]


@dataclass
class _Link:
    """One node on the way back, which of its inputs carries the scores, and what it does."""

    node: Node
    position: int
    action: Callable[[_Link, ScoreLine, Axes, Values], None] | None = None
    other: Node | None = None


def walk_scores(start: Node, values: Values) -> ScoreLine:
    """Walk back from the input of a softmax; return the line in execution order."""
    links: list[_Link] = []
    node = start
    while not is_join(node) and find_product(node) is None:
        link = _link(node)
        links.append(link)
        node = node.inputs[link.position]
    line, axes = _beginning(node, values)
    for link in reversed(links):
        after = _advanced(link, axes)
        if link.action is not None:
            link.action(link, line, after, values)
        axes = after
    line.axes = axes
    _settle_softcap(line)
    return line


def _beginning(node: Node, values: Values) -> tuple[ScoreLine, Axes]:
    """A line that begins at a product, or where the scores of several become one tensor."""
    product = find_product(node)
    if product is not None:
        line = ScoreLine(product)
        _beside_product(product, line, product.axes)
        return line, product.axes
    joined = joined_at(node, values)
    first = joined.pieces[0]
    line = ScoreLine(first.product, joined=joined, factors=list(first.factors))
    return line, plain_axes(node.shape)


def _advanced(link: _Link, axes: Axes) -> Axes:
    try:
        return advance(link.node, axes, link.position)
    except AxesLostError as lost:
        raise UnresolvedError(str(lost)) from None


def _beside_product(product: Product, line: ScoreLine, axes: Axes) -> None:
    """alpha and the addend of baddbmm and addmm."""
    node = product.node
    for factor in factors_inside(product):
        line.factors.append(factor)
        line.steps.append(ScoreStep("factor", node, axes, value=factor.value))
    beta = node.attrs.get("beta", 1.0)
    if len(node.inputs) > 2 and beta != 0.0:
        other = node.inputs[2]
        line.steps.append(ScoreStep("add", node, axes, other=other, sign=float(beta)))


def _link(node: Node) -> _Link:
    op = node.op
    if op in LAYOUT and op != "cat" and node.inputs:
        return _Link(node, 0)
    maker = _LINKS.get(op)
    if maker is None:
        if not node.on_scores:
            raise NotAttentionError(op)
        raise UnresolvedError(
            f"the scores pass through {node.attrs.get('name', op)}, which is not understood"
        )
    return maker(node)


def _main(node: Node) -> int:
    """Which input carries the scores: the first that descends from a product."""
    for position, source in enumerate(node.inputs[:2]):
        if source.on_scores:
            return position
    raise NotAttentionError(node.op)


def _scale_link(node: Node) -> _Link:
    if "scalar" in node.attrs:
        return _Link(node, 0, _scalar)
    position = _main(node)
    other = node.inputs[1 - position]
    if other.on_scores:
        raise UnresolvedError("two tensors of scores are multiplied")
    if node.op == "div" and position == 1:
        raise UnresolvedError("the scores stand in a denominator")
    return _Link(node, position, _times, other)


def _scalar(link: _Link, line: ScoreLine, axes: Axes, values: Values) -> None:
    value = float(link.node.attrs["scalar"])
    value = 1.0 / value if link.node.op == "div" and value else value
    _factor(link, line, axes, value)


def _factor(link: _Link, line: ScoreLine, axes: Axes, value: float) -> None:
    words = "divided by a constant" if link.node.op == "div" else "multiplied by a constant"
    line.factors.append(FactorStep(link.node, value, origin=words))
    line.steps.append(ScoreStep("factor", link.node, axes, value=value))


def _times(link: _Link, line: ScoreLine, axes: Axes, values: Values) -> None:
    node, other = link.node, link.other
    assert other is not None
    value = other.value if other.value is not None else values.uniform(other)
    if value is not None and other.kind != Kind.PARAMETER:
        _factor(link, line, axes, 1.0 / value if node.op == "div" and value else value)
        return
    if value is None and not _entries_vary(other):
        if guarded("factor-without-value"):
            raise UnresolvedError("the value of a factor on the scores is not known")
        return
    if not guarded("vector-factor"):
        return
    if node.op == "mul" and values.binary(other):
        line.steps.append(ScoreStep("fill", node, axes, value=0.0, other=other, keep_when=True))
        return
    if other.kind in {Kind.PARAMETER, Kind.ACTIVATION}:
        line.factors.extend(learned_steps(node, other, value, values))
    else:
        words = "a factor per position"
        line.factors.append(FactorStep(node, None, "position-dependent", words))
    line.steps.append(ScoreStep("multiply", node, axes, other=other))


def _entries_vary(node: Node) -> bool:
    return any(size != 1 for size in node.shape)


def _sum_link(node: Node) -> _Link:
    if "scalar" in node.attrs:
        if node.attrs.get("reverse"):
            return _Link(node, 0, _reversed)
        # One number added to all scores changes nothing after the softmax.
        return _Link(node, 0, _shifted)
    position = _main(node)
    other = node.inputs[1 - position]
    if other.on_scores and is_shift(other):
        return _Link(node, position, _shifted)
    if other.on_scores and position == 0 and is_shift(node.inputs[0]) and node.op == "sub":
        return _Link(node, 1, _reversed)
    return _Link(node, position, _added, other)


def _shifted(link: _Link, line: ScoreLine, axes: Axes, values: Values) -> None:
    line.shifted = True


def _reversed(link: _Link, line: ScoreLine, axes: Axes, values: Values) -> None:
    line.factors.append(FactorStep(link.node, -1.0, origin="subtracted from a constant"))
    line.steps.append(ScoreStep("factor", link.node, axes, value=-1.0))


def _added(link: _Link, line: ScoreLine, axes: Axes, values: Values) -> None:
    node, other = link.node, link.other
    assert other is not None
    if other is node.inputs[link.position]:
        if guarded("sum-of-same"):
            _factor(link, line, axes, 2.0)
        return
    if other.on_scores and any(descends_from(other, node) for node in line.products):
        if guarded("map-over-scores"):
            raise UnresolvedError("the scores are added to something made of themselves")
        return
    if other.kind == Kind.ACTIVATION and not guarded("score-term"):
        return
    sign = float(node.attrs.get("alpha", 1.0)) * (-1.0 if node.op == "sub" else 1.0)
    if node.op == "sub" and link.position == 1:
        _reversed(link, line, axes, values)
        sign = 1.0
    elif link.position == 1:
        sign = 1.0
    line.widths += term_widths(other)
    line.steps.append(ScoreStep("add", node, axes, other=other, sign=sign))


def _fill_link(node: Node) -> _Link:
    """masked_fill(scores, mask, value) and where(mask, a, b)."""
    if node.op == "masked_fill":
        return _Link(node, 0, _filled)
    for position in (1, 2):
        if position < len(node.inputs) and node.inputs[position].on_scores:
            return _Link(node, position, _filled)
    raise NotAttentionError(node.op)


def _filled(link: _Link, line: ScoreLine, axes: Axes, values: Values) -> None:
    node = link.node
    if node.op == "masked_fill":
        mask, keep = node.inputs[1], False
        value = node.attrs.get("scalar")
        if value is None and len(node.inputs) > 2:
            value = node.inputs[2].value
    else:
        mask, keep = node.inputs[0], link.position == 1
        side = node.inputs[3 - link.position] if len(node.inputs) > 2 else None
        value = node.attrs.get("scalar")
        if value is None and side is not None:
            value = side.value if side.value is not None else values.uniform(side)
    if value is None:
        raise UnresolvedError("the value that masked scores are filled with is not known")
    line.steps.append(ScoreStep("fill", node, axes, value=float(value), other=mask, keep_when=keep))


def _tanh(link: _Link, line: ScoreLine, axes: Axes, values: Values) -> None:
    line.steps.append(ScoreStep("softcap", link.node, axes))


def _clamp_link(node: Node) -> _Link:
    return _Link(node, _main(node) if len(node.inputs) > 1 else 0, _clamped)


def _clamped(link: _Link, line: ScoreLine, axes: Axes, values: Values) -> None:
    node = link.node
    low, high = node.attrs.get("low"), node.attrs.get("high")
    if node.op == "maximum" and len(node.inputs) > 1:
        other = node.inputs[1 - link.position]
        bound = other.value if other.value is not None else values.uniform(other)
        if bound is None:
            raise UnresolvedError("the scores are bounded by a tensor")
        low, high = (bound, high) if node.attrs.get("largest", True) else (low, bound)
    if high is not None and high < 1e30:
        line.bounded_by = "clamp"
    line.steps.append(ScoreStep("clamp", node, axes, value=high, low=low))


def _rectified(link: _Link, line: ScoreLine, axes: Axes, values: Values) -> None:
    line.steps.append(ScoreStep("clamp", link.node, axes, low=0.0))


def _cat_link(node: Node) -> _Link:
    main = [i for i, source in enumerate(node.inputs) if source.on_scores]
    if not main:
        raise NotAttentionError(node.op)
    return _Link(node, main[0], _extended)


def _extended(link: _Link, line: ScoreLine, axes: Axes, values: Values) -> None:
    line.steps.append(ScoreStep("extra", link.node, axes, value=float(link.position)))


def _map_link(node: Node) -> _Link:
    """A product, convolution or linear map over the scores: talking heads and their kin."""
    over = [i for i, source in enumerate(node.inputs) if source.on_scores]
    if not over:
        raise NotAttentionError(node.op)
    if guarded("map-over-scores"):
        raise UnresolvedError("the scores pass through a learned map (talking heads)")
    return _Link(node, over[0])


def _negate_link(node: Node) -> _Link:
    return _Link(node, 0, _reversed)


def _reduced_link(node: Node) -> _Link:
    """A softmax over sums or maxima of scores combines chunks; it is no attention itself."""
    raise NotAttentionError(node.op)


def _opaque_link(node: Node) -> _Link:
    if not node.on_scores:
        raise NotAttentionError(node.op)
    if guarded("opaque-operation"):
        raise UnresolvedError(
            f"the scores pass through {node.attrs.get('name', node.op)}, which is not understood"
        )
    return _Link(node, _main(node))


def _settle_softcap(line: ScoreLine) -> None:
    """c·tanh(s/c): the constant factors right after the tanh are its cap."""
    places = [i for i, step in enumerate(line.steps) if step.kind == "softcap"]
    if not places:
        return
    if len(places) > 1:
        raise UnresolvedError("the scores pass through tanh twice")
    at, cap = places[0], 1.0
    for step in line.steps[at + 1 :]:
        if step.kind != "factor" or step.value is None:
            break
        cap *= step.value
    line.softcap = cap
    line.bounded_by = line.bounded_by or "tanh"


_LINKS: dict[str, Callable[[Node], _Link]] = {
    "mul": _scale_link,
    "div": _scale_link,
    "add": _sum_link,
    "sub": _sum_link,
    "neg": _negate_link,
    "masked_fill": _fill_link,
    "where": _fill_link,
    "tanh": lambda node: _Link(node, 0, _tanh),
    "clamp": _clamp_link,
    "maximum": _clamp_link,
    "relu": lambda node: _Link(node, 0, _rectified),
    "cat": _cat_link,
    "matmul": _map_link,
    "linear": _map_link,
    "conv": _map_link,
    **dict.fromkeys(("logsumexp", "amax", "sum", "mean"), _reduced_link),
    "opaque": _opaque_link,
}
