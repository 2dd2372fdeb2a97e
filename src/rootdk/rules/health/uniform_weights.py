"""RDK602."""

from __future__ import annotations

from collections.abc import Iterable

from rootdk.records import AttentionSite, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._evidence import State, SummaryLike, median_over_heads
from rootdk.rules._examples import Example, fires, numbers, silent, skips


class UniformWeights(Rule):
    """A trained layer gives every visible key the same weight.

    What it does
    ------------
    Reports trained layers whose weights are uniform: their entropy is more than 0.9999 of the
    largest that is possible.

    Why it matters
    --------------
    Such a layer is an average over what it may see. It can be meant, as in a head that counts;
    more often its scores have lost their size in a port, or it never learned.

    How it is measured
    ------------------
    entropy_share, the entropy of a row over the logarithm of its number of visible keys,
    averaged over rows that see at least two; the median head is compared with 0.9999.

    Remedy
    ------
    Look at row_spread and at the scale, and compare with the original if the model was ported.

    When it stays silent
    --------------------
    At initialisation: the libraries' own defaults start close to uniform (a spread of 0.03 gives
    a share of 0.9999 over a hundred keys), and that is a fair place to start from. Where a rule
    has named the cause, such as a scale that is too small or a second softmax.

    References
    ----------
    Dong, Cordonnier and Loukas, Attention is Not All You Need, 2021 (arXiv:2103.03404), on what
    layers of averages do to rank.
    """

    code = "RDK602"
    name = "uniform-weights"
    since = "0.1"
    severities = (Severity.NOTE,)

    def judge_entropy(self, site: AttentionSite, summary: SummaryLike, state: State) -> Findings:
        """Yield one finding if a trained layer is uniform."""
        if state != "trained":
            return
        share = median_over_heads(summary, "entropy_share")
        if not share > _UNIFORM:
            return
        spread = (
            median_over_heads(summary, "row_spread") if "row_spread" in summary.quantities else None
        )
        because = "" if spread is None else f"; scores spread by {spread:.3g} within rows"
        yield self.finding(
            site,
            Severity.NOTE,
            f"weights have {share:.5%} of the largest possible entropy: every visible key gets "
            f"nearly the same weight{because}",
            evidence={"entropy_share": share, "row_spread": spread},
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        flat = numbers(entropy_share=0.99999, row_spread=0.001)
        yield fires(
            "a trained layer that averages",
            Severity.NOTE,
            summary=flat,
            state="trained",
            says=("99.99900% of the largest", "spread by 0.001"),
        )
        yield silent("the same before training", summary=flat, state="init")
        yield silent("an ordinary trained layer", state="trained")
        yield silent(
            "one head of six",
            summary=numbers(entropy_share=(1.0, 0.7, 0.7, 0.7, 0.7, 0.7)),
            state="trained",
        )
        yield skips(
            "only rows with one key",
            summary=numbers(entropy_share=float("nan")),
            state="trained",
        )


_UNIFORM = 0.9999
