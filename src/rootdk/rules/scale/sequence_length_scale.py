"""RDK105."""

from __future__ import annotations

from collections.abc import Iterable

from rootdk.records import Severity
from rootdk.rules._behaviour_examples import fires_of, power, scaling, silent_of
from rootdk.rules._examples import Example, fires, scaled_site, silent, through_norm
from rootdk.rules.scale._functions import FunctionScaleRule
from rootdk.rules.scale._law import ScaleRule


class SequenceLengthScale(ScaleRule, FunctionScaleRule):
    """The scale comes from the length of the sequence, not from the width of a head.

    What it does
    ------------
    Finds attention whose effective scale is 1/√keys, 1/√queries, 1/keys or 1/queries: a size
    read off the wrong axis of a tensor.

    Why it matters
    --------------
    The sharpness of the weights changes with the length of the input: the same text attends
    differently when something is appended, a decoding step with a cache differs from the pass
    without one, and lengths not seen in training fall outside what the weights learned.

    How it is measured
    ------------------
    The product of all constant factors is compared with the four numbers at a relative
    tolerance of 0.001 (or four times the precision of a stored constant). Where a length equals
    another size, the call is run once more at another length, and only what fits both stays.

    Of a function alone, the scale is the slope of log-weight ratios over differences of q·k, at
    sizes that all differ; the law must fit at every one of them.

    Remedy
    ------
    Take the scale from the last axis of the query, query.shape[-1] ** -0.5, after every
    transpose.

    When it stays silent
    --------------------
    It fires as a note behind a norm with a learned gain or a learned factor, and where a
    configuration declares the number. A temperature that grows with the logarithm of the
    length is not among these laws; as a factor that depends on the position it is RDK111.

    References
    ----------
    Vaswani et al., 2017, section 3.2.1 (arXiv:1706.03762).
    """

    code = "RDK105"
    name = "sequence-length-scale"
    since = "0.1"
    severities = (Severity.WARNING, Severity.NOTE)
    supersedes = ("RDK202", "RDK601", "RDK602", "RDK605")

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        yield fires(
            "the root of the number of keys",
            Severity.WARNING,
            site=scaled_site(24**-0.5),
            says=("1/√24", "(1/√keys)"),
            line=12,
        )
        yield fires(
            "the root of the number of queries",
            Severity.WARNING,
            site=scaled_site(20**-0.5),
            state="trained",
            says=("(1/√queries)",),
        )
        yield fires(
            "the number of keys", Severity.WARNING, site=scaled_site(1 / 24), says=("1/24",)
        )
        yield fires(
            "right by coincidence, and another length shows it",
            Severity.WARNING,
            site=scaled_site(0.125, keys=64),
            other_site=scaled_site(40**-0.5, keys=40),
            says=("1/√keys", "at this length only", "40 keys it was 0.158114"),
        )
        yield fires(
            "behind a norm with a gain",
            Severity.NOTE,
            site=scaled_site(24**-0.5, **through_norm(gain=True)),
        )
        yield silent(
            "keys = head_dim, and another length shows that it is right",
            site=scaled_site(0.125, keys=64),
            other_site=scaled_site(0.125, keys=40),
        )
        yield silent("keys = head_dim, no other length", site=scaled_site(0.125, keys=64))
        yield silent("one key and no scale is another rule's", site=scaled_site(keys=1))
        yield fires_of(
            "a function that divides by the root of its keys",
            Severity.WARNING,
            scaling(lambda s: s.keys**-0.5),
            says=("1/√keys = 0.27735", "13 keys"),
        )
        yield fires_of(
            "a function whose factor falls with the queries",
            Severity.WARNING,
            scaling(lambda s: 3 / s.queries, law=power(0.0, queries=-1.0)),
        )
        yield silent_of("a function with the standard scale")
