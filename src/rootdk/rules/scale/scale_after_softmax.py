"""RDK109."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from rootdk.records import AttentionSite, Behaviour, Factor, Normalisation, Observed, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._behaviour_examples import fires_of, silent_of, softened
from rootdk.rules._examples import Example, constant, fires, healthy_site, scaled_site, silent
from rootdk.rules.scale._factors import before_softmax
from rootdk.rules.scale._laws import agrees


class ScaleAfterSoftmax(Rule):
    """The weights are multiplied by a constant after the softmax.

    What it does
    ------------
    Finds a constant factor, not 1, between the softmax and the product with the values; and
    1/√head_dim on the values or on the output, where the scores have it already.

    Why it matters
    --------------
    Scaling scores and scaling weights are different things. The scores stay as large as they
    were, with everything that RDK101 says; and every row of weights now sums to the factor, so
    that the output is that many times too small and depends on head_dim.

    How it is measured
    ------------------
    Read off the graph: the constant factors that act on the weights, compared with 1 at a
    relative tolerance of 0.001. Rows that are normalised again, and were seen to sum to 1, are
    left alone. A factor on the values, or right after the product with them, is compared with
    1/√head_dim alone, and only where the scores were multiplied by that as well: then the one
    scale stands twice. That is a warning.

    Of a function alone: with a constant value every row gives the same number, which is not 1.

    Remedy
    ------
    Multiply the scores before the softmax, and leave the weights as they are.

    When it stays silent
    --------------------
    At a learned or position-dependent factor (a gate), at a factor that a second normalisation
    takes out again, and at dropout, whose 1/(1 - p) belongs to it and is no factor of the
    attention. At any other factor on values or output: a gate, an average over branches, the
    multiplier of a residual. At 1/√head_dim there, where what it gives is added to something as it
    is, where the call has head_dim heads or keys, where head_dim is 4 or less and half of
    everything looks the same, and where keys and values share it.

    Of a function: where ``row_sums`` are declared with expect=, and where some weights are
    negative and the sums are not, as in a difference of two softmaxes.

    References
    ----------
    Vaswani et al., 2017, equation 1 (arXiv:1706.03762): the division stands inside the softmax.
    A case seen in public: FrancescoSaverioZuppichini/ViT#2.
    """

    code = "RDK109"
    name = "scale-after-softmax"
    since = "0.1"
    severities = (Severity.ERROR, Severity.WARNING)
    supersedes = ("RDK101", "RDK303")

    def judge_factors(self, site: AttentionSite) -> Findings:
        """Yield one finding for each constant factor on the weights."""
        if _normalised_again(site):
            return
        for factor in site.factors:
            if factor.place != "weights" or factor.kind != "constant" or factor.value is None:
                continue
            if agrees(factor.value, 1.0, site):
                continue
            yield self.finding(
                site,
                Severity.ERROR,
                f"weights are multiplied by {factor.value:.6g} after the softmax, so that a row "
                f"sums to {factor.value:.6g} and not to 1{_before(site)}",
                source=factor.source,
                evidence={
                    "factor": factor.value,
                    "effective_scale": site.effective_scale,
                    "row_sum_min": site.observed.row_sum_min,
                    "row_sum_max": site.observed.row_sum_max,
                },
            )

    def judge_output(self, site: AttentionSite) -> Findings:
        """Yield one finding if the standard scale stands on the scores and on the output."""
        standard = site.standard_scale
        if not agrees(site.effective_scale, standard, site) or not _tells(site):
            return
        for factor in site.output_factors:
            if factor.value is None or not agrees(factor.value, standard, site):
                continue
            on = "values are" if "values" in factor.origin else "output of the attention is"
            yield self.finding(
                site,
                Severity.WARNING,
                f"the {on} multiplied by {factor.value:.6g} = 1/√{site.head_dim}, and the scores "
                f"were multiplied by 1/√{site.head_dim} already: behind the softmax it only "
                f"shrinks the output, by √{site.head_dim}",
                source=factor.source,
                evidence={
                    "factor": factor.value,
                    "effective_scale": site.effective_scale,
                },
            )

    def judge_function(self, behaviour: Behaviour) -> Findings:
        """Yield one finding if all rows sum to one number that is not 1."""
        softmax = behaviour.softmax
        if softmax is None or softmax.row_sum_min is None:
            self.skip("the sums of the rows were not measured")
        factor = softmax.factor
        if (
            factor is None
            or abs(factor - 1.0) <= _SUM_TOLERANCE
            or "row_sums" in behaviour.expected
        ):
            return
        lowest = softmax.lowest_weight
        if factor > 0.0 and lowest is not None and lowest < -_SUM_TOLERANCE:
            self.skip("some weights are negative and the sums are not: no single softmax")
        law = softmax.factor_law.name if softmax.factor_law is not None else None
        named = f" ({law})" if law is not None else ""
        yield self.finding(
            behaviour,
            Severity.ERROR,
            f"every row of weights sums to {factor:.6g}{named} and not to 1: the output is "
            "multiplied by it after the softmax",
            evidence={"fact": "softmax.factor", "factor": factor, "law": law},
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        after = constant(0.125, "weights", at=14)
        yield fires(
            "the scale stands after the softmax",
            Severity.ERROR,
            site=scaled_site(after),
            says=("multiplied by 0.125 after the softmax", "nothing scales the scores"),
            line=14,
        )
        yield fires(
            "a further factor",
            Severity.ERROR,
            site=scaled_site(0.125, constant(0.5, "weights", at=14)),
            state="trained",
            line=14,
        )
        yield silent("the scale stands before it")
        yield silent("a factor of 1", site=scaled_site(0.125, constant(1.0, "weights")))
        gate = Factor(value=None, place="weights", kind="learned")
        yield silent("a learned gate", site=scaled_site(0.125, gate))
        again = healthy_site(
            factors=(constant(0.125), after),
            normalisation=Normalisation(second_normalisation=True),
            observed=Observed(row_sum_min=1.0, row_sum_max=1.0),
        )
        yield silent("normalised again", site=again)
        yield from _examples_on_outputs()
        row_sums = Observed(row_sum_min=0.125, row_sum_max=0.125)
        yield fires(
            "normalised again before the factor",
            Severity.ERROR,
            site=replace(again, observed=row_sums),
        )
        yield fires_of(
            "a function that scales its weights",
            Severity.ERROR,
            softened(row_sum_min=0.125, row_sum_max=0.125, factor=0.125),
            says=("sums to 0.125 and not to 1",),
        )
        yield silent_of("a function whose rows sum to 1")


def _examples_on_outputs() -> Iterable[Example]:
    def output(value: float, words: str = "a factor on the attention output", **more: Any) -> Any:
        after = constant(value, "output", at=15, origin=words)
        return healthy_site(output_factors=(after,), **more)

    yield fires(
        "the scale on the scores and on the output",
        Severity.WARNING,
        site=output(0.125),
        says=("the output of the attention is multiplied by 0.125 = 1/√64",),
        line=15,
    )
    yield fires(
        "the scale on the scores and on the values",
        Severity.WARNING,
        site=output(0.125, "a factor on the values"),
        state="trained",
        says=("the values are multiplied by 0.125 = 1/√64",),
    )
    yield silent("another factor on the output", site=output(0.5))
    yield silent("one over the root of the heads", site=output(0.125, num_heads=64))
    yield silent(
        "half of everything",
        site=output(0.5, head_dim=4, effective_scale=0.5, factors=(constant(0.5),)),
    )


def _tells(site: AttentionSite) -> bool:
    """Whether 1/√head_dim can be nothing but the scale: no other size, no simple half."""
    others = (site.num_heads, site.num_kv_heads, site.keys)
    return site.head_dim > _SIMPLE and site.head_dim not in others


def _normalised_again(site: AttentionSite) -> bool:
    how, seen = site.normalisation, site.observed
    if not (how.second_normalisation or how.renormalised_after_mask):
        return False
    sums = (seen.row_sum_min, seen.row_sum_max)
    return all(value is not None and abs(value - 1.0) <= _SUM_TOLERANCE for value in sums)


def _before(site: AttentionSite) -> str:
    if not before_softmax(site) and site.effective_scale is not None:
        return "; nothing scales the scores before it"
    return ""


_SUM_TOLERANCE = 0.01

# 1/√4 is a half, and an average of two is no scale.
_SIMPLE = 4
