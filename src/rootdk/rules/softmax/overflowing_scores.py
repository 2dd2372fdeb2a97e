"""RDK307."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np

from rootdk._lib.arrays import float_info
from rootdk._lib.errors import DtypeError
from rootdk.records import AttentionSite, Observed, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._evidence import NotJudged, SummaryLike, measured
from rootdk.rules._examples import Example, fires, healthy_site, numbers, silent, skips


class OverflowingScores(Rule):
    """The scores reach, or nearly reach, the largest number of their dtype.

    What it does
    ------------
    Finds scores that overflowed, an error, and scores within a factor of 8 of it, a warning.

    Why it matters
    --------------
    float16 ends at 65504. The product of query and key is computed in it before the scale is
    applied, and two vectors along the same
    direction reach that number with entries of size 32 at head_dim 64. What overflows is
    infinite, a row of it is NaN, and the loss is NaN from then on.

    How it is measured
    ------------------
    The largest magnitude of the product in its own dtype, before any later factor, and the
    headroom of the scaled scores: the dtype's largest finite number over the largest score. The
    smaller headroom of the two counts.

    Remedy
    ------
    Scale the query before the product instead of the scores after it, or compute the product
    in float32 or bfloat16.

    When it stays silent
    --------------------
    At a headroom of 8 and more, which is always the case in float32 and bfloat16 for scores
    that mean anything; and where query or key were NaN or infinite already, which is RDK606.

    References
    ----------
    Micikevicius et al., Mixed Precision Training, 2018 (arXiv:1710.03740). A case seen in
    public: pytorch/pytorch#60939.
    """

    code = "RDK307"
    name = "overflowing-scores"
    since = "0.1"
    severities = (Severity.ERROR, Severity.WARNING)
    supersedes = ("RDK302", "RDK303", "RDK606")
    supersedes_when = (Severity.ERROR,)
    needs_resolved = False

    def judge_headroom(self, site: AttentionSite, summary: SummaryLike | None = None) -> Findings:
        """Yield one finding if the headroom is below 8, an error if there was none."""
        if site.observed.nonfinite_inputs:
            self.skip("query or key held NaN or infinity before the product")
        try:
            limit = float_info(site.score_dtype).max
        except DtypeError:
            self.skip(f"the largest number of {site.score_dtype} is not known")
        largest = site.observed.largest_raw_score
        rooms = _rooms(limit, largest, summary)
        if not rooms:
            self.skip("the largest score was not looked at")
        room = min(rooms)
        if room >= _ENOUGH:
            return
        over = room < 1.0
        reached = limit / room if room > 0.0 else math.inf
        yield self.finding(
            site,
            Severity.ERROR if over else Severity.WARNING,
            f"scores reached {reached:.4g} in {site.score_dtype}, whose largest number is "
            f"{limit:.4g}" + ("" if over else f": a headroom of {room:.3g}"),
            source=site.product_source,
            evidence={"largest_raw_score": largest, "headroom": room, "dtype": site.score_dtype},
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""

        def reached(largest: float | None, **more: Any) -> AttentionSite:
            observed = Observed(largest_raw_score=largest, **more)
            return healthy_site(score_dtype="float16", observed=observed)

        bare = numbers(headroom=None)
        yield fires(
            "the product overflowed",
            Severity.ERROR,
            site=reached(math.inf),
            summary=bare,
            says=("reached inf in float16", "6.55e+04"),
            line=11,
        )
        yield fires(
            "the product came near",
            Severity.WARNING,
            site=reached(20000.0),
            summary=bare,
            state="trained",
            says=("a headroom of 3.28",),
        )
        yield fires(
            "the scaled scores came near",
            Severity.WARNING,
            site=reached(10.0),
            summary=numbers(headroom=2.0),
        )
        yield silent("far below", site=reached(100.0), summary=bare)
        yield silent("float32", site=healthy_site(observed=Observed(largest_raw_score=1e6)))
        yield skips("NaN came in", site=reached(math.inf, nonfinite_inputs=3), says=("before",))
        yield skips("nobody looked", site=reached(None), summary=None)


def _rooms(limit: float, largest: float | None, summary: SummaryLike | None) -> list[float]:
    """Return every headroom that is known; NaN tells nothing."""
    rooms: list[float] = []
    if largest is not None and not math.isnan(largest):
        rooms.append(limit / abs(largest) if largest else math.inf)
    if summary is not None:
        with suppress(NotJudged):
            rooms.append(float(np.nanmin(measured(summary, "headroom"))))
    return rooms


_ENOUGH = 8.0
