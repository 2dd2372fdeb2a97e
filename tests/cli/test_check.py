"""``rootdk check``: options, output, and the exit status."""

import dataclasses
import json
from pathlib import Path

import pytest
from cli.conftest import Face
from report.diagnoses import finding

from rootdk.records import Expected, Severity

TARGET = "factories_in_test.py:one_argument"


def severe(name: str) -> Severity:
    return Severity(name)


def test_a_healthy_model_exits_0_and_says_so_first(face: Face) -> None:
    result = face("check", TARGET)
    assert result.exit_code == 0
    assert result.stdout.startswith("TRAINED · HEALTHY · nothing wrong at the one attention site")
    assert result.stderr == ""
    assert face.calls[0]["args"] == (3,)


@pytest.mark.parametrize(
    ("severity", "bar", "status"),
    [
        ("warning", None, 1),
        ("note", None, 0),
        ("error", None, 1),
        ("warning", "error", 0),
        ("error", "error", 1),
        ("note", "note", 1),
        ("error", "never", 0),
    ],
)
def test_the_exit_status_follows_the_bar(
    face: Face, severity: str, bar: str | None, status: int
) -> None:
    face.findings = (finding(severity=severe(severity)),)
    options = () if bar is None else ("--fail-on", bar)
    assert face("check", TARGET, *options).exit_code == status


def test_unresolved_sites_alone_exit_0_but_are_said(face: Face) -> None:
    face.sites = (dataclasses.replace(face.sites[0], unresolved="a custom operator"),)
    result = face("check", TARGET)
    assert result.exit_code == 0
    assert "NOT UNDERSTOOD" in result.stdout
    assert "blocks.0.attn: a custom operator" in result.stdout


def test_json_is_written_to_stdout_or_by_the_suffix(face: Face, tmp_path: Path) -> None:
    shown = json.loads(face("check", TARGET, "--format", "json").stdout)
    assert (shown["schema"], shown["target"]) == (1, TARGET)
    result = face("check", TARGET, "-o", "report.json")
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8")) == shown
    assert result.stdout.startswith("report.json: TRAINED · HEALTHY")
    face("check", TARGET, "-o", "report.json", "--format", "text")
    assert (tmp_path / "report.json").read_text(encoding="utf-8").startswith("TRAINED")


def test_what_the_target_prints_is_not_in_the_json(face: Face) -> None:
    result = face("check", "factories_in_test.py:loud", "--format", "json")
    assert json.loads(result.stdout)["verdict"] == "healthy"
    assert result.stderr == "no JSON\n"


def test_every_head_is_shown_when_asked_for(face: Face) -> None:
    assert "spread: standard deviation" not in face("check", TARGET).stdout
    assert "spread: standard deviation" in face("check", TARGET, "--heads").stdout


def test_expectations_reach_the_sites(face: Face) -> None:
    result = face("check", TARGET, "--expect", "blocks.*=1/sqrt(hidden)", "--format", "json")
    declared = json.loads(result.stdout)["sites"][0]["expected"]
    where = "expect['blocks.*'] = 1/sqrt(hidden)"
    assert declared == dataclasses.asdict(Expected(value=1 / 16, where=where, by="user"))


def test_a_state_and_a_seed_are_passed_on(face: Face) -> None:
    result = face("check", TARGET, "--state", "init", "--seed", "7")
    assert result.stdout.startswith("INIT · ")
    assert "init (given)" in result.stdout
    assert face.calls[0]["seed"] == 7


def test_the_nearest_pyproject_is_read(face: Face, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.rootdk]\nfail-on = "error"\nstate = "init"\n')
    face.findings = (finding(),)
    result = face("check", TARGET)
    assert result.exit_code == 0
    assert result.stdout.startswith("INIT · SUSPECT")
    assert face("check", TARGET, "--fail-on", "note").exit_code == 1


