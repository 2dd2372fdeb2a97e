"""RDK406."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Any

from rootdk.records import Addend, AttentionSite, Behaviour, Normalisation, Observed, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._behaviour_examples import behaving, fires_of, masking, silent_of, skips_of
from rootdk.rules._examples import Example, fires, healthy_site, line, silent, skips
from rootdk.rules.mask._fills import masks
from rootdk.rules.softmax.unnormalised_rows import tolerance_of_sums


class MaskAfterSoftmax(Rule):
    """The mask is applied to the weights, after they were normalised.

    What it does
    ------------
    Finds weights that are multiplied by a mask after the softmax and not normalised again.

    Why it matters
    --------------
    Forbidden keys have already taken their share of each row: what is left sums to less than 1,
    by an amount that depends on the forbidden keys' content. A query whose future holds a good
    match gets a smaller output, so that the future leaks through the size of it.

    How it is measured
    ------------------
    Read off the graph: a mask between the softmax and the product with the values, with no
    normalisation behind it. Where the scores were masked before the softmax as well, the sums
    of the rows decide whether the second mask took anything away.

    Of a function alone: the weights that a mask leaves, and their sum as forbidden keys gain.

    Remedy
    ------
    Mask the scores before the softmax, with -inf at forbidden keys.

    When it stays silent
    --------------------
    Where the weights are divided by their sum after the mask, which is the same as a softmax
    over the visible keys; and where a mask after the softmax repeats one before it and rows
    still sum to 1, as when rows without a visible key are set to 0.

    References
    ----------
    Vaswani et al., 2017, section 3.2.3 (arXiv:1706.03762). See, Liu and Manning, 2017
    (arXiv:1704.04368), whose code masks after the softmax and normalises again.
    """

    code = "RDK406"
    name = "mask-after-softmax"
    since = "0.1"
    severities = (Severity.ERROR,)
    supersedes = ("RDK303", "RDK402", "RDK408")

    def judge_graph(self, site: AttentionSite) -> Findings:
        """Yield one finding if a mask after the softmax takes weight away."""
        how, lowest = site.normalisation, site.observed.row_sum_min
        if how.mask_after is None or how.renormalised_after_mask:
            return
        if any(masks(site)):
            if lowest is None:
                self.skip("there is a mask before the softmax too, and no row was summed")
            if lowest >= 1.0 - tolerance_of_sums(site):
                return
        sums = "" if lowest is None else f"; rows sum to {lowest:.4g} at the least"
        yield self.finding(
            site,
            Severity.ERROR,
            "the mask is applied to the weights after the softmax, and they are not "
            f"normalised again{sums}",
            source=how.mask_after,
            evidence={"row_sum_min": lowest, "row_sum_max": site.observed.row_sum_max},
            related=(site.source,) if site.source is not None else (),
        )

    def judge_function(self, behaviour: Behaviour) -> Findings:
        """Yield one finding if what a mask leaves in a function sums to less than 1."""
        mask = behaviour.mask
        if mask is None or mask.after_softmax is None:
            self.skip("no mask could be given")
        if not mask.after_softmax:
            return
        sums = "" if mask.masked_sum_min is None else f": rows sum to {mask.masked_sum_min:.4g}"
        argument = mask.argument or mask.causal_argument or "mask"
        yield self.finding(
            behaviour,
            Severity.ERROR,
            f"{argument}: forbidden keys keep their share of the denominator, and get no "
            f"weight{sums} and not to 1",
            evidence={"fact": "mask.after_softmax", "row_sum_min": mask.masked_sum_min},
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""

        def after(lowest: float | None, again: bool = False, **more: Any) -> AttentionSite:
            how = Normalisation(mask_after=line(15), renormalised_after_mask=again)
            seen = Observed(row_sum_min=lowest, row_sum_max=1.0)
            return healthy_site(normalisation=how, observed=seen, **more)

        before = (Addend(kind="mask", fill=-inf),)
        yield fires(
            "masked after the softmax",
            Severity.ERROR,
            site=after(0.04),
            says=("after the softmax", "rows sum to 0.04 at the least"),
            line=15,
        )
        yield fires("sums not looked at", Severity.ERROR, site=after(None), state="trained")
        yield fires(
            "a second mask that takes more away", Severity.ERROR, site=after(0.5, addends=before)
        )
        yield silent("normalised again", site=after(1.0, again=True))
        yield silent("the second mask takes nothing away", site=after(1.0, addends=before))
        yield silent("masked before the softmax", site=healthy_site(addends=before))
        yield skips("two masks and no sums", site=after(None, addends=before))
        yield fires_of(
            "a function that masks its weights",
            Severity.ERROR,
            masking(after_softmax=True, masked_sum_min=0.05),
            says=("rows sum to 0.05 and not to 1",),
        )
        yield silent_of("a function that masks its scores")
        yield skips_of("a function without a mask", behaving(mask=None))
