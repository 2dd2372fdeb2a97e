"""A command line whose frontend and rules are stand-ins, so that only the face is tested."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from report.diagnoses import site, summary
from typer.testing import CliRunner, Result

from rootdk import frontends, rules
from rootdk.cli._app import build
from rootdk.frontends import Trace
from rootdk.records import Environment, Finding

FACTORIES = """\
class Model:
    def forward(self, tokens, scale=None):
        return tokens

class Numbers:
    shape = (1, 0)

def alone():
    return Model()

def one_argument():
    return Model(), 3

def loud():
    print("no JSON")
    return Model(), 3

def several():
    return Model(), (3, 4), {"scale": 5}

def keywords():
    return Model(), {"tokens": 3}

def four():
    return 1, 2, 3, 4

def nothing():
    return None, 3

def a_class():
    return Model, 3

def no_tokens():
    return Model(), Numbers()

def raises():
    raise ValueError("no weights here")

def leaves():
    raise SystemExit("done")

not_callable = 3
"""


@dataclass
class Face:
    """Runs the command line, with what the frontend and the rules shall answer."""

    sites: tuple[Any, ...] = ()
    findings: tuple[Finding, ...] = ()
    calls: list[dict[str, Any]] = field(default_factory=list)
    raises: Exception | None = None

    def __call__(self, *arguments: str) -> Result:
        return CliRunner().invoke(build(), list(arguments))

    def trace(self, model: Any, args: Any, kwargs: Any, **options: Any) -> Trace:
        self.calls.append({"model": model, "args": args, "kwargs": kwargs, **options})
        if self.raises is not None:
            raise self.raises
        return Trace(
            sites=self.sites,
            summaries={s.name: summary([1.0] * s.num_heads) for s in self.sites},
            unhandled=(),
            remarks=(),
            environment=Environment(),
            state="trained",
            state_reason="a norm is not 1",
        )


@pytest.fixture
def face(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Face]:
    """The face, in a folder that has a file of factories called ``factories_in_test.py``."""
    face = Face(sites=(site(),))
    monkeypatch.setattr(frontends, "trace", face.trace)
    judge = rules.judge

    def judged(sites: Any, *args: Any, **kwargs: Any) -> Any:
        judge((), {}, "init", select=kwargs["select"], ignore=kwargs["ignore"])
        return face.findings, ()

    monkeypatch.setattr(rules, "judge", judged)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "factories_in_test.py").write_text(FACTORIES)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield face
    sys.modules.pop("factories_in_test", None)
