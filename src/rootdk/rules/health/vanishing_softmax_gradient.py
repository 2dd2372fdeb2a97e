"""RDK605."""

from __future__ import annotations

from collections.abc import Iterable

from rootdk.records import AttentionSite, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._evidence import State, SummaryLike, measured, share_over_heads
from rootdk.rules._examples import Example, fires, numbers, silent, skips


class VanishingSoftmaxGradient(Rule):
    """The softmax passes hardly any gradient back in most rows.

    What it does
    ------------
    Reports layers in which no entry of the softmax's Jacobian exceeds 0.0099 in more than half
    of the rows.

    Why it matters
    --------------
    What query and key learn from the loss is multiplied by this matrix. Where it is zero they
    stand still, whatever the learning rate: the layer keeps the choice that its first weights
    made.

    How it is measured
    ------------------
    The largest entry of a row's Jacobian, diag(w) - w·wᵀ, is w_max·(1 - w_max), always. It is
    below 0.0099 exactly where the largest weight is above 0.99 (or below 0.01, where weights are
    spread, which is no fault and does not count); so the share of rows whose largest weight is
    above 0.99 is compared with a half, as the mean over heads. Rows that see one key never count.

    Remedy
    ------
    Look for what makes the scores large (row_spread, and the entries behind it), and make it
    smaller at the start: smaller projections, or a norm on query and key.

    When it stays silent
    --------------------
    Where a rule of the scale or the entries family has fired at the site: that is the cause,
    and this is what it does. In a trained model it is a note.

    References
    ----------
    Vaswani et al., 2017, section 3.2.1 (arXiv:1706.03762): "regions where it has extremely
    small gradients". Noci et al., Signal Propagation in Transformers, 2022 (arXiv:2206.03126).
    """

    code = "RDK605"
    name = "vanishing-softmax-gradient"
    since = "0.1"
    severities = (Severity.WARNING, Severity.NOTE)
    supersedes = ("RDK601",)

    def judge_rows(self, site: AttentionSite, summary: SummaryLike, state: State) -> Findings:
        """Yield one finding if over half of the rows pass no gradient."""
        share = share_over_heads(summary, "rows_over_99")
        if not share > _HALF:
            return
        evidence: dict[str, object] = {"rows_over_99": share}
        for name in ("jacobian_max", "jacobian_trace", "row_spread"):
            if name in summary.quantities:
                evidence[name] = tuple(float(value) for value in measured(summary, name))
        yield self.finding(
            site,
            Severity.WARNING if state == "init" else Severity.NOTE,
            f"the softmax's Jacobian has no entry above 0.0099 in {share:.1%} of the rows, whose "
            "largest weight is above 0.99" + (", before any training" if state == "init" else ""),
            evidence=evidence,
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        stuck = numbers(rows_over_90=0.9, rows_over_99=0.75)
        yield fires(
            "a new layer that cannot learn",
            Severity.WARNING,
            summary=stuck,
            says=("in 75.0% of the rows", "before any training"),
        )
        yield fires("a trained layer", Severity.NOTE, summary=stuck, state="trained")
        yield silent("an ordinary layer")
        yield silent("a few rows", summary=numbers(rows_over_99=0.4))
        yield skips("only rows with one key", summary=numbers(rows_over_99=float("nan")))


_HALF = 0.5
