"""RDK111."""

from __future__ import annotations

import math
from collections.abc import Iterable

from rootdk.records import Factor, ScalePoint, Severity, Sizes, Varies
from rootdk.rules._behaviour_examples import fires_of, scaling, silent_of, standard
from rootdk.rules._examples import (
    Example,
    expecting,
    fires,
    healthy_site,
    line,
    scaled_site,
    silent,
)
from rootdk.rules.scale._functions import FunctionScaleRule
from rootdk.rules.scale._law import ScaleRule


class PositionDependentScale(ScaleRule, FunctionScaleRule):
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

    Of a function alone, the scale is measured at several queries and at several keys, in runs
    of several hundred keys, and with one query, one head and one sample. A factor that differs
    between keys of one row, or between short and long runs without following the length, is an
    error: that is how a constant looks that a loop over blocks of keys applies again in each
    block. So is a factor that is another one where there is one query: that is how a path for
    decoding looks that leaves it out.

    Remedy
    ------
    Where it follows the query's position, check that it is meant, and measure at the lengths
    that the model will see; where it follows the keys, take the factor out of the loop over them.

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
    severities = (Severity.ERROR, Severity.NOTE)
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
        by_block = Varies(along="key", at=(10, 70, 140), scales=(0.125, 0.18, 0.2592))
        yield fires_of(
            "a function whose loop applies a factor again",
            Severity.ERROR,
            scaling(standard, varies=(by_block,)),
            says=("depends on the key: 0.125 at key 10", "a factor of 1.44, as if"),
        )
        by_query = Varies(along="query", at=(1, 100), scales=(0.125, 0.2))
        yield fires_of(
            "a function with a logarithmic temperature",
            Severity.NOTE,
            scaling(standard, varies=(by_query,)),
            says=("depends on the query",),
        )
        long_runs = Varies(along="run", at=(13, 350), scales=(0.125, 0.2))
        yield fires_of(
            "a function that differs past one block of keys",
            Severity.ERROR,
            scaling(standard, varies=(long_runs,)),
            says=("0.2 over 350 keys",),
        )
        point = ScalePoint(
            sizes=Sizes(
                batch=2, heads=6, kv_heads=6, queries=1, keys=13, head_dim=64, value_dim=20
            ),
            scale=1.0,
            uncertainty=1e-6,
            residual=0.0,
        )
        yield fires_of(
            "a function that goes another way for one query",
            Severity.ERROR,
            scaling(standard, apart=(point,)),
            says=("and by 1 where queries is 1",),
        )
        yield fires_of(
            "a function that grows with the logarithm of the length",
            Severity.NOTE,
            scaling(lambda s: math.log(s.keys) * s.head_dim**-0.5),
        )
        yield silent_of("a function with one scale")
        declared = scaling(standard, varies=(by_query,), scale_as_expected=True)
        yield silent_of("a function whose scale was declared", declared)
