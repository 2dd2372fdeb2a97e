"""RDK111."""

from __future__ import annotations

from collections.abc import Iterable

from rootdk.records import Factor, Severity
from rootdk.rules._examples import (
    Example,
    expecting,
    fires,
    healthy_site,
    line,
    scaled_site,
    silent,
)
from rootdk.rules.scale._law import ScaleRule


class PositionDependentScale(ScaleRule):
    """The scores are multiplied by a factor that changes with the position.

    What it does
    ------------
    Reports a factor before the softmax that differs between positions: a temperature that
    grows with the logarithm of the length, or a rotary table that is scaled for long contexts.

    Why it matters
    --------------
    It is usually meant. But one number no longer describes the layer: a check on short inputs
    says nothing about long ones, and a port that leaves the factor out agrees with the original
    up to the length where the factor sets in.

    How it is measured
    ------------------
    Read off the graph: a factor on query, key or scores that varies along the sequence. The
    constant factors beside it are multiplied and reported with their ratio to 1/√head_dim; they
    are not judged, since the varying one may make up for them.

    Remedy
    ------
    Nothing is wrong by itself: check that the factor is meant, and measure at the lengths that
    the model will see.

    When it stays silent
    --------------------
    Where no factor varies, where a factor on the weights does, and where the user declared the
    scale and it holds.

    References
    ----------
    Peng et al., YaRN, 2023 (arXiv:2309.00071). Chiang and Cholak, Overcoming a
    Theoretical Limitation of Self-Attention, 2022 (arXiv:2202.12172).
    """

    code = "RDK111"
    name = "position-dependent-scale"
    since = "0.1"
    severities = (Severity.NOTE,)
    supersedes = ("RDK202", "RDK601", "RDK602", "RDK605")

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        varying = Factor(value=None, place="query", kind="position-dependent", source=line(9))
        yield fires(
            "a logarithmic temperature",
            Severity.NOTE,
            site=scaled_site(0.125, varying),
            says=("depends on the position", "0.125 (1 times 1/√64)"),
            line=9,
        )
        yield fires(
            "constants beside it that are not 1/√head_dim",
            Severity.NOTE,
            site=scaled_site(1 / 64, varying),
            state="trained",
            says=("0.015625 (0.125 times",),
        )
        yield fires(
            "no constants known",
            Severity.NOTE,
            site=healthy_site(factors=(varying,), effective_scale=None),
        )
        yield silent("a constant scale")
        weights = Factor(value=None, place="weights", kind="position-dependent")
        yield silent("a gate on the weights", site=scaled_site(0.125, weights))
        yield silent(
            "the user declared the scale",
            site=scaled_site(0.125, varying, expected=expecting(0.125, "expect=", "user")),
        )
