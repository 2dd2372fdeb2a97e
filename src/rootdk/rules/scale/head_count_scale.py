"""RDK107."""

from __future__ import annotations

from collections.abc import Iterable

from rootdk.records import Severity
from rootdk.rules._behaviour_examples import fires_of, scaling, silent_of
from rootdk.rules._examples import Example, fires, healthy_site, scaled_site, silent, through_norm
from rootdk.rules.scale._functions import FunctionScaleRule
from rootdk.rules.scale._law import ScaleRule


class HeadCountScale(ScaleRule, FunctionScaleRule):
    """The scale comes from the number of heads, not from the width of a head.

    What it does
    ------------
    Finds attention whose effective scale is 1/√num_heads or 1/√num_kv_heads: the size of the
    axis beside the right one.

    Why it matters
    --------------
    With 12 heads of 64 the scores come out 2.3 times too large, with 32 heads of 16 they come
    out too small. Output can stay plausible: the best key often stays the best, and a test that
    looks at the first answer only does not notice.

    How it is measured
    ------------------
    The product of all constant factors is compared with the two numbers at a relative tolerance
    of 0.001 (or four times the precision of a stored constant).

    Of a function alone, the scale is the slope of log-weight ratios over differences of q·k, at
    sizes that all differ; the law must fit at every one of them.

    Remedy
    ------
    Take the scale from the last axis of the query after the split into heads:
    query.shape[-1] ** -0.5.

    When it stays silent
    --------------------
    It fires as a note behind a norm with a learned gain or a learned factor, and where a
    configuration declares the number. Where the number of heads equals head_dim the scale is
    right, and nothing is said. With one head, 1/√1 is no scale at all: RDK101.

    References
    ----------
    Vaswani et al., 2017, section 3.2.2 (arXiv:1706.03762). A case seen in public:
    tenstorrent/tt-metal#56789.
    """

    code = "RDK107"
    name = "head-count-scale"
    since = "0.1"
    severities = (Severity.WARNING, Severity.NOTE)
    supersedes = ("RDK202", "RDK601", "RDK602", "RDK605")

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        yield fires(
            "the root of the number of heads",
            Severity.WARNING,
            site=scaled_site(6**-0.5),
            says=("1/√6", "(1/√num_heads)", "3.266 times"),
            line=12,
        )
        yield fires(
            "the root of the number of key-value heads",
            Severity.WARNING,
            site=scaled_site(3**-0.5),
            state="trained",
            says=("(1/√num_kv_heads)",),
        )
        yield fires(
            "as many keys as heads",
            Severity.WARNING,
            site=scaled_site(6**-0.5, keys=6),
            says=("also fits 1/√keys",),
        )
        yield fires(
            "behind a norm with a gain",
            Severity.NOTE,
            site=scaled_site(6**-0.5, **through_norm(gain=True)),
        )
        yield silent("as many heads as entries", site=healthy_site(num_heads=64, num_kv_heads=64))
        yield silent(
            "as many heads as keys, and another length tells that it is the keys",
            site=scaled_site(6**-0.5, keys=6),
            other_site=scaled_site(9**-0.5, keys=9),
        )
        yield silent("one head and no scale", site=scaled_site(num_heads=1, num_kv_heads=1))
        yield fires_of(
            "a function that divides by the root of its heads",
            Severity.WARNING,
            scaling(lambda s: s.heads**-0.5),
            says=("1/√heads = 0.408248",),
        )
        yield silent_of("a function with the standard scale")
