"""The text report: what it says, in which order, and that it fits."""

import dataclasses
import math
from pathlib import Path

import pytest
from report.diagnoses import everything, finding, healthy, site, source, source_file, summary

from rootdk._lib.errors import ArgumentError
from rootdk.records import Diagnosis
from rootdk.report import renderer_named
from rootdk.report.text import render


def test_a_healthy_model_is_called_so_first_and_plainly() -> None:
    lines = render(healthy()).splitlines()
    assert lines[0] == "INIT · HEALTHY · nothing wrong at any of the 2 attention sites"
    assert lines[1].startswith("model.py:build: init (every norm has weight 1); float32 on cpu")
    assert "No head stands out: spreads from 1.00 to 1.30, median 1.15." in lines
    assert lines[-1] == (
        "2 sites, 8 heads measured, 0 errors, 0 warnings, 0 notes, 0 unresolved, "
        "0 operations unhandled"
    )
    assert "Findings" not in lines


@pytest.mark.parametrize(
    ("training", "said"), [(True, "cpu, training mode"), (False, "cpu, eval mode"), (None, "cpu")]
)
def test_the_mode_is_left_out_where_there_is_none(training: bool | None, said: str) -> None:
    whole = healthy()
    there = dataclasses.replace(whole.environment, training=training)
    line = render(dataclasses.replace(whole, environment=there)).splitlines()[1]
    assert line.endswith(f"float32 on {said}")


def test_one_line_a_site_with_its_numbers() -> None:
    (line,) = [x for x in render(healthy()).splitlines() if x.startswith("blocks.1.attn")]
    numbers = "4×64 0.1250 1.000 0.900 1.04 1.17 0.50 0.25 0 %"
    assert line.split() == ["blocks.1.attn", *numbers.split(), "ok"]


def test_the_whole_report_of_a_sick_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = render(everything(tmp_path))
    assert text == (Path(__file__).parent / "everything.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("heads", [False, True])
def test_no_line_is_wider_than_asked(tmp_path: Path, width: int, heads: bool) -> None:
    wide = everything(tmp_path)
    many = site(
        "a.very.long.name.of.a.module.in.a.stack.of.modules.7.cross_attention", num_heads=40
    )
    wide = dataclasses.replace(
        wide,
        sites=(*wide.sites, many),
        summaries={**wide.summaries, many.name: summary([-1234567.8] * 40)},
    )
    # A path and a source line are never broken, so they are left out here.
    findings = tuple(dataclasses.replace(f, source=None, related=()) for f in wide.findings)
    sites = tuple(dataclasses.replace(s, source=None) for s in wide.sites)
    wide = dataclasses.replace(wide, findings=findings, sites=sites)
    lines = render(wide, width=width, heads=heads).splitlines()
    assert max(map(len, lines)) <= width
    assert any("unresolved" in line for line in lines)


def test_same_findings_at_many_sites_are_said_once(tmp_path: Path) -> None:
    file = source_file(tmp_path)
    found = tuple(finding(site=f"blocks.{i}.attn", source=source(file, 3)) for i in range(6))
    text = render(dataclasses.replace(healthy(6), findings=found))
    assert " ".join(text.split()).count("RDK102 the effective scale") == 1
    assert "at blocks.0.attn, blocks.1.attn, blocks.2.attn and 3 more" in " ".join(text.split())
    assert text.splitlines()[0] == "INIT · SUSPECT · 6 warnings among 6 attention sites"


def test_numbers_that_differ_from_site_to_site_are_not_passed_off_as_the_same(
    tmp_path: Path,
) -> None:
    file = source_file(tmp_path)
    found = tuple(
        finding(site=f"blocks.{i}.attn", source=source(file, 3), message=f"the spread is {i + 3}")
        for i in range(3)
    )
    text = " ".join(render(dataclasses.replace(healthy(3), findings=found)).split())
    assert "RDK102 the spread is 3 " in text
    assert "at blocks.0.attn, and with other numbers at blocks.1.attn, blocks.2.attn" in text


def test_colour_codes_come_only_when_asked_for(tmp_path: Path) -> None:
    assert "\x1b[" not in render(everything(tmp_path))
    assert "\x1b[" in render(everything(tmp_path), color=True)


def test_every_head_is_shown_when_asked_for() -> None:
    text = render(healthy(1), heads=True)
    assert "spread: standard deviation of all visible scores" in text
    (row, *_) = [x for x in text.splitlines() if x.split()[:1] == ["blocks.0.attn"] and "1.30" in x]
    assert row.split() == ["blocks.0.attn", "1.00", "1.10", "1.20", "1.30"]


def test_heads_that_stand_out_are_named_widest_first() -> None:
    spreads = [1.0] * 38 + [7.0, 9.0]
    wide = dataclasses.replace(
        healthy(1),
        sites=(site(num_heads=40),),
        summaries={"blocks.0.attn": summary(spreads)},
    )
    lines = render(wide).splitlines()
    start = lines.index("Heads that stand out (spread more than 3 × the median head's 1.00)")
    heads = [line.split()[1:3] for line in lines[start:] if line.startswith("blocks.0.attn")]
    assert heads == [["39", "9.00"], ["38", "7.00"]]


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"sites": ()}, "NO ATTENTION FOUND · no softmax over query-key products"),
        (
            {"sites": (site(unresolved="odd"),)},
            "NOT UNDERSTOOD · 1 attention site found, none of them understood",
        ),
        (
            {"sites": (site(), site("b", unresolved="odd"))},
            "HEALTHY · 1 of 2 attention sites unresolved, no fault found at the others",
        ),
        ({"findings": (finding(severity="note"),)}, "HEALTHY"),
    ],
    ids=["none", "all-open", "some-open", "notes"],
)
def test_the_first_line_is_true_of_other_cases_too(facts: dict[str, object], words: str) -> None:
    from rootdk.records import Severity

    diagnosis = healthy()
    if "findings" in facts:
        facts = {"findings": (finding(severity=Severity.NOTE),)}
    first = render(dataclasses.replace(diagnosis, **facts)).splitlines()[0]  # type: ignore[arg-type]
    assert first.startswith(f"INIT · {words}")


def test_sites_without_statistics_show_dashes_not_zeros() -> None:
    bare = dataclasses.replace(healthy(1), summaries={})
    (line,) = [x for x in render(bare).splitlines() if x.startswith("blocks.0.attn")]
    assert line.split()[4:] == ["–", "–", "–", "–", "–", "–", "ok"]


def test_heads_without_a_number_are_nan_not_lost() -> None:
    bad = summary([math.nan] * 4, rows_over_90=[math.nan] * 4)
    diagnosis = dataclasses.replace(healthy(1), summaries={"blocks.0.attn": bad})
    (line,) = [x for x in render(diagnosis).splitlines() if x.startswith("blocks.0.attn")]
    assert line.split()[4:8] == ["–", "NaN", "–", "0.50"]


def test_saving_as_text_writes_the_same(tmp_path: Path) -> None:
    diagnosis: Diagnosis = healthy()
    assert diagnosis.save(tmp_path / "a.txt").read_text(encoding="utf-8") == render(diagnosis)


def test_another_record_is_refused() -> None:
    with pytest.raises(
        ArgumentError, match="the format text shows a Diagnosis; it was given a int"
    ):
        renderer_named("text").render(3)
