"""The commands beside check, the help, and what importing the face costs."""

import json
import subprocess
import sys
from typing import Any

import pytest
from cli.conftest import Face
from frameworks import FRAMEWORKS
from fresh_interpreter import assert_light

from rootdk import __version__, rules


def test_version(face: Face) -> None:
    result = face("--version")
    assert (result.exit_code, result.stdout) == (0, f"rootdk {__version__}\n")


def test_help_names_every_command(face: Face) -> None:
    text = face("--help").stdout
    assert all(command in text for command in ("check", "diagnose", "explain", "rules"))


@pytest.mark.parametrize("command", ["check", "diagnose", "explain", "rules"])
def test_every_command_has_help(face: Face, command: str) -> None:
    result = face(command, "--help")
    assert result.exit_code == 0
    assert "[default: text]" not in result.stdout or command == "rules"


def test_explain_shows_a_rules_page_by_code_or_name(face: Face) -> None:
    rule = rules.all_rules()[0]
    by_code = face("explain", rule.code.lower())
    assert by_code.exit_code == 0
    assert by_code.stdout.startswith(f"{rule.code} {rule.name}\n\n")
    assert "What it does" in by_code.stdout
    assert by_code.stdout == face("explain", rule.name).stdout


@pytest.mark.parametrize(
    ("code", "message"), [("RDK999", "RDK999"), ("RDK701", "reserved"), ("nonsense", "nonsense")]
)
def test_explain_of_no_rule_is_one_line(face: Face, code: str, message: str) -> None:
    result = face("explain", code)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert message in result.stderr


def test_rules_lists_every_rule(face: Face) -> None:
    text = face("rules").stdout
    listed = json.loads(face("rules", "--format", "json").stdout)
    assert [row["code"] for row in listed["rules"]] == [rule.code for rule in rules.all_rules()]
    for rule in rules.all_rules():
        assert f"{rule.code}  {rule.name}" in text
    assert "RDK701" in text
    assert listed["reserved"]["RDK701"] == "future-leak"
    assert max(map(len, text.splitlines())) <= 100


def test_rules_in_another_format_is_one_line(face: Face) -> None:
    assert face("rules", "--format", "pdf").stderr.startswith("rootdk: error: --format is 'pdf'")


def test_diagnose_explains_a_spread(face: Face) -> None:
    result = face("diagnose", "--spread", "4", "--head-dim", "64")
    assert result.exit_code == 0
    assert result.stdout.strip()
    answer = face("diagnose", "--spread", "4", "--head-dim", "64", "--format", "json")
    document: dict[str, Any] = json.loads(answer.stdout)
    assert document


def test_diagnose_of_nonsense_is_one_line(face: Face) -> None:
    result = face("diagnose", "--spread", "-1", "--head-dim", "64")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("nonsense",), "No such command 'nonsense'"), (("check",), "Missing argument")],
)
def test_wrong_usage_is_one_line(face: Face, arguments: tuple[str, ...], said: str) -> None:
    result = face(*arguments)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert said in result.stderr


def test_the_module_runs_as_a_script() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rootdk.cli", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"rootdk {__version__}\n"


def test_help_imports_no_framework() -> None:
    build = "from rootdk.cli._app import build; import typer; typer.main.get_command(build())"
    assert_light(build, forbidden=FRAMEWORKS)


def test_completion_is_offered(face: Face) -> None:
    assert "--install-completion" in face("--help").stdout
