"""From one operand of the query-key product back to the projection that made it.

The walk multiplies constant factors, passes through what only moves entries, and stops at a
*terminal*: a product with a parameter, a parameter, a norm, an input. It never guesses: what it
does not understand raises ``UnresolvedError`` with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from rootdk.frontends._graph.factors import (
    entries,
    has_gain,
    is_norm_of,
    learned_steps,
    multiplier,
    origin,
    split_product,
    words,
)
from rootdk.frontends._graph.guards import guarded
from rootdk.frontends._graph.node import HOMOGENEOUS, LAYOUT, Kind, Node
from rootdk.frontends._graph.steps import (
    doubled,
    ignored,
    merged,
    passed,
    scaled,
    terminal,
    turned,
)
from rootdk.frontends._graph.trail import FactorStep, Trail, UnresolvedError, Values

__all__ = ["OperandWalk"]


@dataclass
class OperandWalk:
    """Resolve operands of one product; ``scope`` is where the product was made."""

    values: Values
    scope: tuple[int, ...]
    _memo: dict[int, Trail] = field(default_factory=dict)

    def operand(self, node: Node) -> Trail:
        """Return the trail of a whole operand; one that is negated carries a factor of -1."""
        trail = self.resolve(node)
        if trail.signs != {-1}:
            return trail
        step = FactorStep(node, -1.0, origin="negated")
        return replace(trail, factors=(*trail.factors, step), signs=frozenset({1}))

    def resolve(self, node: Node) -> Trail:
        """Return the trail from ``node`` to its terminals."""
        if node.index not in self._memo:
            self._memo[node.index] = self._resolve(node)
        return self._memo[node.index]

    def _resolve(self, node: Node) -> Trail:
        chain: list[Node] = []
        # Straight runs are walked in a loop, so that a long chain cannot exhaust the stack.
        while node.index not in self._memo and self._is_plain(node):
            chain.append(node)
            node = node.inputs[0]
        trail = self._memo.get(node.index) or self._step(node)
        self._memo[node.index] = trail
        for link in reversed(chain):
            trail = passed(trail, link)
            self._memo[link.index] = trail
        return trail

    def _is_plain(self, node: Node) -> bool:
        return (
            (node.op in LAYOUT or node.op in HOMOGENEOUS)
            and node.op not in {"sum", "assemble"}
            and len(node.inputs) == 1
            and not self._is_projection_exit(node)
        )

    def _is_projection_exit(self, node: Node) -> bool:
        """Whether a projection's own module handed this node out, before the product."""
        call = node.attrs.get("exit_of")
        return call is not None and call not in self.scope and guarded("projection-scope")

    def _step(self, node: Node) -> Trail:
        if self._is_projection_exit(node):
            return terminal(node, "projection")
        rule = _RULES.get(node.op, _opaque)
        return rule(self, node)


def _leaf(walk: OperandWalk, node: Node) -> Trail:
    return terminal(node, "parameter" if node.op == "parameter" else "input")


def _unknown(walk: OperandWalk, node: Node) -> Trail:
    if guarded("unknown-leaf"):
        raise UnresolvedError(
            f"a tensor of shape {list(node.shape)} on the path was made outside the traced "
            "operations (a NumPy round trip, for example)"
        )
    return terminal(node, "input")


def _opaque(walk: OperandWalk, node: Node) -> Trail:
    if guarded("opaque-operation") or not node.inputs:
        raise UnresolvedError(
            f"the path passes through {node.attrs.get('name', node.op)}, which is not understood"
        )
    trail = walk.resolve(node.inputs[0])
    return ignored(trail, node)


def _activation(walk: OperandWalk, node: Node) -> Trail:
    """A non-linear function is a terminal of its own, if no factor is hidden behind it."""
    for source in node.inputs:
        if source.kind < Kind.PARAMETER:
            continue
        trail = walk.resolve(source)
        if abs(trail.constant - 1.0) > 1e-6 or any(f.value is None for f in trail.factors):
            raise UnresolvedError(
                f"factors stand before {node.attrs.get('name', node.op)}, through which they "
                "cannot be followed"
            )
    return terminal(node, "activation")


def _linear(walk: OperandWalk, node: Node) -> Trail:
    kinds = [source.kind for source in node.inputs[:2]]
    if Kind.UNKNOWN in kinds:
        return _unknown(walk, node)
    if Kind.PARAMETER in kinds:
        return terminal(node, "projection")
    for side, path in ((1, 0), (0, 1)):
        if kinds[side] <= Kind.INDEX and kinds[path] == Kind.ACTIVATION:
            gain = walk.values.isometry(node.inputs[side])
            if gain is None:
                raise UnresolvedError("the path passes through a product with a constant matrix")
            trail = passed(walk.resolve(node.inputs[path]), node)
            return turned(trail, node, gain, "a constant rotation")
    return _activation(walk, node)