def test_a_baseline_fails_only_on_what_is_new(face: Face) -> None:
    face.findings = (finding(), finding(severity=severe("note"), code="RDK202"))
    assert face("check", TARGET, "-o", "base.json").exit_code == 1
    face.findings = (finding(message="another message"), face.findings[1])
    known = face("check", TARGET, "--baseline", "base.json", "--fail-on", "note")
    assert known.exit_code == 0
    assert "of 2 findings 2 are in the baseline base.json, 0 new" in known.stdout

    graver = finding(severity=severe("warning"), code="RDK202")
    face.findings = (finding(), graver)
    worse = face("check", TARGET, "--baseline", "base.json")
    assert worse.exit_code == 1
    assert "1 new: RDK202 at blocks.0.attn" in worse.stdout

    face.findings = (finding(), finding())
    assert face("check", TARGET, "--baseline", "base.json").exit_code == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "--baseline base.json cannot be read"),
        ("{", "--baseline base.json is no report; expected what rootdk check --format json"),
        ("[]", "--baseline base.json is no report"),
        ('{"schema": 1, "findings": [3]}', "--baseline base.json is no report"),
        ('{"schema": 2, "findings": []}', "base.json schema is 2; expected 1"),
    ],
)
def test_a_broken_baseline_is_one_line(
    face: Face, tmp_path: Path, content: str | None, message: str
) -> None:
    if content is not None:
        (tmp_path / "base.json").write_text(content)
    result = face("check", TARGET, "--baseline", "base.json")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"rootdk: error: {message}")
    assert face.calls == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--format", "pdf"), "the format is 'pdf'; expected one of json, markdown, text"),
        (("-o", "x.pdf"), "the suffix is '.pdf'; expected one of .json, .md, .txt"),
        (("-o", "none/x.json"), "none/x.json cannot be written"),
        (("--fail-on", "all"), "--fail-on is 'all'; expected one of error, warning, note, never"),
        (("--state", "new"), "state is 'new'; expected one of auto, init, trained"),
        (("--select", "RDK999"), "there is no rule 'RDK999'"),
        (("--ignore", "nonsense"), "there is no rule 'nonsense'"),
        (("--expect", "a"), "--expect is 'a'; expected GLOB=SCALE"),
        (("--expect", "*=1/x"), "at blocks.0.attn: expression '1/x': x is not known here"),
        (("--dtype", "int8"), "--dtype is 'int8'; expected one of auto, float64, float32"),
        (("--attn", "eager"), f"--attn is given for {TARGET}, which chooses its own attention"),
        (("--text", "x"), f"--text, --text-file or --max-tokens is given for {TARGET}"),
        (("--text", "x", "--text-file", "y"), "--text and --text-file are both given"),
        (("--text-file", "none.txt"), "--text-file none.txt cannot be read"),
        (("--nonsense",), "No such option: --nonsense"),
        (("--seed", "-1"), "Invalid value for '--seed': Input should be greater than or equal to"),
        (("--seed", str(2**63)), "Invalid value for '--seed': Input should be less than or equal"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_option_is_one_line(face: Face, options: tuple[str, ...], message: str) -> None:
    result = face("check", TARGET, *options)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"rootdk: error: {message}")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr


def test_without_attention_it_exits_2_and_says_so(face: Face) -> None:
    face.sites = ()
    result = face("check", TARGET)
    assert result.exit_code == 2
    assert result.stderr.startswith(
        f"rootdk: error: {TARGET}: no attention found among 0 operations; expected a"
    )


def test_what_the_model_raises_is_one_line(face: Face) -> None:
    face.raises = RuntimeError("mat1 and mat2\nmust have the same dtype")
    result = face("check", TARGET)
    assert result.exit_code == 2
    assert result.stderr.startswith(
        f"rootdk: error: running {TARGET} raised RuntimeError: "
        "mat1 and mat2 must have the same dtype ("
    )
    assert result.stderr.count("\n") == 1


def test_a_traceback_comes_only_when_asked_for(face: Face) -> None:
    face.raises = RuntimeError("odd")
    assert isinstance(face("check", TARGET).exception, SystemExit)
    raised = face("check", TARGET, "--traceback").exception
    assert type(raised).__name__ == "TargetError"
    assert isinstance(raised.__cause__ if raised else None, RuntimeError)


def test_a_fault_of_rootdk_itself_is_one_line_too(
    face: Face, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> str:
        raise KeyError("lost")

    monkeypatch.setattr("rootdk.report.text.render", broken)
    monkeypatch.setattr("rootdk.cli.check._write", broken)
    result = face("check", TARGET)
    assert result.exit_code == 2
    assert "KeyError: 'lost'" in result.stderr
    assert "this is a fault of rootdk" in result.stderr
