"""RDK405."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from rootdk.records import Addend, AttentionSite, Behaviour, Observed, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._behaviour_examples import behaving, fires_of, masking, silent_of, skips_of
from rootdk.rules._examples import Example, fires, healthy_site, line, silent
from rootdk.rules.mask._fills import LARGEST_LEAK, finite_fill, stands_for_infinity
from rootdk.rules.scale._laws import agrees


class MaskScaledWithScores(Rule):
    """A mask or a position bias is added before the scale, and scaled with the scores.

    What it does
    ------------
    Finds constants that multiply the scores after a mask with a finite fill was added, an
    error; and after a position bias was added, a note.

    Why it matters
    --------------
    (q·k + mask)·scale forbids only scale times as strongly as it says: a fill of -100 acts as
    -12.5 at head_dim 64. How well the mask holds then depends on head_dim. A position bias is
    flattened by the same factor, and a port that adds it after the scale makes it that many
    times too strong.

    How it is measured
    ------------------
    Read off the graph: the product of the constants between the addition and the softmax,
    compared with 1 at a relative tolerance of 0.001. The message says what the fill becomes,
    and the largest weight that was seen on a forbidden key.

    Of a function alone, at a query of 0: a finite bias b, given as a mask or bias, acts as a
    multiple of b, which must be 1.

    Remedy
    ------
    Scale the product first, then add the mask: softmax(q·k·scale + mask).

    When it stays silent
    --------------------
    At a fill of -inf or of the lowest number of its dtype, which stays what it is when scaled,
    as long as no forbidden key was seen to have weight; at further score terms, which belong to
    what is scaled; and behind a factor of 1. A position bias is a note because some published
    models mean it (Falcon scales ALiBi).

    Of a function: where ``bias`` is declared with expect=, and where the argument is a mask of 1
    and 0 that the function multiplies by its fill. A factor on what the function itself
    calls a position bias or ALiBi is a note.

    References
    ----------
    Press et al., Train Short, Test Long, 2021 (arXiv:2108.12409), which adds the bias after the
    scale. Almazrouei et al., Falcon, 2023 (arXiv:2311.16867), which scales it. A case seen in
    public: tenstorrent/tt-metal#55333.
    """

    code = "RDK405"
    name = "mask-scaled-with-scores"
    since = "0.1"
    severities = (Severity.ERROR, Severity.NOTE)
    supersedes = ("RDK402",)
    supersedes_when = (Severity.ERROR,)

    def judge_addends(self, site: AttentionSite) -> Findings:
        """Yield one finding for each mask and each bias that is scaled."""
        for addend in site.addends:
            if agrees(addend.multiplied_by, 1.0, site):
                continue
            if addend.kind == "mask":
                yield from self._of_mask(site, addend)
            elif addend.kind == "bias":
                message = (
                    "a position bias is added before the scale and multiplied by "
                    f"{addend.multiplied_by:.6g} with the scores"
                )
                evidence = {"multiplied_by": addend.multiplied_by}
                yield self.finding(
                    site, Severity.NOTE, message, source=addend.source, evidence=evidence
                )

    def _of_mask(self, site: AttentionSite, addend: Addend) -> Findings:
        fill = finite_fill(addend)
        leak = site.observed.forbidden_weight
        if fill is None:
            return
        if stands_for_infinity(fill, site) and not (leak is not None and leak > LARGEST_LEAK):
            return
        seen = "" if leak is None else f"; the largest weight seen on a forbidden key is {leak:.3g}"
        yield self.finding(
            site,
            Severity.ERROR,
            f"the mask's fill of {fill:.6g} is multiplied by {addend.multiplied_by:.6g} with the "
            f"scores, and acts as {fill * addend.multiplied_by:.6g}{seen}",
            source=addend.source,
            evidence={
                "fill": fill,
                "multiplied_by": addend.multiplied_by,
                "acts_as": fill * addend.multiplied_by,
                "forbidden_weight": leak,
            },
        )

    def judge_function(self, behaviour: Behaviour) -> Findings:
        """Yield one finding if a bias of b does not act as b in a function."""
        mask = behaviour.mask
        if mask is None or mask.bias_factor is None:
            self.skip("no finite bias could be given")
        factor = mask.bias_factor
        if abs(factor - 1.0) <= _OF_ONE or abs(factor) <= _OF_ONE or "bias" in behaviour.expected:
            return
        if mask.boolean is not None and mask.bias_argument == mask.argument and factor >= _A_FILL:
            return
        argument = mask.bias_argument or mask.argument or "bias"
        is_position = any(word in argument.lower() for word in _POSITIONS)
        law = f" ({mask.bias_factor_law})" if mask.bias_factor_law else ""
        yield self.finding(
            behaviour,
            Severity.NOTE if is_position else Severity.ERROR,
            f"{argument}: a bias of -5 acts as {-5.0 * factor:.6g}, {factor:.6g} times{law}: it "
            "is multiplied together with the scores",
            evidence={"fact": "mask.bias_factor", "factor": factor, "law": mask.bias_factor_law},
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""

        def added(kind: str, leak: float | None = None, **more: Any) -> AttentionSite:
            more = {"multiplied_by": 0.125, "source": line(12), **more}
            addend = Addend(kind=kind, **more)  # type: ignore[arg-type]
            return healthy_site(addends=(addend,), observed=Observed(forbidden_weight=leak))

        yield fires(
            "a weak fill, scaled",
            Severity.ERROR,
            site=added("mask", 2e-5, fill=-100.0),
            says=("-100 is multiplied by 0.125", "acts as -12.5", "is 2e-05"),
            line=12,
        )
        yield fires(
            "a strong fill, scaled", Severity.ERROR, site=added("mask", fill=-1e9), state="trained"
        )
        yield fires(
            "a scaled position bias", Severity.NOTE, site=added("bias"), says=("position bias",)
        )
        yield fires(
            "the lowest number, scaled until it leaks",
            Severity.ERROR,
            site=added("mask", 0.5, fill=-3.4e38, multiplied_by=1e-38),
        )
        yield silent("-inf", site=added("mask", 0.0, fill=-math.inf))
        yield silent("the lowest number of float32", site=added("mask", 0.0, fill=-3.4028235e38))
        yield silent("added after the scale", site=added("mask", fill=-1e4, multiplied_by=1.0))
        yield silent("a further score term", site=added("term"))
        yield fires_of(
            "a function that scales its mask",
            Severity.ERROR,
            masking(bias_argument="attn_mask", bias_factor=0.125, bias_factor_law="1/√head_dim"),
            says=("-5 acts as -0.625", "(1/√head_dim)"),
        )
        yield fires_of(
            "a function that scales its position bias",
            Severity.NOTE,
            masking(bias_argument="alibi", bias_factor=0.125),
        )
        yield silent_of("a function that adds what it is given", masking(bias_factor=1.00001))
        yield silent_of(
            "a mask of 1 and 0 times a fill", masking(bias_argument="mask", bias_factor=1e4)
        )
        yield skips_of("a function without a mask", behaving(mask=None))


_OF_ONE = 1e-3

_A_FILL = 10.0
"""A bias that acts as this many times itself is a mask of 1 and 0 that meets its fill."""

_POSITIONS = ("alibi", "position", "relative", "rel_pos", "slopes")
