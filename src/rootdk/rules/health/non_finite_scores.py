"""RDK606."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import numpy as np

from rootdk.records import AttentionSite, Observed, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._evidence import NotJudged, SummaryLike, measured
from rootdk.rules._examples import Example, fires, healthy_site, numbers, silent, skips


class NonFiniteScores(Rule):
    """Scores at visible keys are NaN or infinite.

    What it does
    ------------
    Finds NaN or +inf among the scores of keys that a query may see, and says whether query and
    key were finite when they met.

    Why it matters
    --------------
    One such score makes its row of weights NaN, and everything behind it. Where query or key
    held NaN already, the cause lies before the attention: a weight, an input, a layer below.

    How it is measured
    ------------------
    Counted in the scores themselves at visible keys, and in query and key. A mask's -inf at a
    forbidden key does not count.

    Remedy
    ------
    Where query and key are finite, look at the scale, the bias and the dtype of the product;
    where they are not, look at the weights of the projections and at what enters them.

    When it stays silent
    --------------------
    Where every visible score is finite, even if padding holds NaN, and where RDK307 saw the
    overflow that made them infinite.

    References
    ----------
    IEEE 754-2019, section 6. Goldberg, What Every Computer Scientist Should Know About
    Floating-Point Arithmetic, 1991.
    """

    code = "RDK606"
    name = "non-finite-scores"
    since = "0.1"
    severities = (Severity.ERROR,)
    supersedes = (
        "RDK201",
        "RDK202",
        "RDK203",
        "RDK204",
        "RDK302",
        "RDK303",
        "RDK401",
        "RDK402",
        "RDK601",
        "RDK602",
        "RDK605",
    )
    needs_resolved = False

    def judge_scores(self, site: AttentionSite, summary: SummaryLike | None = None) -> Findings:
        """Yield one finding if a visible score is not finite."""
        inputs = site.observed.nonfinite_inputs
        count = _count(site, summary)
        if count is None:
            self.skip("the scores were not looked at")
        if count == 0:
            return
        cause = {
            None: "",
            0: "; query and key are finite, so that it happened in the attention",
        }.get(inputs, f"; query and key held {inputs} such entries before they met")
        yield self.finding(
            site,
            Severity.ERROR,
            f"{count} scores at visible keys are NaN or infinite{cause}",
            source=site.product_source,
            evidence={"nonfinite_scores": count, "nonfinite_inputs": inputs},
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        yield fires(
            "NaN in the weights of a projection",
            Severity.ERROR,
            site=healthy_site(observed=Observed(nonfinite_scores=480, nonfinite_inputs=64)),
            says=("480 scores", "held 64 such entries"),
            line=11,
        )
        yield fires(
            "an infinity out of finite entries",
            Severity.ERROR,
            site=healthy_site(observed=Observed(nonfinite_scores=2, nonfinite_inputs=0)),
            state="trained",
            says=("query and key are finite",),
        )
        yield fires(
            "by the statistics alone", Severity.ERROR, summary=numbers(nonfinite_scores=1.0)
        )
        yield silent("finite scores")
        yield silent(
            "as observed, finite",
            site=healthy_site(observed=Observed(nonfinite_scores=0, nonfinite_inputs=0)),
            summary=None,
        )
        yield silent(
            "NaN at forbidden keys only",
            site=healthy_site(observed=Observed(nonfinite_scores=0, nonfinite_inputs=64)),
        )
        yield skips("nobody looked", summary=None)


def _count(site: AttentionSite, summary: SummaryLike | None) -> int | None:
    """Return the number of such scores, by the tensors or by the statistics."""
    counts = [] if site.observed.nonfinite_scores is None else [site.observed.nonfinite_scores]
    if summary is not None:
        with suppress(NotJudged):
            counts.append(int(np.nansum(measured(summary, "nonfinite_scores"))))
    return max(counts, default=None)
