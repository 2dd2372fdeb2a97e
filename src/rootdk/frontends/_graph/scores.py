"""From the softmax back to the query-key product, step by step.

The result is a straight line of steps in execution order. Constant factors become one number;
what else happens (a softcap, a mask, a bias, a sink column) is kept as a step with the node of
its side operand, so that the weights of any row can be recomputed from the line alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from rootdk.frontends._graph.axes import Axes, AxesLostError, advance
from rootdk.frontends._graph.factors import learned_steps
from rootdk.frontends._graph.guards import guarded
from rootdk.frontends._graph.node import LAYOUT, Kind, Node
from rootdk.frontends._graph.product import (
    Product,
    descends_from,
    find_product,
    is_shift,
    term_widths,
)
from rootdk.frontends._graph.trail import FactorStep, UnresolvedError, Values

__all__ = ["NotAttentionError", "ScoreLine", "ScoreStep", "walk_scores"]

StepKind = Literal["factor", "multiply", "add", "fill", "softcap", "clamp", "extra"]


class NotAttentionError(Exception):
    """The softmax is not over products of activations."""


@dataclass(frozen=True)
class ScoreStep:
    """One step from the product towards the softmax, and the axes of the tensor there."""

    kind: StepKind
    node: Node
    axes: Axes
    value: float | None = None
    other: Node | None = None
    sign: float = 1.0
    low: float | None = None
    keep_when: bool = False


@dataclass
class ScoreLine:
    """All that lies between the product and the softmax."""

    product: Product
    steps: list[ScoreStep] = field(default_factory=list)
    factors: list[FactorStep] = field(default_factory=list)
    axes: Axes | None = None
    softcap: float | None = None
    bounded_by: str | None = None
    widths: tuple[int, ...] = ()
    shifted: bool = False

    @property
    def scale(self) -> float:
        """The product of the constant factors between the product and the softmax."""
        return math.prod(
            f.value for f in self.factors if f.kind == "constant" and f.value is not None
        )

    def factor_after(self, position: int) -> float:
        """The product of the constant factors that follow a step."""
        later = self.steps[position + 1 :]
        return math.prod(s.value for s in later if s.kind == "factor" and s.value is not None)


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
    while True:
        product = find_product(node)
        if product is not None:
            break
        link = _link(node)
        links.append(link)
        node = node.inputs[link.position]
    line = ScoreLine(product)
    axes = product.axes
    _beside_product(product, line, axes)
    for link in reversed(links):
        after = _advanced(link, axes)
        if link.action is not None:
            link.action(link, line, after, values)
        axes = after
    line.axes = axes
    _settle_softcap(line)
    return line


def _advanced(link: _Link, axes: Axes) -> Axes:
    try:
        return advance(link.node, axes, link.position)
    except AxesLostError as lost:
        raise UnresolvedError(str(lost)) from None


def _beside_product(product: Product, line: ScoreLine, axes: Axes) -> None:
    """alpha and the addend of baddbmm and addmm."""
    node = product.node
    if node.op == "mean":
        share = 1.0 / node.inputs[0].shape[-1]
        line.factors.append(FactorStep(node, share, origin="a mean where a sum is usual"))
        line.steps.append(ScoreStep("factor", node, axes, value=share))
    alpha = node.attrs.get("alpha", 1.0)
    if alpha != 1.0:
        line.factors.append(FactorStep(node, float(alpha), origin="alpha of the product"))
        line.steps.append(ScoreStep("factor", node, axes, value=float(alpha)))
    beta = node.attrs.get("beta", 1.0)
    if len(node.inputs) > 2 and beta != 0.0:
        other = node.inputs[2]
        line.steps.append(ScoreStep("add", node, axes, other=other, sign=float(beta)))


def _link(node: Node) -> _Link:
    op = node.op
    if op in LAYOUT and op != "cat" and op != "assemble" and node.inputs:
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
    if other.on_scores and descends_from(other, line.product.node):
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
        if side is not None and side.on_scores:
            raise UnresolvedError("the scores are chosen from two tensors of scores")
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
    if len(main) > 1:
        raise UnresolvedError("scores of several products are concatenated")
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
    "assemble": _opaque_link,
}