def _total(walk: OperandWalk, node: Node) -> Trail:
    """A sum over an axis may add copies of one tensor, and then hides a factor.

    A product with a table of small matrices, summed over their columns, is a rotation.
    """
    times = node.inputs[0]
    last = (len(times.shape) - 1,)
    if times.op == "mul" and len(times.inputs) == 2 and node.attrs.get("dims") == last:
        path, side = split_product(times)
        if side is not None and side.kind <= Kind.INDEX and len(side.shape) >= 2:
            gain = walk.values.isometry(side)
            if gain is not None:
                trail = passed(walk.resolve(path), node)
                return turned(trail, node, gain, "the size of the rotary matrices")
    raise UnresolvedError("a sum over an axis stands on the path")


def _norm(walk: OperandWalk, node: Node) -> Trail:
    gain = any(source.kind == Kind.PARAMETER for source in node.inputs[1:])
    return terminal(node, "norm", normalised=True, learned_gain=gain)


def _negate(walk: OperandWalk, node: Node) -> Trail:
    """A negation is kept as a sign, since half of a rotation is negated on purpose."""
    trail = passed(walk.resolve(node.inputs[0]), node)
    return replace(trail, signs=frozenset(-sign for sign in trail.signs))


def _multiply(walk: OperandWalk, node: Node) -> Trail:
    """A product or quotient of the path and something beside it."""
    path, side = split_product(node)
    if side is None:
        value = multiplier(node, node.attrs["scalar"])
        return scaled(walk.resolve(path), FactorStep(node, value, origin=words(node)))
    if side.kind == Kind.UNKNOWN and entries(side) >= entries(path):
        return _table(walk, node, path, side)
    if is_norm_of(node, path, side):
        return terminal(node, "norm", normalised=True, learned_gain=has_gain(side))
    if side.kind == Kind.ACTIVATION:
        gain = _position_gain(walk, node, path, side)
        return gain if gain is not None else _activation(walk, node)
    return _side_factor(walk, node, path, side)


def _table(walk: OperandWalk, node: Node, path: Node, side: Node) -> Trail:
    """A product with a tensor of its size that nothing recorded has made.

    Only as half of a rotation, whose tables are looked at, can it be no part of the path.
    """
    if side.shape[-1:] in {(), (1,)} or not guarded("unknown-leaf"):
        return _unknown(walk, side)
    trail = walk.resolve(path)
    return replace(trail, vectors=(*trail.vectors, node))


def _position_gain(walk: OperandWalk, node: Node, path: Node, side: Node) -> Trail | None:
    """A factor per token that activations decide (a gate, a learned temperature)."""
    if side.shape and side.shape[-1] == 1 and len(path.shape) > 1 and path.shape[-1] != 1:
        trail = walk.resolve(path)
        step = FactorStep(node, None, "learned", "a factor computed from activations")
        return replace(trail, factors=(*trail.factors, step))
    return None


def _side_factor(walk: OperandWalk, node: Node, path: Node, side: Node) -> Trail:
    trail = walk.resolve(path)
    value = side.value if side.value is not None else walk.values.uniform(side)
    if value is None and entries(side) == 1:
        if guarded("factor-without-value"):
            raise UnresolvedError("the value of a factor on the path is not known")
        return ignored(trail, node)
    learned = side.kind == Kind.PARAMETER
    if value is not None and not learned:
        return scaled(trail, FactorStep(node, multiplier(node, value), origin=words(node)))
    if learned:
        if not guarded("vector-factor"):
            return ignored(trail, node)
        if trail.normalised and not trail.factors and value is None:
            return replace(trail, learned_gain=True)
        steps = learned_steps(node, side, value, walk.values)
        return replace(trail, factors=(*trail.factors, *steps))
    if path.dtype.startswith("complex") or side.dtype.startswith("complex"):
        gain = walk.values.modulus(side)
        if gain is None:
            raise UnresolvedError("the path is multiplied by complex numbers of unequal size")
        return turned(trail, node, gain, "the size of a complex rotary table")
    if not guarded("vector-factor"):
        return ignored(trail, node)
    return replace(trail, vectors=(*trail.vectors, node))


