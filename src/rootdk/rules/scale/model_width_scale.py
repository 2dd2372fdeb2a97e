"""RDK103."""

from __future__ import annotations

from collections.abc import Iterable

from rootdk.records import Severity
from rootdk.rules._behaviour_examples import fires_of, power, scaling, silent_of
from rootdk.rules._examples import (
    Example,
    constant,
    expecting,
    fires,
    healthy_site,
    scaled_site,
    silent,
    through_norm,
)
from rootdk.rules.scale._functions import FunctionScaleRule
from rootdk.rules.scale._law import ScaleRule


class ModelWidthScale(ScaleRule, FunctionScaleRule):
    """The scale comes from the width of the model, not from the width of a head.

    What it does
    ------------
    Finds attention whose effective scale is 1/√(num_heads·head_dim), or 1/√ of the width of
    the hidden states, where the products run over head_dim entries only.

    Why it matters
    --------------
    The scores are √num_heads times too small: 3.5 times for 12 heads. Heads start close to
    uniform, and the more heads a layer has the less each of them can tell keys apart. It is
    the most frequent slip of all, because the formula is written before the split into heads.

    How it is measured
    ------------------
    The product of all constant factors is compared with both widths at a relative tolerance of
    0.001 (or four times the precision of a stored constant). With one head the two widths are
    the same and the scale is right.

    Of a function alone, the scale is the slope of log-weight ratios over differences of q·k, at
    sizes that all differ; the law must fit at every one of them.

    Remedy
    ------
    Take the scale from the last axis of the query after the split into heads:
    query.shape[-1] ** -0.5.

    When it stays silent
    --------------------
    It fires as a note behind a norm with a learned gain or a learned factor, and where a
    configuration declares the number. Some published models mean it (Set Transformer divides
    by the full width, CvT too): declare it with ``expect="1/sqrt(hidden)"`` and it is silent.

    References
    ----------
    Vaswani et al., 2017, section 3.2.2 (arXiv:1706.03762): d_k is d_model over the number of
    heads. Lee et al., Set Transformer, 2019 (arXiv:1810.00825). Wu et al., CvT, 2021
    (arXiv:2103.15808).
    """

    code = "RDK103"
    name = "model-width-scale"
    since = "0.1"
    severities = (Severity.WARNING, Severity.NOTE)
    supersedes = ("RDK202", "RDK601", "RDK602", "RDK605")

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        width = 384**-0.5
        yield fires(
            "the scale of six heads together",
            Severity.WARNING,
            site=scaled_site(width),
            says=("1/√384", "num_heads·head_dim", "0.4082 times the standard scale"),
            line=12,
        )
        yield fires(
            "hidden states that are wider than the heads together",
            Severity.WARNING,
            site=scaled_site(512**-0.5, hidden=512),
            state="trained",
            says=("1/√512", "(1/√hidden)"),
        )
        yield fires(
            "halves on query and key",
            Severity.WARNING,
            site=scaled_site(
                constant(384**-0.25, "query", at=9), constant(384**-0.25, "key", at=10)
            ),
            line=10,
        )
        yield fires(
            "a config declares it",
            Severity.NOTE,
            site=scaled_site(width, expected=expecting(width, "scale_by = 'hidden'")),
            says=("declared by scale_by",),
        )
        yield fires(
            "behind a norm with a gain",
            Severity.NOTE,
            site=scaled_site(width, **through_norm(gain=True)),
        )
        one_head = healthy_site(num_heads=1, num_kv_heads=1, hidden=64)
        yield silent("one head, whose width is the model's", site=one_head)
        yield silent(
            "the user expects it",
            site=scaled_site(width, expected=expecting(width, "pyproject.toml", "user")),
        )
        yield fires_of(
            "a function that takes the width of all heads",
            Severity.WARNING,
            scaling(lambda s: (s.heads * s.head_dim) ** -0.5),
            says=("1/√(heads·head_dim) = 0.051", "6 heads"),
        )
        yield fires_of(
            "a function that takes a share of it",
            Severity.WARNING,
            scaling(lambda s: 0.5 * s.heads**-0.5 * s.head_dim**-0.5, law=power(-0.5, heads=-0.5)),
        )
        yield silent_of("a function with the standard scale")
        declared = scaling(lambda s: (s.heads * s.head_dim) ** -0.5, scale_as_expected=True)
        yield silent_of("a function that is meant to", declared)
