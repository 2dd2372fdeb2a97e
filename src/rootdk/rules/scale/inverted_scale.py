"""RDK106."""

from __future__ import annotations

from collections.abc import Iterable

from rootdk.records import Severity
from rootdk.rules._behaviour_examples import argument, fires_of, scaling, silent_of
from rootdk.rules._examples import Example, constant, fires, scaled_site, silent, through_norm
from rootdk.rules.scale._functions import FunctionScaleRule
from rootdk.rules.scale._law import ScaleRule


class InvertedScale(ScaleRule, FunctionScaleRule):
    """The scores are multiplied by the root of the width instead of divided by it.

    What it does
    ------------
    Finds attention whose effective scale is √head_dim, head_dim or half of it (what
    ``head_dim ** 1/2`` is), or the root of the model's width: a division by something that was
    an inverse already, or a multiplication by something that was not.

    Why it matters
    --------------
    Scores of standard deviation √head_dim are made head_dim times as large as they should be.
    Each row gives its whole weight to one key from the first step on, the softmax passes no
    gradient back to query and key, and in half precision the scores can overflow.

    How it is measured
    ------------------
    The product of all constant factors is compared with these numbers at a relative tolerance
    of 0.001 (or four times the precision of a stored constant).

    Of a function alone, the scale is the slope of log-weight ratios over differences of q·k, at
    sizes that all differ; the law must fit at every one of them.

    Remedy
    ------
    Multiply by head_dim ** -0.5, or divide by math.sqrt(head_dim); not the other way round.

    When it stays silent
    --------------------
    It fires as a note behind a norm with a learned gain, for query and key that are both
    normalised to length 1 (cosine attention needs a scale above 1), before a learned factor,
    and where a configuration declares the number.

    References
    ----------
    Vaswani et al., 2017, section 3.2.1 (arXiv:1706.03762). Henry et al., Query-Key
    Normalization, 2020 (arXiv:2010.04245) for scales above 1. Cases seen in public:
    esceptico/perceiver-io#9, mkara44/transunet_pytorch#4.
    """

    code = "RDK106"
    name = "inverted-scale"
    since = "0.1"
    severities = (Severity.WARNING, Severity.NOTE)
    supersedes = ("RDK202", "RDK601", "RDK602", "RDK605")

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        yield fires(
            "divided by head_dim ** -0.5",
            Severity.WARNING,
            site=scaled_site(8.0),
            says=("√64 = 8 (√head_dim)", "64 times the standard scale"),
            line=12,
        )
        yield fires(
            "multiplied by head_dim ** 1/2",
            Severity.WARNING,
            site=scaled_site(32.0),
            state="trained",
            says=("64/2 = 32",),
        )
        yield fires(
            "the root of the model's width",
            Severity.WARNING,
            site=scaled_site(384**0.5),
            says=("√384",),
        )
        yield fires(
            "a right factor on the query, a wrong one on the scores",
            Severity.WARNING,
            site=scaled_site(constant(0.125, "query", at=9), constant(64.0, at=12)),
            line=12,
        )
        yield fires(
            "cosine attention",
            Severity.NOTE,
            site=scaled_site(8.0, **through_norm(gain=False)),
            summary=None,
            says=("both normalised",),
        )
        yield silent("the standard scale")
        yield silent(
            "half of 4 is its root, and 1/4 is right at 16", site=scaled_site(0.25, head_dim=16)
        )
        yield fires_of(
            "a function that multiplies by the root",
            Severity.WARNING,
            scaling(lambda s: s.head_dim**0.5),
            says=("√head_dim = 8, not 1/√head_dim", "64 times"),
        )
        yield fires_of(
            "a function that divides by its scale argument",
            Severity.WARNING,
            argument("scale", "wrong", asked=0.25, acted=4.0),
            says=("divided by it",),
        )
        yield silent_of("a function with the standard scale")
