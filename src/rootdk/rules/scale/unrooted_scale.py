"""RDK104."""

from __future__ import annotations

from collections.abc import Iterable

from rootdk.records import Severity
from rootdk.rules._behaviour_examples import argument, fires_of, scaling, silent_of
from rootdk.rules._examples import (
    Example,
    constant,
    expecting,
    fires,
    scaled_site,
    silent,
    through_norm,
)
from rootdk.rules.scale._functions import FunctionScaleRule
from rootdk.rules.scale._law import ScaleRule


class UnrootedScale(ScaleRule, FunctionScaleRule):
    """The scores are divided by head_dim, not by its square root.

    What it does
    ------------
    Finds attention with one factor of 1/head_dim, or of 2/head_dim, which is what dividing by
    ``head_dim ** 1/2`` gives: the power binds first, so that this is half of head_dim.

    Why it matters
    --------------
    The scores come out √head_dim times too small (half of that for 2/head_dim), and a new
    model's weights are close to uniform. The projections have to grow before the layer can
    prefer one key to another.

    How it is measured
    ------------------
    The product of all constant factors is compared with 1/head_dim and 2/head_dim at a relative
    tolerance of 0.001 (or four times the precision of a stored constant). Two factors of
    1/√head_dim at two places are RDK102; both are the same function, and only where the
    factors stand can tell them apart.

    Of a function alone, the scale is the slope of log-weight ratios over differences of q·k, at
    sizes that all differ; the law must fit at every one of them.

    Remedy
    ------
    Divide by math.sqrt(head_dim), or multiply by head_dim ** -0.5, once.

    When it stays silent
    --------------------
    It fires as a note where something accounts for it: a configuration that declares 1/head_dim
    (as maximal-update parametrisation does on purpose), a norm with a learned gain, or a
    learned factor. It says nothing where the user declared the scale.

    References
    ----------
    Vaswani et al., 2017, section 3.2.1 (arXiv:1706.03762). Yang et al., Tensor Programs V, 2022
    (arXiv:2203.03466), which divides by head_dim so that one learning rate fits every width.
    """

    code = "RDK104"
    name = "unrooted-scale"
    since = "0.1"
    severities = (Severity.WARNING, Severity.NOTE)
    supersedes = ("RDK202", "RDK601", "RDK602", "RDK605")

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        yield fires(
            "divided by head_dim",
            Severity.WARNING,
            site=scaled_site(1 / 64),
            says=("1/64 = 0.015625 (1/head_dim)", "not 1/√64 = 0.125 (0.125 times"),
            line=12,
        )
        yield fires(
            "divided by head_dim ** 1/2",
            Severity.WARNING,
            site=scaled_site(2 / 64),
            state="trained",
            says=("2/64", "trained with it"),
        )
        yield fires(
            "keys = head_dim, so that 1/keys fits as well",
            Severity.WARNING,
            site=scaled_site(1 / 64, keys=64),
            says=("also fits 1/keys",),
        )
        yield fires(
            "a config declares it",
            Severity.NOTE,
            site=scaled_site(1 / 64, expected=expecting(1 / 64, "mup_scale_qk_dot_by_d")),
            says=("declared by mup_scale_qk_dot_by_d",),
        )
        yield fires(
            "a config flag without a number",
            Severity.NOTE,
            site=scaled_site(1 / 64, expected=expecting(None, "use_mup = True")),
        )
        yield fires(
            "behind a norm with a gain",
            Severity.NOTE,
            site=scaled_site(1 / 64, **through_norm(gain=True)),
        )
        yield silent(
            "twice is another rule's",
            site=scaled_site(constant(0.125, "query"), constant(0.125, "kernel")),
        )
        yield silent(
            "2/head_dim is the model's width as well, which is the likelier",
            site=scaled_site(2 / 64, num_heads=16, num_kv_heads=4, hidden=1024),
        )
        yield silent("2/head_dim at a head_dim of 4 is right", site=scaled_site(0.5, head_dim=4))
        yield silent("the standard scale")
        yield fires_of(
            "a function that divides by head_dim",
            Severity.WARNING,
            scaling(lambda s: 1 / s.head_dim),
            says=("1/head_dim = 0.015625", "or by √head_dim twice"),
        )
        yield fires_of(
            "a function with half of head_dim",
            Severity.WARNING,
            scaling(lambda s: 2 / s.head_dim),
        )
        yield fires_of(
            "a scale argument on top of the scale",
            Severity.WARNING,
            argument("scale", "wrong", asked=0.3, acted=0.3 / 8),
            says=("with scale=0.3", "by 0.0375", "on top of 1/√head_dim"),
        )
        yield silent_of("a function with the standard scale")
        yield silent_of("a scale argument that is used", argument("scale", "as-asked"))
