"""RDK101."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt

from rootdk.records import Factor, Severity
from rootdk.rules._behaviour_examples import behaving, fires_of, scaling, silent_of, skips_of
from rootdk.rules._examples import (
    Example,
    constant,
    expecting,
    fires,
    numbers,
    scaled_site,
    silent,
    skips,
    through_norm,
)
from rootdk.rules.scale._functions import FunctionScaleRule
from rootdk.rules.scale._law import ScaleRule


class MissingScale(ScaleRule, FunctionScaleRule):
    """The scores are query-key products as they are, multiplied by 1.

    What it does
    ------------
    Finds attention whose scores reach the softmax without any factor: the product of all
    constants on the way from the projections to the softmax is 1, and 1/√head_dim is not.

    Why it matters
    --------------
    The product of two vectors of head_dim entries of size 1 has a standard deviation of
    √head_dim: 8 at 64, 11.3 at 128. A softmax over scores that far apart gives nearly all of
    its weight to one key, and its gradient there is nearly zero. Nothing crashes and the loss
    still falls a little, since the projections can shrink to make up for it. They start in the
    wrong place.

    How it is measured
    ------------------
    All constant factors between the projections and the softmax are multiplied, wherever they
    stand: on the query, on the key, on the product, in the arguments of a fused call or in its
    default. The result is compared with 1 and with 1/√head_dim at a relative tolerance of
    0.001, or of four times the precision of the dtype that a constant was stored in. The size
    of the scores is not part of the comparison.

    Of a function alone, the scale is the slope of log-weight ratios over differences of q·k, at
    sizes that all differ; a scale of 1 must fit at every one of them.

    Remedy
    ------
    Multiply the scores, or the query, by head_dim ** -0.5 once; a library's attention call does
    it by default, so pass it no scale of 1.

    If the model is meant to have no scale, declare it (``expect=1.0``), and see that its
    projections are initialised smaller.

    When it stays silent
    --------------------
    It fires as a note, which says why, where something accounts for the deviation: untrained
    projections so small that they carry the factor (query_std·key_std at most 1.5/√head_dim of
    the largest entry size squared), a norm with a learned gain on query or key, query and key
    normalised to length 1, a learned factor before the softmax, or a number in the model's
    configuration. It says nothing where the user declared the scale, or at a head_dim of 1.

    References
    ----------
    Vaswani et al., Attention Is All You Need, 2017, section 3.2.1 and footnote 4
    (arXiv:1706.03762). Raffel et al., 2020 (arXiv:1910.10683): T5 has no factor, and smaller
    initial query projections.
    """

    code = "RDK101"
    name = "missing-scale"
    since = "0.1"
    severities = (Severity.WARNING, Severity.NOTE)
    supersedes = ("RDK202", "RDK601", "RDK602", "RDK605")

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        missing = scaled_site()
        yield fires(
            "nothing multiplies the scores",
            Severity.WARNING,
            site=missing,
            says=("multiplied by 1, not 1/√64 = 0.125 (8 times", "nothing in graph, config"),
            line=11,
        )
        yield fires(
            "the same in a trained model",
            Severity.WARNING,
            site=missing,
            state="trained",
            says=("may have been trained with it",),
        )
        yield fires(
            "a factor that undoes the scale",
            Severity.WARNING,
            site=scaled_site(constant(0.125, at=12), constant(8.0, at=14)),
            line=14,
        )
        yield fires(
            "small projections carry it",
            Severity.NOTE,
            site=missing,
            summary=numbers(query_std=1 / 8),
            says=("the projections carry it", "0.125 of the largest"),
        )
        for title, changes, words in (
            ("a norm with a gain", through_norm(gain=True), "learned gain"),
            ("cosine attention", through_norm(gain=False), "both normalised"),
            ("a config says 1", {"expected": expecting(1.0, "scaling = 1.0")}, "declared by"),
        ):
            unit = numbers(query_rms=1 / 8, key_rms=1 / 8)
            site = scaled_site(**changes)
            yield fires(title, Severity.NOTE, site=site, summary=unit, says=(words,))
        learned = Factor(value=None, place="scores", kind="learned")
        yield fires(
            "a learned temperature", Severity.NOTE, site=scaled_site(learned), says=("learned",)
        )
        yield silent("the standard scale")
        yield silent("the user expects 1", site=scaled_site(expected=expecting(1.0, "x", "user")))
        yield silent("halves on both sides", site=scaled_site(1 / sqrt(8), 1 / sqrt(8)))
        yield silent("a width at which 1 is right", site=scaled_site(head_dim=1, hidden=6))
        yield skips("the entries are unknown", site=missing, summary=None, says=("entries",))
        yield fires_of(
            "a function without a factor",
            Severity.WARNING,
            scaling(lambda s: 1.0),
            says=("multiplied by 1, not 1/√head_dim", "8 times it at head_dim 64"),
        )
        yield silent_of("a function with the standard scale")
        yield silent_of(
            "a function that is meant to have none",
            scaling(lambda s: 1.0, scale_as_expected=True),
        )
        yield skips_of("a function whose scale was not measured", behaving(scale=None))
        yield skips_of(
            "a function of the angle between query and key",
            scaling(lambda s: 10.0, normalised=True, linear=False),
            says=("cosine is multiplied by 10",),
        )
