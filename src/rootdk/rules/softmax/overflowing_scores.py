"""RDK307."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np

from rootdk._lib.arrays import float_info, is_half
from rootdk._lib.errors import DtypeError
from rootdk.records import AttentionSite, Behaviour, Observed, PrecisionFacts, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._behaviour_examples import behaving, fires_of, precise, silent_of, skips_of
from rootdk.rules._evidence import NotJudged, SummaryLike, measured
from rootdk.rules._examples import Example, fires, healthy_site, numbers, silent, skips
from rootdk.rules.softmax._dtypes import FAR, OUTCOMES, exp_end, judged_dtypes


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

    Of a function alone: query and key grow while their scaled scores stay small, and all scores
    of a row grow together. What gives NaN, infinity or other weights has overflowed on the way.
    In a half dtype that the caller did not ask for, it is a note.

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
    severities = (Severity.ERROR, Severity.WARNING, Severity.NOTE)
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

    def judge_function(self, behaviour: Behaviour) -> Findings:
        """Yield one finding for the narrowest dtype in which a function's scores overflow."""
        if not behaviour.precision:
            self.skip("the function was not tried with large scores")
        asked = {facts.dtype for facts in judged_dtypes(behaviour)}
        known = behaviour.precision.values()
        for facts in sorted(known, key=lambda facts: facts.dtype not in asked):
            reached = _broken_at(facts)
            if reached is None:
                continue
            what, number, outcome = reached
            judged = facts.dtype in asked
            yield self.finding(
                behaviour,
                Severity.ERROR if judged else Severity.NOTE,
                f"{what} of {number:.4g} give {OUTCOMES[outcome]} in {facts.dtype}",
                excuse=None if judged else "half precision was tried unasked",
                evidence={
                    "fact": f"precision.{facts.dtype}.{'product' if 'q·k' in what else 'shift'}",
                    "breaks_at": number,
                    "outcome": outcome,
                    "dtype": facts.dtype,
                },
            )
            return

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
        yield fires_of(
            "a function whose product overflows in float16",
            Severity.ERROR,
            precise(
                "float16",
                product_breaks_at=1e5,
                product_outcome="nan",
                dtype_asked="float16",
            ),
            says=("products q·k of 1e+05 give NaN in float16",),
        )
        yield fires_of(
            "the same where nobody asked for float16",
            Severity.NOTE,
            precise("float16", product_breaks_at=1e5, product_outcome="nan"),
            says=("unasked",),
        )
        yield fires_of(
            "a cap that is made of exponentials",
            Severity.ERROR,
            precise(shift_breaks_at=4500.0, shift_outcome="nan"),
            says=("scores of 4500 give NaN in float32",),
        )
        yield silent_of("a function that holds")
        yield silent_of(
            "a function that breaks at what float32 can hardly square",
            precise(product_breaks_at=1e36, product_outcome="inf"),
        )
        yield skips_of("a function that was not tried", behaving(precision={}))


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


def _broken_at(facts: PrecisionFacts) -> tuple[str, float, str] | None:
    """Return what broke a function, how large it was and what came out."""
    product, outcome = facts.product_breaks_at, facts.product_outcome
    if product is not None and outcome is not None and product <= _NOBODY_MEANS_MORE:
        return "products q·k", product, outcome
    shift, outcome = facts.shift_breaks_at, facts.shift_outcome
    beyond_exp = shift is not None and shift > FAR * exp_end(facts)
    if shift is not None and outcome is not None and beyond_exp and not is_half(facts.dtype):
        return "scores", shift, outcome
    return None


_NOBODY_MEANS_MORE = 1e12
"""Products beyond this are no scores of anything, in any dtype that holds them."""
