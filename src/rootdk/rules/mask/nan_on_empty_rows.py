"""RDK401."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rootdk.records import AttentionSite, Behaviour, Observed, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._behaviour_examples import behaving, fires_of, masking, silent_of, skips_of
from rootdk.rules._evidence import NotJudged, SummaryLike, measured
from rootdk.rules._examples import Example, fires, healthy_site, numbers, silent, skips


class NanOnEmptyRows(Rule):
    """The weights of a query that may see no key are NaN.

    What it does
    ------------
    Finds rows without a visible key, usually those of padding, whose weights came out as NaN.

    Why it matters
    --------------
    A softmax over nothing but -inf is 0/0. As long as nobody reads such a row the output looks
    right, but a later layer that averages over positions, or one whose mask is multiplied by
    its values, meets it; and in the backward pass 0·NaN is NaN, so that one such row turns the
    gradients of all weights into NaN.

    How it is measured
    ------------------
    The rows in which the mask leaves no key are counted, and of those the ones whose weights
    are NaN where they meet the values.

    Of a function alone: a row is emptied by its mask, by a bias of -inf or by its causal flag.

    Remedy
    ------
    Give such rows weights of 0: mask with a large finite number and multiply the rows by 0
    afterwards, or let padded queries see themselves.

    When it stays silent
    --------------------
    Where every row sees a key, and where such rows get weights of 0 or an average, even if a
    NaN was replaced on the way. It is a warning and not an error, since the forward result can
    be right when nothing reads the rows.

    Of a function: where ``empty_rows`` are declared with expect=, and where a bias of -inf over
    a whole row came from the caller.

    References
    ----------
    Cases seen in public: pytorch/pytorch#41508 on gradients, pytorch/pytorch#103749 on the
    fused call. The ONNX operator Attention defines such rows as 0.
    """

    code = "RDK401"
    name = "nan-on-empty-rows"
    since = "0.1"
    severities = (Severity.WARNING,)

    def judge_rows(self, site: AttentionSite, summary: SummaryLike | None = None) -> Findings:
        """Yield one finding if empty rows hold NaN."""
        count = site.observed.empty_rows_nan
        if count is None:
            if _no_empty_rows(summary):
                return
            self.skip("the weights of rows without a visible key were not looked at")
        if count == 0:
            return
        yield self.finding(
            site,
            Severity.WARNING,
            f"{count} rows of weights without a visible key are NaN",
            source=site.source,
            evidence={"empty_rows_nan": count},
        )

    def judge_function(self, behaviour: Behaviour) -> Findings:
        """Yield one finding if a row that a mask empties gives NaN."""
        if behaviour.mask is None or not behaviour.mask.empty_rows:
            self.skip("no row could be emptied")
        ways = [w for w in _OWN_WAYS if behaviour.mask.empty_rows.get(w) == "nan"]
        if not ways or "empty_rows" in behaviour.expected:
            return
        yield self.finding(
            behaviour,
            Severity.WARNING,
            f"a row whose keys are all forbidden (by {' or '.join(ways)}) gives NaN",
            evidence={"fact": "mask.empty_rows", "ways": tuple(ways)},
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        yield fires(
            "three rows of padding",
            Severity.WARNING,
            site=healthy_site(observed=Observed(empty_rows_nan=3)),
            says=("3 rows of weights", "NaN"),
            line=13,
        )
        yield silent("rows of zeros", site=healthy_site(observed=Observed(empty_rows_nan=0)))
        yield silent("no such rows, by the statistics", summary=numbers(empty_rows=0))
        yield skips("such rows, and nobody looked", summary=numbers(empty_rows=4))
        yield skips("nothing known", summary=None)
        yield fires_of(
            "a function that fills with -inf",
            Severity.WARNING,
            masking(empty_rows={"mask": "nan", "bias": "zero"}),
            says=("(by mask) gives NaN",),
        )
        yield silent_of("a function that gives zeros")
        yield silent_of("a bias of -inf everywhere", masking(empty_rows={"bias": "nan"}))
        yield silent_of(
            "a function that is meant to",
            masking({"empty_rows": "nan"}, empty_rows={"mask": "nan"}),
        )
        yield skips_of("a function without a mask", behaving(mask=None))


def _no_empty_rows(summary: SummaryLike | None) -> bool:
    if summary is None:
        return False
    try:
        return float(np.nansum(measured(summary, "empty_rows"))) == 0.0
    except NotJudged:
        return False


_OWN_WAYS = ("mask", "causal")
"""Ways to empty a row in which the function itself writes -inf."""
