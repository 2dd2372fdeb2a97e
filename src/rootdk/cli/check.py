"""``rootdk check``: a model's attention, measured and judged."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rootdk._lib.errors import ArgumentError, TargetError
from rootdk.cli import _options as given

if TYPE_CHECKING:
    from rootdk.check import CheckOptions
    from rootdk.cli._loading import Loaded
    from rootdk.records import Diagnosis

__all__ = ["register"]

_WIDEST = 120


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("check")(check)


def check(
    target: given.Target,
    format: given.Format = None,  # noqa: A002 - the option's name
    output: given.Output = None,
    select: given.Select = None,
    ignore: given.Ignore = None,
    expect: given.Expect = None,
    fail_on: given.FailOn = None,
    state: given.State = "auto",
    baseline: given.Baseline = None,
    heads: given.Heads = False,
    text: given.TextGiven = None,
    text_file: given.TextFile = None,
    max_tokens: given.MaxTokens = None,
    inputs: given.Inputs = None,
    dtype: given.Dtype = None,
    attn: given.Attention = None,
    seed: given.Seed = 0,
    traceback: given.Traceback = False,
) -> None:
    """Check every attention call of a model: its scale, mask, softmax and health.

    Exit status: 0 without findings at or above the bar, 1 with some, 2 when it could not run.
    """
    del traceback  # its callback has read it
    from rootdk.check import CheckOptions, Settings, find_pyproject, read_settings
    from rootdk.cli import _baseline
    from rootdk.cli._loading import Request, text_given

    found = find_pyproject(Path.cwd())
    settings = Settings() if found is None else read_settings(found)
    bar = _bar(fail_on or settings.fail_on or "warning")
    known = _baseline.read(baseline) if baseline else None
    renderer = _renderer(format, output)
    options = CheckOptions(
        expect=_expectations(expect or []),
        state=state,
        select=tuple(select or ()),
        ignore=tuple(ignore or ()),
        seed=seed,
        target=target,
        settings=settings,
    ).merged()
    request = Request(
        text=text_given(text, text_file),
        dtype=dtype,
        attention=attn,
        max_tokens=max_tokens,
        seed=seed,
        inputs=tuple(inputs or ()),
    )
    diagnosis = _diagnose(target, request, options)
    new = diagnosis.findings
    if known is not None:
        new = _baseline.new_findings(diagnosis.findings, known)
        said = _baseline.remark(str(baseline), diagnosis.findings, new)
        diagnosis = dataclasses.replace(diagnosis, remarks=(*diagnosis.remarks, said))
    _write(diagnosis, renderer, output, heads=heads)
    if any(finding.severity.reaches(bar) for finding in new):
        raise typer.Exit(1)


def _diagnose(target: str, request: Any, options: CheckOptions) -> Diagnosis:
    from rootdk.cli._progress import progress
    from rootdk.cli._targets import load

    with progress() as advance:
        advance(f"loading {target}")
        loaded = load(target, request)
        options = dataclasses.replace(options, progress=advance, second_inputs=loaded.second_inputs)
        diagnosis = _run(target, loaded, options)
    if not diagnosis.sites:
        raise TargetError(_no_attention(target, diagnosis))
    return dataclasses.replace(diagnosis, remarks=(*loaded.remarks, *diagnosis.remarks))


def _run(target: str, loaded: Loaded, options: CheckOptions) -> Diagnosis:
    from rootdk.check import check as run
    from rootdk.cli._failures import blamed_on

    with blamed_on(f"running {target}"):
        return run(loaded.model, *loaded.args, **{"rootdk": options, **loaded.kwargs})


def _no_attention(target: str, diagnosis: Diagnosis) -> str:
    said = {"attention": "found instead", "operation": "operations not understood"}
    kinds = {
        words: [u for u in diagnosis.unhandled if u.kind == kind][:3]
        for kind, words in said.items()
    }
    unknown = "".join(
        f"; {words}: {', '.join(f'{u.operation} ×{u.count}' for u in odd)}"
        for words, odd in kinds.items()
        if odd
    )
    return (
        f"{target}: {diagnosis.remarks[0]}; "
        f"expected a softmax over query-key products whose weights meet values{unknown}"
        f"{_returned_nothing(diagnosis)}"
    )


def _returned_nothing(diagnosis: Diagnosis) -> str:
    return "".join(f"; {said}" for said in diagnosis.remarks[1:] if "returned None" in said)


def _bar(name: str) -> str:
    from rootdk.check.settings import BARS, one_of

    return one_of(name, BARS, "--fail-on")


def _renderer(format: str | None, output: Path | None) -> Any:  # noqa: A002
    from rootdk import report

    if format is not None:
        return report.renderer_named(format)
    if output is not None and output.suffix:
        return report.renderer_for_suffix(output.suffix)
    return report.renderer_named("text")


def _expectations(pairs: list[str]) -> dict[str, str]:
    expectations = {}
    for pair in pairs:
        pattern, equals, scale = pair.partition("=")
        if not (pattern.strip() and equals and scale.strip()):
            raise ArgumentError.unexpected("--expect", pair, "GLOB=SCALE, such as '*=1/64'")
        expectations[pattern.strip()] = scale.strip()
    return expectations


def _write(diagnosis: Diagnosis, renderer: Any, output: Path | None, *, heads: bool) -> None:
    from rootdk.cli._terminal import colors, columns
    from rootdk.report import headline

    if output is None:
        shown = renderer.render(diagnosis, heads=heads, color=colors(), width=columns(_WIDEST))
        sys.stdout.write(shown)
        return
    try:
        output.write_text(renderer.render(diagnosis, heads=heads), encoding="utf-8")
    except OSError as error:
        raise ArgumentError(f"{output} cannot be written: {error}") from None
    typer.echo(f"{output}: {headline(diagnosis)}")
