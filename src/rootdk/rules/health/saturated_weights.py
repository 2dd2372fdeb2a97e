"""RDK601."""

from __future__ import annotations

from collections.abc import Iterable

from rootdk.records import AttentionSite, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._evidence import State, SummaryLike, measured, share_over_heads
from rootdk.rules._examples import Example, fires, numbers, silent, skips


class SaturatedWeights(Rule):
    """Most rows give nearly all of their weight to one key.

    What it does
    ------------
    Reports layers in which more than half of the rows have a weight above 0.9.

    Why it matters
    --------------
    A layer that has decided before it learned anything has decided at random, and learns
    slowly: the gradient of a softmax whose largest weight is w is at most w·(1 - w), 0.09 here.
    In a trained model it can be what the layer is for, such as a head that looks at the token
    before.

    How it is measured
    ------------------
    The share of rows whose largest weight is above 0.9, as the mean over heads. Rows that see
    one key only never count: their weight is 1 whatever the scores.

    Remedy
    ------
    Look for what makes the scores large (row_spread, and the entries behind it), and make it
    smaller at the start: smaller projections, or a norm on query and key.

    When it stays silent
    --------------------
    Where a rule of the scale or the entries family has fired at the site: that is the cause,
    and this is what it does. In a trained model it is a note. Where RDK605
    fires it says the same more strongly.

    References
    ----------
    Vaswani et al., 2017, section 3.2.1 (arXiv:1706.03762). Zhai et al., Stabilizing Transformer
    Training by Preventing Attention Entropy Collapse, 2023 (arXiv:2303.06296).
    """

    code = "RDK601"
    name = "saturated-weights"
    since = "0.1"
    severities = (Severity.WARNING, Severity.NOTE)

    def judge_rows(self, site: AttentionSite, summary: SummaryLike, state: State) -> Findings:
        """Yield one finding if over half of the rows are saturated."""
        share = share_over_heads(summary, "rows_over_90")
        if not share > _HALF:
            return
        evidence: dict[str, object] = {"rows_over_90": share}
        for name in ("row_spread", "max_weight", "first_key_weight"):
            if name in summary.quantities:
                evidence[name] = tuple(float(value) for value in measured(summary, name))
        yield self.finding(
            site,
            Severity.WARNING if state == "init" else Severity.NOTE,
            f"{share:.1%} of the rows give more than 0.9 of their weight to one key"
            + (" before any training" if state == "init" else ""),
            evidence=evidence,
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        yield fires(
            "a new layer that has decided",
            Severity.WARNING,
            summary=numbers(rows_over_90=0.8),
            says=("80.0% of the rows", "before any training"),
        )
        yield fires(
            "a trained layer", Severity.NOTE, summary=numbers(rows_over_90=0.8), state="trained"
        )
        yield silent("a few rows", summary=numbers(rows_over_90=0.3))
        yield silent("one head of six", summary=numbers(rows_over_90=(1.0, 0, 0, 0, 0, 0)))
        yield skips("only rows with one key", summary=numbers(rows_over_90=float("nan")))


_HALF = 0.5
