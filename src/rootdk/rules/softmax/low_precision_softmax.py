"""RDK304."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rootdk._lib.arrays import is_half
from rootdk.records import (
    AttentionSite,
    Behaviour,
    Finding,
    Normalisation,
    PrecisionFacts,
    Severity,
)
from rootdk.rules._base import Findings, Rule
from rootdk.rules._behaviour_examples import fires_of, precise, silent_of
from rootdk.rules._examples import Example, fires, healthy_site, silent
from rootdk.rules.softmax._dtypes import judged_dtypes, loss_below


class LowPrecisionSoftmax(Rule):
    """The softmax is computed in, or from, half precision.

    What it does
    ------------
    Finds exponential and sum as separate operations on float16 or bfloat16, a warning; and a
    softmax operator whose input is one of the two, a note.

    Why it matters
    --------------
    In bfloat16 a running sum of a few hundred equal terms stops growing, since a term is less
    than half of the sum's last digit: rows over many keys come out too heavy. A softmax
    operator accumulates in float32 whatever it is given; what remains is that scores near 100
    are only known to within 0.25 in bfloat16, and so their weights to within a quarter.

    How it is measured
    ------------------
    Read off the graph: the dtype that exponential and sum work in, and whether they are one
    operation.

    Of a function alone, in half precision: rows of many equal scores and rows of large ones,
    against float64 on the same inputs. What loses more than the rounding of inputs and output
    allows has rounded in between. In float32 and float64: every entry of query changes by less
    than half precision can hold. Rows of weights that stay the same to the last bit were
    computed from numbers in half precision, whatever the dtype of the arrays.

    Remedy
    ------
    Cast the scores to float32 before the softmax and the weights back after it:
    softmax(scores.float(), dim=-1).to(query.dtype).

    When it stays silent
    --------------------
    In float32 and float64, and at a fused call that keeps its scores in float32.

    A function is noted only where its errors fit a softmax in half precision and nothing wider.

    References
    ----------
    Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, 2002, chapter 4, on
    sums. Dao et al., FlashAttention, 2022 (arXiv:2205.14135), for float32 inside the kernel.
    """

    code = "RDK304"
    name = "low-precision-softmax"
    since = "0.1"
    severities = (Severity.WARNING, Severity.NOTE)

    def judge_precision(self, site: AttentionSite) -> Findings:
        """Yield one finding if the softmax sees half precision."""
        how = site.normalisation
        if not is_half(how.dtype):
            return
        evidence = {"dtype": how.dtype, "keys": site.keys, "exponentials": how.exponentials}
        if how.separate_half:
            yield self.finding(
                site,
                Severity.WARNING,
                f"exponential and sum over {site.keys} keys are separate operations in "
                f"{how.dtype}, so that every term of the sum is rounded to it",
                source=site.source,
                evidence=evidence,
            )
        elif how.exponentials == "kernel":
            yield self.finding(
                site,
                Severity.NOTE,
                f"softmax is given scores in {how.dtype}; it accumulates in float32, and the "
                "scores were rounded before it",
                source=site.source,
                evidence=evidence,
            )

    def judge_function(self, behaviour: Behaviour) -> Findings:
        """Yield one finding for the half dtype in which a function's softmax loses most."""
        inside = next((f for f in judged_dtypes(behaviour) if f.inner_dtype is not None), None)
        if inside is not None:
            yield self._inside(behaviour, inside)
            return
        known = [f for f in behaviour.precision.values() if is_half(f.dtype)]
        if not known:
            self.skip("the function was not tried in half precision")
        softmax = behaviour.softmax
        if softmax is None or softmax.factor is not None or softmax.rows_normalised is False:
            self.skip("rows do not sum to 1 in any dtype")
        worst = max(known, key=loss_below)
        error = worst.softmax_error
        if worst.softmax_dtype is None or not is_half(worst.softmax_dtype) or error is None:
            return
        heavy = loss_below(worst) > _ROUNDINGS
        if not heavy and worst.dtype != behaviour.dtype_asked:
            return
        yield self.finding(
            behaviour,
            Severity.WARNING if heavy else Severity.NOTE,
            f"weights in {worst.dtype} are off by up to {error:.3g}, as if the softmax were "
            f"computed in {worst.softmax_dtype}",
            evidence={"fact": f"precision.{worst.dtype}.softmax", "error": error},
        )

    def _inside(self, behaviour: Behaviour, facts: PrecisionFacts) -> Finding:
        rows = facts.inner_rows or (0, 0)
        return self.finding(
            behaviour,
            Severity.WARNING,
            f"given {facts.dtype}, weights are computed from numbers that have the digits of "
            f"{facts.inner_dtype}: {rows[0]} of {rows[1]} rows stay the same to the last bit when "
            "every entry of query changes by less than that",
            evidence={"fact": f"precision.{facts.dtype}.inner", "inner_dtype": facts.inner_dtype},
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""

        def how(**changes: Any) -> AttentionSite:
            return healthy_site(normalisation=Normalisation(**changes))

        yield fires(
            "exp and sum in bfloat16",
            Severity.WARNING,
            site=how(dtype="bfloat16", exponentials="shifted", separate_half=True),
            says=("over 24 keys", "bfloat16"),
            line=13,
        )
        yield fires(
            "a softmax operator on float16",
            Severity.NOTE,
            site=how(dtype="float16"),
            state="trained",
            says=("accumulates in float32",),
        )
        yield silent("float32")
        yield silent("half scores, float32 softmax", site=healthy_site(score_dtype="bfloat16"))
        yield silent(
            "half terms, summed in float32", site=how(dtype="bfloat16", exponentials="shifted")
        )
        yield fires_of(
            "a function that sums in bfloat16",
            Severity.WARNING,
            precise("bfloat16", softmax_dtype="bfloat16", softmax_error=0.4),
            says=("off by up to 0.4", "computed in bfloat16"),
        )
        yield fires_of(
            "a function whose scores are rounded",
            Severity.NOTE,
            precise("float16", softmax_dtype="float16", softmax_error=0.002, dtype_asked="float16"),
        )
        yield fires_of(
            "a function that casts float32 to float16",
            Severity.WARNING,
            precise(inner_dtype="float16", inner_rows=(30, 30)),
            says=("given float32", "the digits of float16: 30 of 30 rows"),
        )
        yield silent_of(
            "a function that sums in float32", precise("float16", softmax_dtype="float32")
        )


_ROUNDINGS = 16.0
"""A sum that is rounded once a term loses more than this many precisions; a kernel does not."""
