"""Take each graph rule for a silent error away: the numbers alone must then refuse the site.

A rule that is taken away lets its pattern pass as if it were nothing. If the verification were
no proof, the site would then be resolved with a wrong scale. For each rule at least one case must
be one that the rule alone had decided, or the test would show nothing.
"""

import math

import pytest
from nine.case import Silent
from nine.registry import of_error
from nine.test_nine_silent_errors import diagnose, is_honest

from rootdk.frontends._graph import guards
from rootdk.frontends._sites import values
from rootdk.frontends._torch import recorder

RULE_OF = {
    Silent.SCALAR_FROM_A_SHAPE: "factor-without-value",
    Silent.NUMPY_ROUND_TRIP: "unknown-leaf",
    Silent.MAP_OVER_SCORES: "map-over-scores",
    Silent.SCALE_PER_CHANNEL: "vector-factor",
    Silent.UNSCALED_TERM: "score-term",
    Silent.ADDED_TO_ITSELF: "sum-of-same",
    Silent.SLICES_APART: "partial-write",
    Silent.CUSTOM_OPERATOR: "opaque-operation",
    Silent.SCALAR_OF_THE_PROJECTION: "projection-scope",
}
BY_NUMBERS = ("recomputed", "differs from", "nothing recorded has made")


def without_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frontend that does not know what a computed scalar holds."""
    monkeypatch.setattr(recorder, "number_in", lambda tensor: None)
    read = values.ArrayValues.uniform
    monkeypatch.setattr(
        values.ArrayValues,
        "uniform",
        lambda self, node: read(self, node) if math.prod(node.shape) > 1 else None,
    )


@pytest.mark.parametrize("error", Silent, ids=[error.name.lower() for error in Silent])
def test_the_numbers_refuse_what_the_rule_would_have(
    error: Silent, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if error is Silent.SCALAR_FROM_A_SHAPE:
        without_values(monkeypatch)
    monkeypatch.setattr(guards, "_removed", {RULE_OF[error]})
    refused = []
    for case in of_error(error):
        for site in diagnose(case, seed).sites:
            said = (case.identity, site.unresolved, site.effective_scale, site.factors)
            assert is_honest(site, case), said
            if site.unresolved is not None and any(w in site.unresolved for w in BY_NUMBERS):
                refused.append(case.identity)
    assert refused, "taking the rule away changed nothing: the test shows nothing"


def test_every_rule_belongs_to_one_of_the_nine() -> None:
    assert set(RULE_OF.values()) == set(guards.GUARDS)
    assert set(RULE_OF) == set(Silent)
