"""RDK302."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from rootdk._lib.arrays import float_info
from rootdk._lib.errors import DtypeError
from rootdk.records import AttentionSite, Behaviour, Normalisation, PrecisionFacts, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._behaviour_examples import fires_of, precise, silent_of
from rootdk.rules._examples import Example, fires, healthy_site, silent, skips
from rootdk.rules.softmax._dtypes import FAR, OUTCOMES, exp_end, judged_dtypes


class UnstableSoftmax(Rule):
    """The scores are exponentiated as they are, and nothing bounds them.

    What it does
    ------------
    Finds a softmax written as exp(scores) over its sum, without subtracting the row's maximum
    first, where nothing else keeps the argument of the exponential small.

    Why it matters
    --------------
    exp overflows at 88.7 in float32 and bfloat16 and at 11.1 in float16. One score beyond that
    makes its row infinity over infinity, which is NaN, and NaN reaches everything. Untrained
    models stay far below; trained ones get there on an input that nobody tried.

    How it is measured
    ------------------
    Read off the graph: the exponential's argument has neither a maximum nor a logsumexp
    subtracted, and no tanh, clamp or normalisation bounds it. It is an error when the largest
    argument seen exceeded half of log(largest finite number) of the dtype (44.4 in float32, 5.5
    in float16), and a warning otherwise.

    Of a function alone: a number is added to all scores of a row, larger and larger, which must
    change nothing, and to the score of one key, which must then have all the weight. What breaks
    near the end of exp has no maximum subtracted; what breaks far beyond it is RDK307.

    Remedy
    ------
    Subtract the row's maximum before the exponential, which changes no weight, or call the
    library's softmax, which does it.

    When it stays silent
    --------------------
    At a softmax operator or a fused call, behind a subtracted maximum or logsumexp, and where
    the argument is bounded.

    Of a function, a dtype that the caller did not ask for is passed over if float32 holds.

    References
    ----------
    Blanchard, Higham and Higham, Accurately computing the log-sum-exp and softmax functions,
    IMA Journal of Numerical Analysis, 2021. Milakov and Gimelshein, 2018 (arXiv:1805.02867).
    """

    code = "RDK302"
    name = "unstable-softmax"
    since = "0.1"
    severities = (Severity.ERROR, Severity.WARNING)

    def judge_exponential(self, site: AttentionSite) -> Findings:
        """Yield one finding if the exponential is bare and unbounded."""
        how = site.normalisation
        if how.exponentials != "bare" or how.bounded_by is not None:
            return
        try:
            overflow = math.log(float_info(how.dtype).max)
        except DtypeError:
            self.skip(f"where exp overflows in {how.dtype} is not known")
        seen = how.largest_exponent
        beyond = seen is not None and not seen <= overflow / 2
        reached = f"its argument reached {seen:.4g}" if seen is not None else "its argument"
        yield self.finding(
            site,
            Severity.ERROR if beyond else Severity.WARNING,
            f"exp is taken of the scores without subtracting the row's maximum; {reached}"
            f"{'' if seen is not None else ' was not seen'}, and exp overflows at "
            f"{overflow:.4g} in {how.dtype}",
            source=site.source,
            evidence={"largest_exponent": seen, "overflows_at": overflow, "dtype": how.dtype},
        )

    def judge_function(self, behaviour: Behaviour) -> Findings:
        """Yield one finding if large scores break a function where exp overflows."""
        if not behaviour.precision:
            self.skip("the function was not tried with large scores")
        for facts in judged_dtypes(behaviour):
            breaks, outcome = facts.shift_breaks_at, facts.shift_outcome
            end = exp_end(facts)
            if breaks is None or outcome is None or breaks > FAR * end:
                continue
            yield self.finding(
                behaviour,
                Severity.ERROR,
                f"scores of {breaks:.4g} in {facts.dtype} give {OUTCOMES[outcome]}: "
                f"{_why(facts)} before exp, which overflows at {end:.4g}",
                evidence={
                    "fact": f"precision.{facts.dtype}.shift",
                    "breaks_at": breaks,
                    "outcome": outcome,
                    "overflows_at": end,
                },
            )
            return

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""

        def bare(**changes: Any) -> AttentionSite:
            return healthy_site(normalisation=Normalisation(exponentials="bare", **changes))

        yield fires(
            "arguments past half of the way",
            Severity.ERROR,
            site=bare(largest_exponent=50.0),
            says=("reached 50", "overflows at 88.72 in float32"),
            line=13,
        )
        yield fires(
            "less is needed in float16",
            Severity.ERROR,
            site=bare(largest_exponent=6.0, dtype="float16"),
            state="trained",
            says=("11.09 in float16",),
        )
        yield fires("NaN was seen", Severity.ERROR, site=bare(largest_exponent=math.nan))
        yield fires("small so far", Severity.WARNING, site=bare(largest_exponent=4.0))
        yield fires("never seen", Severity.WARNING, site=bare(), says=("was not seen",))
        yield silent("a softmax operator")
        yield silent(
            "a maximum is subtracted",
            site=healthy_site(normalisation=Normalisation(exponentials="shifted")),
        )
        yield silent("a tanh bounds it", site=bare(bounded_by="tanh", largest_exponent=50.0))
        yield skips("a dtype without known limits", site=bare(dtype="float8_e4m3fn"))
        yield fires_of(
            "a function with a bare exponential",
            Severity.ERROR,
            precise(shift_breaks_at=100.0, shift_outcome="nan"),
            says=("scores of 100 in float32 give NaN", "overflows at 88.72"),
        )
        yield fires_of(
            "a function with one maximum for all rows",
            Severity.ERROR,
            precise(shift_breaks_at=120.0, shift_outcome="nan", shift_uneven=True),
            says=("one number for all rows is subtracted",),
        )
        yield fires_of(
            "a function that subtracts the mean",
            Severity.ERROR,
            precise(shift_breaks_at=128.0, shift_outcome="nan", shift_peaked=True),
            says=("a number that is not the row's maximum is subtracted",),
        )
        yield silent_of("a function that subtracts the maximum")
        yield silent_of(
            "a function that breaks far beyond", precise(shift_breaks_at=5e3, shift_outcome="nan")
        )
        yield silent_of(
            "half precision that nobody asked for",
            precise("float16", shift_breaks_at=16.0, shift_outcome="nan"),
        )


def _why(facts: PrecisionFacts) -> str:
    if facts.shift_peaked:
        return "a number that is not the row's maximum is subtracted from them"
    if facts.shift_uneven:
        return "one number for all rows is subtracted from them, and not the row's own maximum,"
    return "no maximum is subtracted from them"
