"""RDK202."""

from __future__ import annotations

from collections.abc import Iterable

from rootdk.records import AttentionSite, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._evidence import SummaryLike, median_over_heads
from rootdk.rules._examples import Example, Numbers, fires, numbers, silent, skips


class UndersizedEntries(Rule):
    """Query and key have entries so small that all scores are nearly the same.

    What it does
    ------------
    Reports layers in which entries of the measured size give scores that spread by less than
    0.001, so that every key gets the same weight to within a thousandth.

    Why it matters
    --------------
    The layer is an average, whatever its input. That is a fair place to start from, and some
    initialise the query projection with zeros on purpose; later on, or by accident (an
    embedding of size 0.02 that no norm enlarges), it is a layer that does nothing.

    How it is measured
    ------------------
    predicted_spread, which is √head_dim·scale·query_std·key_std, at the median head, compared
    with 0.001. The defaults of the libraries lie well above: a default linear layer gives 0.33,
    a normal one of 0.02 between 0.03 and 1.6, by width, for an input of size 1.

    Remedy
    ------
    Normalise what enters the projections, or initialise them larger, if the layer is meant to
    attend from the start.

    When it stays silent
    --------------------
    At every ordinary initialisation, and where a rule of the scale family has named a scale
    that makes the scores small. It is always a note.

    References
    ----------
    Glorot and Bengio, Understanding the difficulty of training deep feedforward neural
    networks, 2010. Yang et al., 2022 (arXiv:2203.03466), appendix D.2, on query projections
    that start at zero.
    """

    code = "RDK202"
    name = "undersized-entries"
    since = "0.1"
    severities = (Severity.NOTE,)
    supersedes = ("RDK601", "RDK602", "RDK605")

    def judge_entries(self, site: AttentionSite, summary: SummaryLike) -> Findings:
        """Yield one finding if the predicted spread is below 0.001."""
        spread = median_over_heads(summary, "predicted_spread")
        if not abs(spread) < _SMALLEST_SPREAD:
            return
        query = median_over_heads(summary, "query_std")
        key = median_over_heads(summary, "key_std")
        yield self.finding(
            site,
            Severity.NOTE,
            f"entries of query and key have standard deviations of {query:.3g} and {key:.3g}, "
            f"which spread the scores by {abs(spread):.3g}: all keys get nearly the same weight",
            source=site.product_source,
            evidence={"query_std": query, "key_std": key, "predicted_spread": spread},
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        yield fires(
            "projections of an input of size 0.02",
            Severity.NOTE,
            summary=_spreading(0.0001, query_std=0.01, key_std=0.01),
            says=("0.01 and 0.01", "by 0.0001"),
        )
        yield fires(
            "a query projection of zeros",
            Severity.NOTE,
            summary=_spreading(0.0, query_std=0.0),
        )
        yield silent("a default linear layer", summary=_spreading(0.33))
        yield silent("normal 0.02 at width 64", summary=_spreading(0.026))
        yield skips("not measured", summary=numbers(predicted_spread=None))


def _spreading(size: float, *, query_std: float = 1.0, key_std: float = 1.0) -> Numbers:
    return numbers(
        query_std=query_std, key_std=key_std, predicted_spread=size, spread=size, row_spread=size
    )


_SMALLEST_SPREAD = 1e-3
