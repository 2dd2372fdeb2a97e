"""Every probe of a function keeps its contract: what it fills exists, and it says what it does."""

import dataclasses

import pytest
from identify import functions

from rootdk import identify
from rootdk.identify.notebook import GROUPS
from rootdk.identify.probes import Probe, probes
from rootdk.records import Behaviour, PrecisionFacts

ALL = probes()
IDS = [probe.name.replace(" ", "-") for probe in ALL]


def facts() -> set[str]:
    """Every dotted name that a probe can fill."""
    names = {field.name for field in dataclasses.fields(Behaviour)}
    for group, kind in {**GROUPS, "precision": PrecisionFacts}.items():
        names |= {f"{group}.{field.name}" for field in dataclasses.fields(kind)}
    return names


@pytest.mark.parametrize("probe", ALL, ids=IDS)
def test_what_it_fills_exists(probe: Probe) -> None:
    assert probe.fills
    unknown = set(probe.fills) - facts()
    assert not unknown, f"{probe.name} fills {unknown}, which a Behaviour does not have"


@pytest.mark.parametrize("probe", ALL, ids=IDS)
def test_it_says_what_it_does(probe: Probe) -> None:
    for text in (type(probe).__doc__, __import__(type(probe).__module__, fromlist=["x"]).__doc__):
        assert text
        assert text.strip().splitlines()[0].endswith(".")


def test_they_run_in_an_order_of_their_own() -> None:
    orders = [probe.order for probe in ALL]
    assert orders == sorted(orders)
    assert len(set(orders)) == len(orders)


def test_every_fact_is_filled_by_some_probe() -> None:
    filled = {fact for probe in ALL for fact in probe.fills}
    by_hand = {"call.calls", "call.seconds", "call.expected_shape"}
    missing = {fact for fact in facts() if "." in fact and fact not in filled | by_hand}
    # What needs no probe of its own: the name of the dtype, and parts of another fact.
    missing -= {"precision.dtype", "softcap.after_mask", "scale.law", "softmax.factor_law"}
    assert not missing, f"no probe fills {sorted(missing)}"


def test_a_probe_that_fills_nothing_known_is_noticed() -> None:
    class Invented(Probe):
        name = "invented"
        order = 1
        fills = ("scale.colour",)

        def run(self, bench):
            """Do nothing."""

    with pytest.raises(AssertionError, match=r"scale\.colour"):
        test_what_it_fills_exists(Invented())


def test_a_run_writes_only_what_probes_say_they_fill() -> None:
    from rootdk.identify._run import _examined
    from rootdk.identify.adapters import Wanted

    how = {"dtype": None, "device": None, "seed": 0, "seconds": 10.0}
    bench = _examined(functions.with_everything, Wanted(), {}, how)
    filled = {fact for probe in ALL for fact in probe.fills}
    assert set(bench.notebook.facts) <= filled
    assert identify(functions.with_everything).behaviour.understood
