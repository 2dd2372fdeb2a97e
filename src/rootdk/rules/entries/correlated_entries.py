"""RDK203."""

from __future__ import annotations

from collections.abc import Iterable

from rootdk.records import AttentionSite, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._evidence import SummaryLike, median_over_heads
from rootdk.rules._examples import Example, fires, healthy_site, numbers, silent, skips


class CorrelatedEntries(Rule):
    """The scores spread far more, or far less, than entries of that size explain.

    What it does
    ------------
    Reports layers whose measured spread differs by more than a factor of 4 from √head_dim·scale
    ·query_std·key_std, which holds for independent entries with a mean of 0.

    Why it matters
    --------------
    The square root in 1/√head_dim is the arithmetic of independent entries. Entries that share
    a direction, or an offset common to all positions, add up instead of cancelling: the spread
    then grows with head_dim and not with its root, and the usual scale no longer holds it.

    How it is measured
    ------------------
    spread over predicted_spread at the median head. The means of the entries, which are reported
    with it, tell an offset from an uneven use of directions.

    Remedy
    ------
    Nothing needs repair by itself; where the scores are too large, a norm on query and key takes
    out both causes.

    When it stays silent
    --------------------
    Within a factor of 4, behind a softcap (which narrows the spread on purpose), and where
    entries are so small that there is nothing to compare. It is always a note: trained models
    use few directions, and use them on purpose.

    References
    ----------
    Ethayarajh, How Contextual are Contextualized Word Representations?, 2019
    (arXiv:1909.00512), on anisotropy. Dehghani et al., 2023 (arXiv:2302.05442), for norms on
    query and key.
    """

    code = "RDK203"
    name = "correlated-entries"
    since = "0.1"
    severities = (Severity.NOTE,)
    supersedes = ("RDK601", "RDK605")

    def judge_spread(self, site: AttentionSite, summary: SummaryLike) -> Findings:
        """Yield one finding if spread and predicted spread are far apart."""
        if site.softcap is not None:
            return
        if site.queries * site.keys * site.batch < _FEWEST_SCORES:
            self.skip(f"a head has fewer than {_FEWEST_SCORES} scores: their spread says little")
        spread = median_over_heads(summary, "spread")
        predicted = abs(median_over_heads(summary, "predicted_spread"))
        if not predicted > _TOO_SMALL_TO_COMPARE:
            return
        ratio = spread / predicted
        if not (ratio > _FACTOR or ratio < 1.0 / _FACTOR):
            return
        yield self.finding(
            site,
            Severity.NOTE,
            f"scores spread by {spread:.3g}, {ratio:.3g} times the {predicted:.3g} that "
            "independent entries of the same size would give",
            source=site.product_source,
            evidence={
                "spread": spread,
                "predicted_spread": predicted,
                **{
                    name: median_over_heads(summary, name)
                    for name in ("query_mean", "key_mean", "query_std", "key_std")
                    if name in summary.quantities
                },
            },
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        yield fires(
            "all entries along one direction",
            Severity.NOTE,
            summary=numbers(spread=8.0),
            says=("spread by 8, 8 times the 1",),
        )
        yield fires(
            "scores that hardly spread",
            Severity.NOTE,
            summary=numbers(spread=0.1),
            state="trained",
            says=("0.1 times",),
        )
        yield silent("as predicted")
        yield silent("three times the prediction", summary=numbers(spread=3.0))
        yield silent(
            "behind a softcap", site=healthy_site(softcap=5.0), summary=numbers(spread=0.1)
        )
        yield skips(
            "one score a head spreads by 0",
            site=healthy_site(batch=1, queries=1, keys=1),
            summary=numbers(spread=0.0),
        )
        yield silent("nothing to compare", summary=numbers(spread=1e-9, predicted_spread=0.0))


_FACTOR = 4.0
_FEWEST_SCORES = 64
_TOO_SMALL_TO_COMPARE = 1e-6
