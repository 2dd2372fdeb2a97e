"""RDK204."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rootdk.records import AttentionSite, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._evidence import SummaryLike, measured
from rootdk.rules._examples import Example, fires, healthy_site, numbers, silent


class UnevenHeads(Rule):
    """One head's scores spread far more, or far less, than those of the heads beside it.

    What it does
    ------------
    Reports layers in which a head's spread within rows is more than 8 times the median of the
    layer's heads, or less than an eighth of it.

    Why it matters
    --------------
    Such a head decides on one key while the others still compare, or averages while the others
    decide. It is the first to overflow in half precision and the first to stop learning; and in
    a port it can be a head that was loaded from the wrong slice.

    How it is measured
    ------------------
    row_spread of each head over the median row_spread of the layer, in layers of at least 3
    heads whose median is above 0.001. All heads outside are named; the message quotes the
    furthest.

    Remedy
    ------
    Nothing needs repair by itself in a trained model; in a new one, check how the heads'
    projections are initialised and sliced.

    When it stays silent
    --------------------
    In layers of one or two heads, in layers whose scores hardly spread at all, and within the
    factor of 8. It is always a note.

    References
    ----------
    Michel et al., Are Sixteen Heads Really Better than One?, 2019 (arXiv:1905.10650). Zhai et
    al., 2023 (arXiv:2303.06296), on heads whose entropy collapses.
    """

    code = "RDK204"
    name = "uneven-heads"
    since = "0.1"
    severities = (Severity.NOTE,)
    supersedes = ("RDK601", "RDK605")

    def judge_heads(self, site: AttentionSite, summary: SummaryLike) -> Findings:
        """Yield one finding if a head is far from the median of the layer's heads."""
        spreads = measured(summary, "row_spread")
        if int(np.sum(np.isfinite(spreads))) < _FEWEST_HEADS:
            return
        median = float(np.nanmedian(spreads))
        if not (np.isfinite(median) and median > _SMALLEST_MEDIAN):
            return
        ratios = spreads / median
        outside = np.flatnonzero((ratios > _FACTOR) | (ratios < 1.0 / _FACTOR))
        if outside.size == 0:
            return
        distance = np.abs(np.log(np.maximum(ratios[outside], np.finfo(np.float64).tiny)))
        furthest = int(outside[int(np.argmax(distance))])
        yield self.finding(
            site,
            Severity.NOTE,
            f"scores of head {furthest} spread by {spreads[furthest]:.3g} within rows, "
            f"{ratios[furthest]:.3g} times the median of the {spreads.size} heads, {median:.3g}",
            source=site.product_source,
            evidence={
                "median_row_spread": median,
                "heads": tuple(int(head) for head in outside),
                "row_spreads": tuple(float(spreads[head]) for head in outside),
            },
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        yield fires(
            "one head of six stands out",
            Severity.NOTE,
            summary=numbers(row_spread=(1.0, 1.2, 20.0, 0.8, 1.0, 1.0)),
            state="trained",
            says=("head 2 spread by 20", "20 times the median of the 6 heads"),
        )
        yield fires(
            "one head is empty",
            Severity.NOTE,
            summary=numbers(row_spread=(1.0, 1.0, 1.0, 1.0, 1.0, 0.0)),
            says=("head 5", "0 times"),
        )
        yield silent("even heads")
        yield silent("within a factor of 8", summary=numbers(row_spread=(1, 1, 1, 1, 1, 7)))
        yield silent(
            "two heads have no median to stand out from",
            site=healthy_site(num_heads=2, num_kv_heads=2),
            summary=numbers(heads=2, row_spread=(1.0, 20.0)),
        )
        yield silent(
            "hardly any spread", summary=numbers(row_spread=(1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1e-4))
        )


_FACTOR = 8.0
_FEWEST_HEADS = 3
_SMALLEST_MEDIAN = 1e-3
