"""What hides keys and what is added to scores, read from the steps of a line of scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rootdk._lib.arrays import Array, is_bool, namespace
from rootdk.frontends._graph.node import LAYOUT, Kind, Node
from rootdk.frontends._graph.scores import ScoreLine, ScoreStep
from rootdk.frontends._graph.trail import UnresolvedError
from rootdk.frontends._sites.arrange import Arrangement
from rootdk.frontends._sites.numbers import as_float, chosen, count, doubles
from rootdk.frontends._sites.values import ArrayValues, is_complex
from rootdk.records import Addend

__all__ = ["Masks", "alignment", "hidden_by"]

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
            self.suspect = given
            self._bias(as_float(given) * (step.sign * after))
            return
        if hidden is not None:
            self._hide(~arrangement.beside(hidden, step.axes))
        if kind == "mask" and hidden is not None:
            return
        if hidden is not None:
            given = chosen(arrangement.beside(hidden, step.axes), 0.0, given)
        self._bias(given * (step.sign * after) if step.sign * after != 1.0 else given)

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


def alignment(masks: Masks, queries: int, keys: int) -> Any:
    """Which causal mask the visible keys are exactly, the same for every batch and head."""
    mask = masks.mask
    if mask is None or tuple(mask.shape[-2:]) != (queries, keys) or queries < 2:
        return None
    xp = namespace(mask)
    flat = mask.reshape((-1, queries, keys))
    first = flat[0]
    for name, shift in (("top_left", 0), ("bottom_right", keys - queries)):
        triangle = xp.tril(xp.ones_like(first), k=shift)
        if bool(xp.all(first == triangle)) and bool(xp.all(flat == triangle)):
            return name
    return None


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
    failed = _failed_mask(node, tensor)
    if failed is not None:
        return "mask", failed, tensor == failed
    return "bias", None, None


def _failed_mask(node: Node, tensor: Array) -> float | None:
    """The fill of a constant mask of 0 and one number so small that it forbids nothing."""
    if node.kind > Kind.INDEX or count(tensor) < 2 or is_complex(tensor):
        return None
    other = doubles(tensor)
    other = other[other != 0]
    if not other.size or other.size == count(tensor):
        return None
    value = float(other[0])
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
