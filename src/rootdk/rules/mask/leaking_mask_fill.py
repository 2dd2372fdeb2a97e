"""RDK402."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from rootdk.records import (
    Addend,
    AttentionSite,
    Behaviour,
    MaskFacts,
    Observed,
    Severity,
    Verification,
)
from rootdk.rules._base import Findings, Rule
from rootdk.rules._behaviour_examples import behaving, fires_of, masking, silent_of, skips_of
from rootdk.rules._evidence import recomputed_output
from rootdk.rules._examples import Example, fires, healthy_site, line, silent, skips
from rootdk.rules.mask._fills import LARGEST_LEAK, masks


class LeakingMaskFill(Rule):
    """Keys that the mask forbids receive weight.

    What it does
    ------------
    Finds a mask after which a forbidden key still has a weight above 0.000001, in a row that
    has a visible key.

    Why it matters
    --------------
    A model that reads a forbidden key reads padding, another document or its own future. It
    trains well on what it must not know, and fails where that is missing.

    How it is measured
    ------------------
    The largest weight on a forbidden key is read off the weights themselves. The message says
    what the mask wrote there: a number near 0 (a boolean added as a number, or an exponent with
    the wrong sign), a positive number, or a negative one that real scores fell below.

    Of a function alone: all visible scores are lowered by 100000, which must change nothing, and
    the weight on forbidden keys is read off the output; so is that of masks with holes, and of
    masks that differ by sample.

    Remedy
    ------
    Fill with -inf, or with torch.finfo(scores.dtype).min, and never with a number that scores
    can reach.

    When it stays silent
    --------------------
    At a fill that leaves a weight of 0, in a fused kernel whose output was recomputed with no
    weight on hidden keys and agreed, for rows without a visible key, and where no forbidden
    key was seen. A mask that is applied after the softmax is RDK406.

    References
    ----------
    Vaswani et al., 2017, section 3.2.3 (arXiv:1706.03762): masked scores are set to -inf. Cases
    seen in public: awslabs/gluonts#1401 (1e-9 for -1e9), TransformerLensOrg/TransformerLens#319
    (scores below -1e5), huggingface/pytorch-image-models#2674 (a boolean added as 0 and 1).
    """

    code = "RDK402"
    name = "leaking-mask-fill"
    since = "0.1"
    severities = (Severity.ERROR,)
    supersedes = ("RDK408",)

    def judge_weights(self, site: AttentionSite) -> Findings:
        """Yield one finding if a forbidden key has weight."""
        leak = site.observed.forbidden_weight
        if leak is None:
            if not any(masks(site)) or recomputed_output(site):
                return
            self.skip("the weights of forbidden keys were not looked at")
        if math.isnan(leak):
            self.skip("the weights of forbidden keys are NaN")
        if leak <= LARGEST_LEAK:
            return
        mask = _weakest(site)
        yield self.finding(
            site,
            Severity.ERROR,
            f"a forbidden key has a weight of {leak:.3g}{_why(mask)}",
            source=mask.source if mask is not None else site.source,
            evidence={"forbidden_weight": leak, "fill": mask.fill if mask is not None else None},
        )

    def judge_function(self, behaviour: Behaviour) -> Findings:
        """Yield one finding if a key that a mask forbids has weight in a function."""
        mask = behaviour.mask
        if mask is None or (mask.argument is None and mask.bias_argument is None):
            self.skip("the function takes no mask")
        known = [leak for leak in (mask.leak, mask.bias_leak) if leak is not None]
        if not known and mask.boolean != "added":
            self.skip("the weights of forbidden keys were not measured")
        leak = max(known, default=1.0)
        stray = False in (mask.per_sample, mask.per_head)
        if leak <= LARGEST_LEAK and mask.boolean != "added" and not stray:
            return
        yield self.finding(
            behaviour,
            Severity.ERROR,
            _leak_of(mask, leak),
            evidence={
                "fact": "mask.leak" if mask.leak == leak else "mask.bias_leak",
                "forbidden_weight": leak,
                "shift": mask.leak_shift,
                "fill": mask.fill,
            },
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""

        def masked(fill: float | None, leak: float | None, **more: Any) -> AttentionSite:
            mask = Addend(kind="mask", fill=fill, source=line(12), **more)
            return healthy_site(addends=(mask,), observed=Observed(forbidden_weight=leak))

        yield fires(
            "an exponent with the wrong sign",
            Severity.ERROR,
            site=masked(-1e-9, 0.1),
            says=("weight of 0.1", "adds -1e-09", "small beside the scores"),
            line=12,
        )
        yield fires(
            "a boolean added as a number", Severity.ERROR, site=masked(1.0, 0.3), says=("adds 1,",)
        )
        yield fires(
            "scores below the fill",
            Severity.ERROR,
            site=masked(-1e5, 0.98, replaces=True),
            state="trained",
            says=("writes -100000", "not far enough below"),
        )
        yield fires("the wrong sign", Severity.ERROR, site=masked(1e9, 1.0), says=("positive",))
        yield fires("a fill not known", Severity.ERROR, site=masked(None, 0.2))
        yield silent("-inf", site=masked(-math.inf, 0.0))
        yield silent("a fill that works", site=masked(-1e4, 0.0))
        yield silent("no mask")
        agreed = Verification(rows=32, mismatch=1e-7, bound=1e-6, operands="equal")
        fused = {"spelling": "scaled_dot_product_attention", "verification": agreed}
        hidden = Addend(kind="mask", fill=-math.inf)
        yield silent("a fused kernel", site=healthy_site(addends=(hidden,), **fused))
        yield skips("nobody looked", site=masked(-1e4, None), says=("not looked at",))
        yield fires_of(
            "a function that fills with a small number",
            Severity.ERROR,
            masking(leak=0.2, fill=-100.0),
            says=("a forbidden key has a weight of 0.2", "its score is -100"),
        )
        yield fires_of(
            "a function that adds the boolean",
            Severity.ERROR,
            masking(boolean="added", leak=0.1),
            says=("added as 1 and 0",),
        )
        yield fires_of(
            "a function that takes the mask of another sample",
            Severity.ERROR,
            masking(per_sample=False),
            says=("another sample",),
        )
        yield silent_of("a function whose forbidden keys have no weight")
        yield skips_of("a function without a mask", behaving(mask=None))


def _leak_of(mask: MaskFacts, leak: float) -> str:
    """Return what a function's mask leaves, and what explains it."""
    argument = mask.argument or mask.bias_argument
    if leak <= LARGEST_LEAK:
        whose = "sample" if mask.per_sample is False else "head"
        return f"{argument}: a mask that differs by {whose} hides the keys of another {whose}"
    start = f"{argument}: a forbidden key has a weight of {leak:.3g}"
    if mask.boolean == "added":
        return f"{start}: the boolean is added as 1 and 0"
    if mask.fill is not None:
        return f"{start}: its score is {mask.fill:.6g}, which other scores fall below"
    if mask.leak_gap:
        return f"{start} when its score lies {mask.leak_gap:.6g} above those of visible keys"
    if mask.leak_shift:
        return f"{start} when visible scores lie at {mask.leak_shift:.6g}"
    return start


def _weakest(site: AttentionSite) -> Addend | None:
    """Return the mask whose fill is the largest, which is the likeliest to leak."""
    known = [(mask.fill, mask) for mask in masks(site) if mask.fill is not None]
    if known:
        return max(known, key=lambda pair: pair[0])[1]
    return next(masks(site), None)


def _why(mask: Addend | None) -> str:
    if mask is None or mask.fill is None:
        return ""
    does = "writes" if mask.replaces else "adds"
    start = f": the mask {does} {mask.fill:.6g}"
    if abs(mask.fill) < _CLOSE_TO_ZERO:
        return f"{start}, which is small beside the scores and forbids nothing"
    if mask.fill > 0.0:
        return f"{start}, a positive number, to the scores of forbidden keys"
    return f"{start}, which is not far enough below the scores of visible keys"


_CLOSE_TO_ZERO = 2.0
