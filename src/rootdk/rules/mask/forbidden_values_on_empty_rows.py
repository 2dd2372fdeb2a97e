"""RDK408."""

from __future__ import annotations

from collections.abc import Iterable

from rootdk.records import Behaviour, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._behaviour_examples import behaving, fires_of, masking, silent_of, skips_of
from rootdk.rules._examples import Example


class ForbiddenValuesOnEmptyRows(Rule):
    """A query that may see no key returns a mixture of forbidden values.

    What it does
    ------------
    Finds a function that gives a row without a visible key the mean of the values that it must
    not see, or what it gives without a mask.

    Why it matters
    --------------
    A softmax over equal fills is uniform, however large the fill. The row looks harmless: it is
    finite and of the usual size. But it holds the values of padding or of another document, and
    whatever reads it later (a pooling over positions, the next layer's keys) reads those.

    How it is measured
    ------------------
    A row is emptied by its mask, by a bias of -inf or by its causal flag, and its output is
    compared with 0, with the mean of all values and with the output without a mask.

    Remedy
    ------
    Give such rows an output of 0: multiply the weights by the mask after the softmax, or the
    output by "has a visible key".

    When it stays silent
    --------------------
    At rows of 0 and of NaN (RDK401), where ``empty_rows`` are declared with expect=, and where a
    rule that names the cause has fired. A function that takes the mask off such rows, so that
    they attend as usual, is a note: some detection models mean it.

    References
    ----------
    The ONNX operator Attention (opset 23, 2025) defines such rows as 0. Cheng et al.,
    Mask2Former, 2022 (arXiv:2112.01527), whose code takes the mask off them.
    """

    code = "RDK408"
    name = "forbidden-values-on-empty-rows"
    since = "0.1"
    severities = (Severity.WARNING, Severity.NOTE)

    def judge_function(self, behaviour: Behaviour) -> Findings:
        """Yield one finding if an empty row holds what it must not see."""
        if behaviour.mask is None or not behaviour.mask.empty_rows:
            self.skip("no row could be emptied")
        if "empty_rows" in behaviour.expected:
            return
        ways = {way: what for way, what in behaviour.mask.empty_rows.items() if what in _HOLDS}
        mixed = {way: what for way, what in ways.items() if what != "as-unmasked"} or ways
        if not mixed:
            return
        on_purpose = mixed is ways and "as-unmasked" in mixed.values()
        way, what = next(iter(mixed.items()))
        reach = behaviour.mask.forbidden_reach_empty
        follows = "" if reach is None else f", and follows those values by {reach:.3g}"
        yield self.finding(
            behaviour,
            Severity.NOTE if on_purpose else Severity.WARNING,
            f"a row of 0 visible keys (by {' or '.join(mixed)}) gives {_HOLDS[what]}{follows}",
            excuse="the mask is taken off such rows, as some models mean it"
            if on_purpose
            else None,
            evidence={"fact": "mask.empty_rows", "ways": tuple(mixed), "by": way, "gives": what},
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        yield fires_of(
            "a large finite fill",
            Severity.WARNING,
            masking(empty_rows={"mask": "uniform"}, forbidden_reach_empty=1.0),
            says=("(by mask) gives the mean of all values", "follows those values by 1"),
        )
        yield fires_of(
            "an unmasked row among uniform ones",
            Severity.WARNING,
            masking(empty_rows={"bias": "as-unmasked", "mask": "uniform"}),
        )
        yield fires_of(
            "a mask that is taken off",
            Severity.NOTE,
            masking(empty_rows={"mask": "as-unmasked"}),
            says=("what it gives without a mask",),
        )
        yield silent_of("rows of zeros")
        yield silent_of("rows of NaN", masking(empty_rows={"mask": "nan"}))
        yield silent_of(
            "declared", masking({"empty_rows": "uniform"}, empty_rows={"mask": "uniform"})
        )
        yield skips_of("a function without a mask", behaving(mask=None))


_HOLDS = {
    "uniform": "the mean of all values",
    "uniform-over-visible-to-causal": "the mean of the values that causal order allows",
    "as-unmasked": "what it gives without a mask",
    "other": "a mixture of values",
}
