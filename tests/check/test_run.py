"""``check`` puts frontends and rules together; both are stand-ins here."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report.diagnoses import finding, site, source, source_file, summary

from rootdk import frontends, rules
from rootdk._lib.errors import ArgumentError
from rootdk.check import CheckOptions, check
from rootdk.frontends import Trace
from rootdk.records import Diagnosis, Environment, Expected, Finding, Skipped


class Model:
    def forward(self, x: int, *, flag: bool = False) -> int:
        return x


class ModelThatExpects:
    def forward(self, expect: object) -> object:
        return expect


def traced(*sites: Any, **facts: Any) -> Trace:
    given: dict[str, Any] = {
        "sites": sites or (site(),),
        "summaries": {"blocks.0.attn": summary([1.0] * 4)},
        "unhandled": (),
        "remarks": ("from the frontend",),
        "environment": Environment(),
        "state": "trained",
        "state_reason": "a norm is not 1",
    }
    return Trace(**{**given, **facts})


class Bench:
    """Stand-ins that record what they were called with."""

    def __init__(self) -> None:
        self.traces = [traced()]
        self.calls: list[dict[str, Any]] = []
        self.judged: list[tuple[Any, ...]] = []
        self.findings: Callable[[Any], tuple[Finding, ...]] = lambda others: ()

    def trace(self, model: Any, args: Any, kwargs: Any, **options: Any) -> Trace:
        self.calls.append({"model": model, "args": args, "kwargs": kwargs, **options})
        return self.traces[min(len(self.calls), len(self.traces)) - 1]

    def judge(self, sites: Any, summaries: Any, state: str, *, select: Any = (), ignore: Any = (),
              **more: Any) -> Any:  # fmt: skip
        self.judged.append((sites, state, tuple(select), tuple(ignore), more.get("other_sites")))
        found = self.findings(more.get("other_sites") or {})
        return found, (Skipped(code="RDK203", why="no numbers"),)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    bench = Bench()
    monkeypatch.setattr(frontends, "trace", bench.trace)
    monkeypatch.setattr(rules, "judge", bench.judge)
    return bench


def test_the_models_own_arguments_pass_through(bench: Bench) -> None:
    model = Model()
    diagnosis = check(model, 3, flag=True, rootdk={"seed": 5, "rows": 8})
    (call,) = bench.calls
    assert (call["model"], call["args"], call["kwargs"]) == (model, (3,), {"flag": True})
    assert (call["seed"], call["rows"]) == (5, 8)
    assert isinstance(diagnosis, Diagnosis)
    assert (diagnosis.target, diagnosis.state) == ("Model", "trained")
    assert diagnosis.state_reason == "a norm is not 1"
    assert diagnosis.remarks == ("from the frontend",)
    assert diagnosis.skipped == (Skipped(code="RDK203", why="no numbers"),)


def test_a_given_state_is_judged_and_said(bench: Bench) -> None:
    diagnosis = check(Model(), 1, rootdk=CheckOptions(state="init", target="mine"))
    assert bench.judged[0][1] == "init"
    assert (diagnosis.target, diagnosis.state, diagnosis.state_reason) == ("mine", "init", "given")


def test_expect_at_the_top_is_ours_unless_the_model_wants_it(bench: Bench) -> None:
    check(Model(), 1, expect={"*": 0.5})
    assert bench.calls[0]["kwargs"] == {}
    assert bench.judged[0][0][0].expected == Expected(value=0.5, where="expect['*']", by="user")
    check(ModelThatExpects(), expect="its own")
    assert bench.calls[1]["kwargs"] == {"expect": "its own"}
    assert bench.judged[1][0][0].expected is None


def test_selection_reaches_the_rules_and_must_name_one(bench: Bench) -> None:
    check(Model(), 1, rootdk={"select": ["RDK1", "RDK607"], "ignore": "scale-applied-twice"})
    assert bench.judged[0][2:4] == (("RDK1", "RDK607"), ("scale-applied-twice",))
    with pytest.raises(ArgumentError, match="there is no rule 'RDK999'"):
        check(Model(), 1, rootdk={"select": ["RDK999"]})


def test_without_attention_it_says_so(bench: Bench) -> None:
    bench.traces = [traced(sites=(), summaries={})]
    assert check(Model(), 1).remarks == (
        "no attention found among 0 operations",
        "from the frontend",
    )


def test_an_ignore_comment_drops_a_finding(bench: Bench, tmp_path: Path) -> None:
    file = source_file(tmp_path)
    file.write_text(file.read_text().replace("0.125\n", "0.125  # rootdk: ignore[RDK102] meant\n"))
    bench.findings = lambda others: (finding(source=source(file, 3)),)
    diagnosis = check(Model(), 1)
    assert diagnosis.findings == ()
    assert diagnosis.remarks[-1].endswith("model.py:3: 1 finding of RDK102 ignored: meant")


def test_what_one_length_leaves_open_another_decides(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "ambiguous", lambda site: True)
    first, second = site(keys=64), site(keys=47)
    bench.traces = [traced(first), traced(second)]
    unrooted = finding(code="RDK104", name="unrooted-scale")
    by_length = finding(code="RDK105", name="sequence-length-scale")
    bench.findings = lambda others: (unrooted if others else by_length,)

    alone = check(Model(), 1)
    assert [f.code for f in alone.findings] == ["RDK105"]

    bench.calls.clear()
    both = check(Model(), 1, rootdk={"second_inputs": lambda: ((2,), {"flag": True})})
    assert (bench.calls[1]["args"], bench.calls[1]["kwargs"]) == ((2,), {"flag": True})
    assert bench.judged[-1][4] == {"blocks.0.attn": second}
    assert [f.code for f in both.findings] == ["RDK104"]
    assert both.sites == (first,)
    assert both.remarks[-1].endswith("a second pass at 47 keys decided")


def test_an_open_site_is_seen_again_even_where_nothing_was_found(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A scale of 1/√keys is the standard one wherever keys = head_dim.
    monkeypatch.setattr(rules, "ambiguous", lambda site: True)
    check(Model(), 1, rootdk={"second_inputs": lambda: ((2,), {})})
    assert [call["args"] for call in bench.calls] == [(1,), (2,)]


def test_a_second_pass_that_fails_leaves_the_first_as_it_is(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "ambiguous", lambda site: True)
    bench.findings = lambda others: (finding(code="RDK105"),)

    def no_inputs() -> None:
        raise ValueError("only 64 tokens fit")

    diagnosis = check(Model(), 1, rootdk={"second_inputs": no_inputs})
    assert [f.code for f in diagnosis.findings] == ["RDK105"]
    assert diagnosis.remarks[-1].endswith("failed: ValueError: only 64 tokens fit")
