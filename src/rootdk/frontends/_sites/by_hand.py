"""Softmaxes written with exponentials, sums and divisions."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Any

from rootdk._lib.arrays import Array, namespace, quiet
from rootdk.frontends._graph.node import SCORES, Node
from rootdk.frontends._graph.tags import behind_layout
from rootdk.frontends._graph.weights import origin_of_sum
from rootdk.frontends._sites.elsewhere import place_of
from rootdk.frontends._sites.measuring import row_sums
from rootdk.frontends._sites.numbers import chosen, count
from rootdk.frontends._sites.pending import Pending
from rootdk.frontends._sites.recognise import (
    added_number,
    adds_to_sum,
    exponential_behind,
    is_shifted,
    less_row_maximum,
    reduced_dim,
)
from rootdk.frontends._sites.recording import Recording

__all__ = ["ByHand"]

# Above this size of its scores a row's rounding shows in the sum of exp(x - logsumexp(x)).
_ROUNDED = 1e3


class ByHand:
    """The part of the listener that finds a softmax in its pieces."""

    recorder: Recording
    pending: dict[int, Pending]
    _exponents: dict[int, tuple[float, bool]]
    _late: deque[Node]
    # Exponentials of scores that met values and were not divided by their own sum so far.
    _undivided: dict[int, str]

    def _begin(
        self,
        node: Node,
        scores: Node,
        dim: int,
        spelling: str,
        facts: dict[str, Any],
        weights: Array,
        argument: Array | None,
        base_two: bool = False,
    ) -> None:
        raise NotImplementedError

    def _measure(
        self, pending: Pending, node: Node, position: int, tensors: Sequence[Array]
    ) -> None:
        raise NotImplementedError

    def list_bare(self, node: Node) -> None:
        raise NotImplementedError

    def on_exponential(self, node: Node, argument: Array) -> None:
        """Remember the largest argument; exp(x - logsumexp(x)) is a softmax already."""
        xp = namespace(argument)
        largest = float(xp.max(argument)) if count(argument) else -math.inf
        self._exponents[node.index] = (largest, is_shifted(node.inputs[0]))
        shifted = node.inputs[0]
        behind = behind_layout(shifted.inputs[1]) if len(shifted.inputs) > 1 else None
        if shifted.op == "sub" and behind is not None and behind.op == "logsumexp":
            facts = {"exponentials": "shifted", "dtype": node.dtype, "largest_exponent": largest}
            with quiet():
                out = xp.exp(argument)
            node.weights_of = (node.index,)
            node.on_scores = 0
            dim = reduced_dim(behind, shifted.inputs[0])
            self._begin(node, shifted, dim, "exp(x - logsumexp)", facts, out, None)
            self._sum_seen_rows(node, shifted.inputs[1], out, dim)

    def _sum_seen_rows(self, node: Node, total: Node, weights: Array, dim: int) -> None:
        """Sums of the rows that are not hidden by a finite fill, whose rounding they would show."""
        pending, totals = self.pending.get(node.index), self.recorder.values.tensor(total)
        if pending is None or totals is None or len(totals.shape) != len(weights.shape):
            return
        xp = namespace(totals)
        seen = row_sums(chosen(xp.abs(totals) >= _ROUNDED, 0.0, weights), dim)
        pending.observed.update(seen or {"row_sum_min": 1.0, "row_sum_max": 1.0})

    def on_division(self, node: Node, result: Array) -> None:
        """exp(scores) over its own sum: a softmax written by hand."""
        numerator, denominator = node.inputs[0], node.inputs[1]
        late = behind_layout(numerator).attrs.get("unnormalised")
        if node.op == "mul":
            denominator = behind_layout(denominator)
            if denominator.op != "reciprocal":
                return
            denominator = denominator.inputs[0]
        total = origin_of_sum(denominator)
        exponential = exponential_behind(numerator) if late is None else late[0]
        if total is None or exponential is None or not total.inputs:
            return
        assert isinstance(exponential, Node)
        if exponential_behind(total.inputs[0]) is not exponential:
            return
        dims = total.attrs.get("dims", ())
        if len(dims) != 1:
            return
        largest, shifted = self._exponents.get(exponential.index, (math.inf, False))
        half = exponential.dtype in {"float16", "bfloat16"}
        facts: dict[str, Any] = {
            "exponentials": "shifted" if shifted else "bare",
            "dtype": exponential.dtype,
            "largest_exponent": largest,
            "separate_half": half,
            "sink": adds_to_sum(denominator),
            "axis_source": total.source,
        }
        if facts["sink"] and less_row_maximum(exponential.inputs[0], dims[0]):
            facts["added_after_shift"] = added_number(denominator, self.recorder.values)
        base_two = exponential.op == "exp2"
        scores, dim = exponential.inputs[0], dims[0]
        if late is None:
            node.weights_of = (*node.weights_of, node.index)
            node.on_scores = 0
            self._begin(node, scores, dim, "exp and sum", facts, result, None, base_two)
            self._place(node, exponential)
            return
        _, numbers, value, product = late
        self._undivided.pop(product.index, None)
        shaped = numbers.reshape(exponential.shape)
        with quiet():
            weights = shaped / namespace(shaped).sum(shaped, axis=dim, keepdims=True)
        self._begin(node, scores, dim, "exp, product, division", facts, weights, None, base_two)
        self._place(node, exponential)
        pending = self.pending.get(node.index)
        if pending is not None:
            pending.met_values = True
            node.attrs["output_of"] = node.index
            self._measure(pending, product, 0, (numbers, value))

    def _place(self, node: Node, exponential: Node) -> None:
        """A softmax by hand is where its exponential is taken."""
        if node.index in self.pending:
            self.pending[node.index].place = exponential

    def on_log_softmax(self, node: Node, log_softmax: Node, weights: Array) -> None:
        """exp(log_softmax(scores))."""
        scores = log_softmax.inputs[0]
        if scores.on_scores:
            node.weights_of = (*node.weights_of, node.index)
            facts = {"exponentials": "kernel", "dtype": scores.dtype}
            dim = log_softmax.attrs["dim"]
            self._begin(node, scores, dim, "exp(log_softmax)", facts, weights, None)

    def on_log_weights(
        self, node: Node, log_softmax: Node | None, tensors: Sequence[Array]
    ) -> None:
        """log_softmax(scores) times the values: its rows sum to no one number."""
        if log_softmax is None or log_softmax.index in self.pending:
            return
        scores, dim = log_softmax.inputs[0], log_softmax.attrs["dim"]
        weights = tensors[0].reshape(log_softmax.shape)
        facts = {"exponentials": "kernel", "dtype": scores.dtype}
        with quiet():
            softmax = namespace(weights).exp(weights)
        self._begin(log_softmax, scores, dim, "log_softmax", facts, softmax, None)
        pending = self.pending.get(log_softmax.index)
        if pending is not None:
            pending.met_values = True
            pending.observed.update(row_sums(weights, dim))
            self._measure(pending, node, 0, tensors)

    def on_unnormalised(self, node: Node, tensors: Sequence[Array]) -> None:
        """exp(scores) times the values, which may be divided by the sum afterwards."""
        exponential = exponential_behind(node.inputs[0])
        if exponential is None:
            self.list_bare(node)
            return
        node.attrs["unnormalised"] = (exponential, tensors[0], tensors[1], node)
        if exponential.inputs and exponential.inputs[0].on_scores == SCORES:
            # Others decay with the distance, as those of a recurrence that is run in parallel.
            self._undivided[node.index] = place_of(node)
        self._late.append(node)
        while len(self._late) > 2:
            self._late.popleft().attrs.pop("unnormalised", None)
