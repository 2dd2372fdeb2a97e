"""RDK108."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from rootdk.records import Factor, Severity, Varies
from rootdk.rules._behaviour_examples import argument, fires_of, scaling, silent_of, standard
from rootdk.rules._examples import (
    Example,
    expecting,
    fires,
    healthy_site,
    scaled_site,
    silent,
    skips,
    through_norm,
)
from rootdk.rules.scale._functions import FunctionScaleRule
from rootdk.rules.scale._law import ScaleRule


class UnexplainedScale(ScaleRule, FunctionScaleRule):
    """The scale is a number that follows from no size of the call.

    What it does
    ------------
    Finds attention whose effective scale is neither 1/√head_dim nor any of the numbers that
    RDK101 to RDK107 know; a scale that is not the one declared; and, as an error, a scale that
    is zero, negative, infinite or NaN.

    Why it matters
    --------------
    The ratio to 1/√head_dim is a temperature, set once for the whole model. Most often it is a
    constant that was right for another head_dim, or the width of a padded or of a wrong tensor.
    A scale of zero makes attention an average; a negative one prefers the keys that fit worst.

    How it is measured
    ------------------
    The product of all constant factors is compared with 1/√head_dim and with every law at a
    relative tolerance of 0.001 (or four times the precision of a stored constant). A declared
    number is compared at the same tolerance. The message names the ratio, and the number as
    1/√n where n is whole.

    Of a function alone, the scale is the slope of log-weight ratios over differences of q·k, at
    sizes that all differ, and it fits no law at all of them.

    Remedy
    ------
    Take the scale from the last axis of the query, query.shape[-1] ** -0.5, or declare the
    number that is meant with expect=.

    When it stays silent
    --------------------
    It fires as a note where something accounts for the number: m score terms that are each
    divided by √(m·head_dim), a configuration that declares it, a norm with a learned gain, a
    learned factor, or projections that carry it. It says nothing where the user declared it.

    References
    ----------
    Vaswani et al., 2017, section 3.2.1 (arXiv:1706.03762). He et al., DeBERTa, 2021
    (arXiv:2006.03654), equation 4: three terms, each divided by √(3·head_dim).
    """

    code = "RDK108"
    name = "unexplained-scale"
    since = "0.1"
    severities = (Severity.ERROR, Severity.WARNING, Severity.NOTE)
    supersedes = ("RDK202", "RDK601", "RDK602", "RDK605")

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        yield from self._without_a_law()
        yield from self._against_a_declaration()
        yield from self._of_functions()
        for title, changes, words in (
            ("three terms", {"score_terms": 3}, "3 score terms"),
            ("a config says so", {"expected": expecting(192**-0.5, "scalar = 192")}, "declared"),
            ("a norm with a gain", through_norm(gain=True), "learned gain"),
        ):
            site = scaled_site(192**-0.5, **changes)
            yield fires(title, Severity.NOTE, site=site, says=(words,))
        learned = Factor(value=None, place="query", kind="learned")
        yield fires(
            "a negative constant before a learned factor",
            Severity.NOTE,
            site=scaled_site(-0.125, learned),
            says=("learned factor",),
        )
        yield silent("the standard scale")
        yield silent(
            "the user expects the number",
            site=scaled_site(0.07, expected=expecting(0.07, "expect=", "user")),
        )
        yield silent("no factor is another rule's", site=scaled_site())
        yield skips(
            "factors that do not come to one number",
            site=healthy_site(effective_scale=None),
            says=("one number",),
        )

    def _without_a_law(self) -> Iterable[Example]:
        yield fires(
            "the constant of another width",
            Severity.WARNING,
            site=scaled_site(1 / 12),
            says=("1/√144 = 0.0833333, not 1/√64 = 0.125 (0.6667 times",),
            line=12,
        )
        yield fires(
            "falls with the depth",
            Severity.WARNING,
            site=scaled_site(0.125, 0.2, layer=4),
            state="trained",
            says=("the ratio is 1/(layer + 1)", "trained with it"),
        )
        for value, words in ((0.0, "by 0"), (-0.125, "negative"), (inf, "inf")):
            yield fires(
                f"a scale of {value}", Severity.ERROR, site=scaled_site(value), says=(words,)
            )

    def _against_a_declaration(self) -> Iterable[Example]:
        yield fires(
            "the user expects another number",
            Severity.WARNING,
            site=healthy_site(expected=expecting(0.0625, "expect=", "user")),
            says=("by 1/√64 = 0.125", "0.0625 was expected (expect=)"),
        )
        yield fires(
            "a config declares another number",
            Severity.WARNING,
            site=healthy_site(expected=expecting(0.0625, "query_pre_attn_scalar = 256")),
            says=("the config declares 0.0625 (query_pre_attn_scalar = 256)",),
        )

    def _of_functions(self) -> Iterable[Example]:
        yield fires_of(
            "a function with one number for every size",
            Severity.WARNING,
            scaling(lambda s: 0.5),
            says=("0.5, not 1/√head_dim", "the same number at all 8 sizes"),
        )
        yield fires_of(
            "a function that cuts the root to a whole number",
            Severity.WARNING,
            scaling(lambda s: 1 / int(s.head_dim**0.5)),
            says=("by head_dim it is 0.25 at 24",),
        )
        yield fires_of(
            "a function that takes the width of the values",
            Severity.WARNING,
            scaling(lambda s: s.value_dim**-0.5),
            says=("1/√value_dim",),
        )
        yield fires_of(
            "a function whose sign is wrong",
            Severity.ERROR,
            scaling(lambda s: -(s.head_dim**-0.5)),
            says=("negative",),
        )
        yield fires_of(
            "a function whose declared scale is another",
            Severity.WARNING,
            scaling(standard, scale_as_expected=False, expected={"scale": "1/head_dim"}),
            says=("1/head_dim was expected",),
        )
        yield fires_of(
            "a scale argument that acts as another number",
            Severity.WARNING,
            argument("scale", "wrong", asked=0.3, acted=0.7),
        )
        channels = Varies(along="channel", at=(0, 1), scales=(0.1, 0.14))
        yield fires_of(
            "a function with a learned factor for each channel",
            Severity.NOTE,
            scaling(standard, varies=(channels,)),
            says=("a factor of its own",),
        )
        declared = scaling(lambda s: -1.0, scale_as_expected=True)
        yield silent_of("a function that is meant to turn the sign", declared)
        yield silent_of("a function with the standard scale")