def _sum(walk: OperandWalk, node: Node) -> Trail:
    """A sum: an offset, a rotation made of two products, twice the same, or two sources."""
    if "scalar" in node.attrs or len(node.inputs) == 1:
        return passed(walk.resolve(node.inputs[0]), node)
    first, second = node.inputs[0], node.inputs[1]
    if Kind.UNKNOWN in (first.kind, second.kind):
        return _unknown(walk, node)
    if first.kind <= Kind.PARAMETER < second.kind or second.kind <= Kind.PARAMETER < first.kind:
        # A constant or a parameter beside the path is an offset (a bias of the query).
        path = first if first.kind > second.kind else second
        return replace(passed(walk.resolve(path), node), affine=True)
    weight = float(node.attrs.get("alpha", 1.0)) * (-1.0 if node.op == "sub" else 1.0)
    one, two = walk.resolve(first), walk.resolve(second)
    if 0.0 in (one.constant, two.constant) and one.constant != two.constant:
        # The sines of a rotary table are 0 at the first position.
        return passed(two if one.constant == 0.0 else one, node)
    plain = first is second or not (one.vectors or two.vectors)
    if plain and one.terminals == two.terminals and origin(first) is origin(second):
        return doubled(one, node, 1.0 + weight)
    if one.vectors and two.vectors and one.terminals & two.terminals:
        return _rotation(walk, node, one, two)
    projected = {one.kind, two.kind} == {"projection"} and not (one.terminals & two.terminals)
    if projected and abs(one.constant - two.constant) > 1e-5 * abs(one.constant):
        # A projection and an addition to it (a low-rank adapter) are one projection.
        return terminal(node, "projection")
    return merged(node, [one, two], "two tensors are added")


def _rotation(walk: OperandWalk, node: Node, one: Trail, two: Trail) -> Trail:
    gain = walk.values.rotation_gain(_side_of(one.vectors[-1]), _side_of(two.vectors[-1]))
    if gain is None:
        raise UnresolvedError("two products with tables are added that are no rotation")
    base = merged(
        node,
        [replace(one, vectors=one.vectors[:-1]), replace(two, vectors=two.vectors[:-1])],
        "the halves of a rotation",
    )
    return turned(base, node, gain, "the size of the rotary tables")


def _side_of(node: Node) -> Node:
    side = split_product(node)[1]
    if side is None:
        raise UnresolvedError("a rotary table is a plain number")
    return side


def _parts(walk: OperandWalk, node: Node) -> Trail:
    """Concatenation, stacking, and a tensor written in parts."""
    if node.op == "assemble" and not guarded("partial-write"):
        trail = walk.resolve(node.inputs[0])
        return ignored(trail, node)
    sources = [
        s
        for s in node.inputs
        if s.kind >= Kind.PARAMETER and s.op not in {"constant", "random"} and "int" not in s.dtype
    ]
    if not sources:
        return terminal(node, "input")
    trails = [walk.resolve(source) for source in sources]
    for trail in trails:
        if trail.vectors:
            return (
                _activation(walk, node)
                if len(trails) == 0
                else merged(node, trails, "parts are joined")
            )
    return merged(node, trails, "parts are joined")


def _picked(walk: OperandWalk, node: Node) -> Trail:
    """Entries picked by an index (repeated heads, the longest queries) keep their factor."""
    if any(s.kind > Kind.INDEX and "int" not in s.dtype for s in node.inputs[1:]):
        return _activation(walk, node)
    return passed(walk.resolve(node.inputs[0]), node)


def _constant(walk: OperandWalk, node: Node) -> Trail:
    return terminal(node, "input")


def _choice(walk: OperandWalk, node: Node) -> Trail:
    """masked_fill and where on an operand (padding set to zero): the path is what is kept."""
    sources = [s for s in node.inputs if s.kind >= Kind.PARAMETER and s.dtype != "bool"]
    if not sources:
        return terminal(node, "input")
    return merged(node, [walk.resolve(s) for s in sources], "parts are chosen")


_RULES: dict[str, Callable[[OperandWalk, Node], Trail]] = {
    "leaf": _leaf,
    "parameter": _leaf,
    "input": _leaf,
    "constant": _constant,
    "random": _constant,
    "unknown": _unknown,
    "opaque": _opaque,
    "matmul": _linear,
    "linear": _linear,
    "conv": _linear,
    "embedding": lambda walk, node: terminal(node, "parameter"),
    "norm": _norm,
    "mul": _multiply,
    "div": _multiply,
    "neg": _negate,
    "add": _sum,
    "sub": _sum,
    "sum": _total,
    "gather": _picked,
    "where": _choice,
    "masked_fill": _choice,
    **dict.fromkeys(("cat", "stack", "assemble"), _parts),
    **dict.fromkeys(
        "nonlinear tanh clamp maximum softmax log_softmax exp exp2 log pow rsqrt sqrt "
        "reciprocal logsumexp fused dropout vector_norm complex".split(),
        _activation,
    ),
}
for _op in (LAYOUT | HOMOGENEOUS) - _RULES.keys():
    _RULES[_op] = lambda walk, node: passed(walk.resolve(node.inputs[0]), node)
