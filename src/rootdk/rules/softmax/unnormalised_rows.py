"""RDK303."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from rootdk._lib.arrays import float_info
from rootdk._lib.errors import DtypeError
from rootdk.records import (
    AttentionSite,
    Behaviour,
    Normalisation,
    Observed,
    Severity,
    SoftmaxFacts,
    Verification,
)
from rootdk.rules._base import Findings, Rule
from rootdk.rules._behaviour_examples import behaving, fires_of, silent_of, skips_of, softened
from rootdk.rules._evidence import recomputed_output
from rootdk.rules._examples import Example, fires, healthy_site, silent, skips


class UnnormalisedRows(Rule):
    """The weights of a row do not sum to 1.

    What it does
    ------------
    Finds attention whose weights, after the last normalisation and before dropout, sum to
    something else than 1 in a row that has a visible key.

    Why it matters
    --------------
    The output is no longer an average of the values: its size depends on the length, on the
    mask or on the scores. Layers behind it see inputs of a size that they were not built for.

    How it is measured
    ------------------
    The smallest and the largest sum of a row that has a visible key, compared with 1 at a
    tolerance of 0.001 or four times the precision of the dtype, whichever is larger. Where the
    denominator was seen to hold a further term (a sink, or the 1 of softmax-one), a sum between
    0 and 1 is right; unless that term is a constant beside exponentials less the row's maximum,
    read off the graph.

    Of a function alone: its output for a value of 1 everywhere, in rows of very different
    scores, short and long. A sink that is one number per head is allowed; a term that moves with
    the row's maximum is none.

    Remedy
    ------
    Divide by the sum over the keys that the row can see, after the mask, and change nothing in
    the weights afterwards. A 1 that is added to the sum becomes exp(-maximum) where the maximum is
    subtracted from the scores.

    When it stays silent
    --------------------
    For rows without a visible key, in a fused kernel whose output was recomputed with rows that
    sum to 1 and agreed, with a sink that is part of the graph, and where a rule that
    names the cause has fired: a factor on the weights, another axis, a second softmax, a mask
    after the softmax.

    Of a function: where one factor explains all sums (RDK109), and where ``row_sums`` are
    declared with expect=. Sums that are all the same, in a function that no single softmax
    explains, are a note: a difference of two softmaxes has them.

    References
    ----------
    Vaswani et al., 2017, equation 1 (arXiv:1706.03762). Xiao et al., Efficient Streaming
    Language Models with Attention Sinks, 2023 (arXiv:2309.17453).
    """

    code = "RDK303"
    name = "unnormalised-rows"
    since = "0.1"
    severities = (Severity.ERROR, Severity.NOTE)

    def judge_sums(self, site: AttentionSite) -> Findings:
        """Yield one finding if a row's sum is out of bounds."""
        low, high = site.observed.row_sum_min, site.observed.row_sum_max
        if low is None or high is None:
            if recomputed_output(site):
                return
            self.skip("the sums of the rows were not looked at")
        if not (math.isfinite(low) and math.isfinite(high)):
            self.skip("a row's sum is not finite")
        bound = tolerance_of_sums(site)
        sink = site.normalisation.sink
        least = -bound if sink else 1.0 - bound
        if low >= least and high <= 1.0 + bound:
            return
        expected = "at most 1, with the sink" if sink else "1"
        yield self.finding(
            site,
            Severity.ERROR,
            f"rows of weights sum to between {low:.6g} and {high:.6g}, not to {expected}",
            source=site.source,
            evidence={"row_sum_min": low, "row_sum_max": high, "tolerance": bound, "sink": sink},
        )

    def judge_addend(self, site: AttentionSite) -> Findings:
        """Yield one finding if a constant was added to a sum that the maximum was taken out of."""
        added, seen = site.normalisation.added_after_shift, site.observed
        if added is None or added < _A_KEY:
            return
        low, high = seen.row_sum_min, seen.row_sum_max
        # Where the sum stands behind the product, the rows were summed without what is added.
        known = low is not None and high is not None and high < 1.0
        sums = f"; rows sum to between {low:.6g} and {high:.6g}" if known else ""
        times = "" if added == 1.0 else f"{added:.6g}·"
        yield self.finding(
            site,
            Severity.ERROR,
            f"{added:.6g} is added to a sum of exponentials less the row's maximum: that moves "
            "with the maximum, as a further key of that very score, where one of score 0 adds "
            f"{times}exp(-maximum){sums}",
            source=site.normalisation.axis_source or site.source,
            evidence={
                "added": added,
                "row_sum_min": low,
                "row_sum_max": high,
            },
        )

    def judge_function(self, behaviour: Behaviour) -> Findings:
        """Yield one finding if the rows of a function sum to different numbers."""
        softmax = behaviour.softmax
        low = None if softmax is None else softmax.row_sum_min
        high = None if softmax is None else softmax.row_sum_max
        if softmax is None or low is None or high is None:
            self.skip("the sums of the rows were not measured")
        if "row_sums" in behaviour.expected or softmax.factor is not None:
            return
        if low <= _FROM_ONE and abs(high - 1.0) <= _FROM_ONE and _hides_keys(behaviour):
            self.skip("the function hides keys unasked, and rows without a visible key sum to 0")
        tilted = softmax.sink_follows_maximum
        if softmax.sink is not None and not tilted:
            return
        if abs(low - 1.0) <= _FROM_ONE and abs(high - 1.0) <= _FROM_ONE:
            return
        other = high - low <= _FROM_ONE and (
            not behaviour.understood or (softmax.lowest_weight or 0.0) < -_FROM_ONE
        )
        end = (
            ": the denominator holds a further term that moves with the row's maximum, so that "
            "it is no sink"
            if tilted
            else ""
        )
        yield self.finding(
            behaviour,
            Severity.NOTE if other else Severity.ERROR,
            f"rows of weights sum to between {low:.6g} and {high:.6g}, not to 1{end}"
            f"{_first_seen(softmax)}",
            excuse=_NO_SINGLE if other else None,
            evidence={
                "fact": "softmax.row_sum",
                "row_sum_min": low,
                "row_sum_max": high,
                "lowest_weight": softmax.lowest_weight,
            },
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""

        def sums(low: float | None, high: float | None, **changes: Any) -> AttentionSite:
            return healthy_site(observed=Observed(row_sum_min=low, row_sum_max=high), **changes)

        sink = Normalisation(sink=True)
        yield fires(
            "rows that lost a part",
            Severity.ERROR,
            site=sums(0.4, 1.0),
            says=("between 0.4 and 1, not to 1",),
            line=13,
        )
        yield fires(
            "rows that are too heavy", Severity.ERROR, site=sums(1.0, 24.0), state="trained"
        )
        yield fires(
            "too heavy in spite of a sink", Severity.ERROR, site=sums(0.3, 1.4, normalisation=sink)
        )
        yield silent("rows that sum to 1", site=sums(0.9999998, 1.0000002))
        yield silent("a sink takes a part", site=sums(0.3, 0.8, normalisation=sink))
        moving = Normalisation(sink=True, exponentials="shifted", added_after_shift=1.0)
        yield fires(
            "one added after the maximum was subtracted",
            Severity.ERROR,
            site=sums(0.5, 0.9, normalisation=moving),
            state="trained",
            says=("1 is added to a sum of exponentials", "between 0.5 and 0.9"),
        )
        half = Normalisation(dtype="bfloat16")
        yield silent("as near as bfloat16 comes", site=sums(0.99, 1.01, normalisation=half))
        yield skips("nobody looked", site=sums(None, None))
        agreed = Verification(rows=32, mismatch=1e-7, bound=1e-6, operands="equal")
        fused = {"spelling": "scaled_dot_product_attention", "verification": agreed}
        yield silent("a fused kernel", site=sums(None, None, **fused))
        yield skips("NaN", site=sums(math.nan, math.nan))
        yield fires_of(
            "a function that never divides",
            Severity.ERROR,
            softened(row_sum_min=1.2, row_sum_max=7.0),
            says=("between 1.2 and 7, not to 1",),
        )
        yield fires_of(
            "a function that adds one after the shift",
            Severity.ERROR,
            softened(row_sum_min=0.6, row_sum_max=0.9, sink=(0.0,), sink_follows_maximum=True),
            says=("moves with the row's maximum",),
        )
        yield silent_of("a function whose rows sum to 1")
        yield silent_of(
            "a function with a sink", softened(row_sum_min=0.3, row_sum_max=0.9, sink=(0.0,))
        )
        yield fires_of(
            "a difference of two softmaxes",
            Severity.NOTE,
            softened(row_sum_min=0.2, row_sum_max=0.2, lowest_weight=-0.4),
            says=("all sums are the same",),
        )
        yield skips_of("a function whose sums are not known", behaving(softmax=None))


def tolerance_of_sums(site: AttentionSite) -> float:
    """Return how far a row's sum may be from 1 in the dtypes of softmax and scores."""
    precision = 0.0
    for dtype in (site.normalisation.dtype, site.score_dtype):
        try:
            precision = max(precision, float_info(dtype).eps)
        except DtypeError:
            continue
    return max(1e-3, 4.0 * precision)


_FROM_ONE = 1e-3

# A smaller number beside the sum guards a division; it stands for no key.
_A_KEY = 0.5

_NO_SINGLE = "all sums are the same, and no single softmax explains the weights"


def _hides_keys(behaviour: Behaviour) -> bool:
    """Tell whether a plain call is causal or has a window, measured or declared."""
    mask = behaviour.mask
    return bool(mask is not None and mask.always_causal) or "window" in behaviour.expected


def _first_seen(softmax: SoftmaxFacts) -> str:
    """Return the sizes at which rows first did not sum to 1, where smaller ones did."""
    at = softmax.rows_at
    return "" if at is None else f"; first at {at.queries} queries and {at.keys} keys"
