"""What hides keys and what is added to scores, read from the steps of a line of scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rootdk._lib.arrays import Array, is_bool, namespace
from rootdk.frontends._graph.line import ScoreLine, ScoreStep
from rootdk.frontends._graph.node import LAYOUT, Kind, Node
from rootdk.frontends._graph.trail import UnresolvedError
from rootdk.frontends._sites.arrange import Arrangement
from rootdk.frontends._sites.diagonal import Diagonal, diagonal_of
from rootdk.frontends._sites.numbers import as_float, chosen, count, doubles
from rootdk.frontends._sites.values import ArrayValues, is_complex
from rootdk.records import Addend

__all__ = ["Masks", "hidden_by", "meant_as_mask"]

# An additive mask writes at least this far below zero; a bias of a model stays above it.
MASK_BELOW = -9e3
# A tensor of exactly two values, 0 and something at least this low, is a mask as well.
_TWO_VALUED_BELOW = -40.0


@dataclass
class Masks:
    """What hides keys, and what is added, as the engines take it; (b, h, queries, keys)."""

    mask: Array | None = None
    bias: Array | None = None
    usable: bool = True
    extra: bool = False
    suspect: Array | None = None
    either: bool = False

    @classmethod
    def of(
        cls,
        line: ScoreLine,
        arrangement: Arrangement,
        values: ArrayValues,
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
        values: ArrayValues,
        addends: list[Addend],
    ) -> None:
        other = step.other
        assert other is not None
        tensor = values.tensor(other)
        if tensor is None and other.value is not None:
            return
        if tensor is None:
            raise UnresolvedError("a mask or bias was no longer held")
        tensor, after = _weighted(step, tensor, after)
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
        if is_bool(tensor):
            # Booleans added as numbers hide nothing, whichever of the two was to be hidden.
            self.suspect, self.either = given, True
            self._bias(as_float(given) * (step.sign * after))
            return
        if fill is not None and fill > 0.0 and hidden is not None:
            self.suspect = ~arrangement.beside(hidden, step.axes)
            hidden = None
        elif hidden is not None:
            self._hide(~arrangement.beside(hidden, step.axes))
            if kind == "mask":
                return
            given = chosen(arrangement.beside(hidden, step.axes), 0.0, given)
        self._bias(given * after if after != 1.0 else given)

    def _fill(
        self,
        step: ScoreStep,
        after: float,
        before_cap: bool,
        arrangement: Arrangement,
        values: ArrayValues,
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

    def _hide(self, visible: Array) -> None:
        self.mask = visible if self.mask is None else self.mask & visible

    def _bias(self, given: Array) -> None:
        self.bias = given if self.bias is None else self.bias + given


def hidden_by(tensor: Array) -> tuple[float, Array | None]:
    """The lowest entry of what is added to scores, and where it hides keys (None: nowhere)."""
    low = float(namespace(tensor).min(tensor)) if count(tensor) else 0.0
    if low <= MASK_BELOW or _two_valued(tensor):
        return low, tensor <= max(low, MASK_BELOW)
    return low, None


def _two_valued(tensor: Array) -> bool:
    if count(tensor) == 0 or is_complex(tensor):
        return False
    xp = namespace(tensor)
    low = xp.min(tensor)
    return float(low) < _TWO_VALUED_BELOW and bool(xp.all((tensor == 0) | (tensor == low)))


def _classify(node: Node, tensor: Array) -> tuple[Any, float | None, Array | None]:
    """mask, bias or term; the fill; and where keys are hidden."""
    if is_bool(tensor):
        # True and False added as 1 and 0: meant as a mask, and none.
        return "mask", 1.0, tensor
    low, hidden = hidden_by(tensor)
    if hidden is not None:
        rest = (tensor != 0) & ~hidden
        if not bool(namespace(rest).any(rest)):
            return "mask", low, hidden
        return ("term" if _has_product(node) else "bias"), low, hidden
    if node.on_scores or _has_product(node):
        return "term", None, None
    failed = meant_as_mask(node, tensor)
    if failed is not None:
        return "mask", *failed
    return "bias", None, None


def _weighted(step: ScoreStep, tensor: Array, after: float) -> tuple[Array, float]:
    """What is added, with its own sign and weight, and what multiplies it with the scores."""
    if step.sign == 1.0 or is_bool(tensor):
        return tensor, after
    if step.node.op == "matmul":
        # beta of the product is to what is added what alpha is to the scores.
        return tensor, after * step.sign
    return tensor * step.sign, after


def meant_as_mask(node: Node | None, tensor: Array) -> tuple[float, Array] | None:
    """The fill of a constant that was meant to forbid keys and does not, and the keys it meant.

    It holds 0 and one other number. Either that is next to 0 (an exponent with the wrong sign);
    or it is positive, and stands at all keys of the future alone; or it is 1, for the keys up to
    the diagonal, or for those that an integer input speaks of.
    """
    if node is None or node.kind > Kind.INDEX or count(tensor) < 2 or is_complex(tensor):
        return None
    other = doubles(tensor)
    other = other[other != 0]
    if not other.size or other.size == count(tensor):
        return None
    value = float(other[0])
    if not bool((other == value).all()):
        return None
    marked = tensor == value
    if abs(value) < 1e-3:
        return value, marked
    if value < 0.0:
        return None
    queries, keys = tensor.shape[-2:] if len(tensor.shape) > 1 else (1, tensor.shape[-1])
    visible = diagonal_of(~marked, queries, keys) if queries == keys else None
    if visible == Diagonal(0):
        return value, marked
    past = diagonal_of(marked, queries, keys) == Diagonal(0) if queries == keys else False
    padding = node.kind == Kind.INDEX and queries == 1
    return (value, ~marked) if value == 1.0 and (past or padding) else None


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
