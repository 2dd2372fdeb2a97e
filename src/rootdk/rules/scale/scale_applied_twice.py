"""RDK102."""

from __future__ import annotations

from collections.abc import Iterable

from rootdk.records import Severity
from rootdk.rules._examples import Example, constant, fires, scaled_site, silent, through_norm
from rootdk.rules.scale._law import ScaleRule


class ScaleAppliedTwice(ScaleRule):
    """The scores are multiplied by 1/√head_dim at two places.

    What it does
    ------------
    Finds attention whose effective scale is 1/head_dim because two factors of 1/√head_dim
    stand in two places. The default of a library's attention call counts as one of them.

    Why it matters
    --------------
    The scores come out √head_dim times too small, so that a new model's weights are close to
    uniform and it must grow its projections before it can attend to anything. A trained model
    that gets a second factor in a port or a refactoring answers a softer question than the one
    that it was trained for, and still gives fluent output.

    How it is measured
    ------------------
    The product of all constant factors equals 1/head_dim at a relative tolerance of 0.001 (or
    four times the precision of a stored constant), and exactly two of them are 1/√head_dim.
    Equal halves of head_dim ** -0.25 on query and key are one. The later of the two is named as
    the source; both are in the message.

    Remedy
    ------
    Remove one of the two factors: either scale the query yourself and call the library with
    scale=1.0, or leave the scale to the library.

    When it stays silent
    --------------------
    It fires as a note behind a norm with a learned gain or a learned factor, and where a
    configuration declares 1/head_dim. A single factor 1/head_dim is RDK104, which is the same
    function. It says nothing where the user declared the scale.

    References
    ----------
    Vaswani et al., 2017, section 3.2.1 (arXiv:1706.03762). A case seen in public:
    huggingface/transformers#38290, where a scaled query met a fused call with its default.
    """

    code = "RDK102"
    name = "scale-applied-twice"
    since = "0.1"
    severities = (Severity.WARNING, Severity.NOTE)
    supersedes = ("RDK202", "RDK601", "RDK602", "RDK605")

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        query = constant(0.125, "query", at=9)
        default = constant(0.125, "kernel", at=13, origin="the call's default")
        yield fires(
            "a scaled query meets a library's default",
            Severity.WARNING,
            site=scaled_site(default, query),
            says=("1/√64 twice", "model.py:9", "the call's default", "model.py:13"),
            line=13,
        )
        yield fires(
            "halves on both sides, then the default",
            Severity.WARNING,
            site=scaled_site(
                constant(8**-0.5, "query", at=9), constant(8**-0.5, "key", at=10), default
            ),
            line=13,
        )
        yield fires(
            "whole factors on both sides",
            Severity.WARNING,
            site=scaled_site(query, constant(0.125, "key", at=10)),
            state="trained",
            line=10,
        )
        yield fires(
            "behind a norm with a gain",
            Severity.NOTE,
            site=scaled_site(query, default, **through_norm(gain=True)),
            says=("learned gain",),
        )
        yield silent("one factor of 1/head_dim is another rule's", site=scaled_site(1 / 64))
        yield silent("halves alone", site=scaled_site(8**-0.5, 8**-0.5))
        yield silent("the library's default alone", site=scaled_site(default))
        yield silent(
            "a factor that is undone before the default",
            site=scaled_site(query, constant(8.0, at=12), default),
        )
