"""RDK304."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rootdk._lib.arrays import is_half
from rootdk.records import AttentionSite, Normalisation, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._examples import Example, fires, healthy_site, silent


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

    Remedy
    ------
    Cast the scores to float32 before the softmax and the weights back after it:
    softmax(scores.float(), dim=-1).to(query.dtype).

    When it stays silent
    --------------------
    In float32 and float64, and at a fused call that keeps its scores in float32.

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
