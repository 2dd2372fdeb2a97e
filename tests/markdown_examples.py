"""Run the examples of a Markdown page as its reader would: top to bottom, in one folder.

====================  ==============================================================
```` ```python ````   is run, in one namespace for the page
```` ```pycon ````    is run as a doctest, in the same namespace
```` ```console ````  each line ``$ rootdk ...`` is run; what stands below it must come
                      out (``...`` matches anything). Other commands are not run.
====================  ==============================================================

A comment on the line before a block changes that:

=================================  ======================================================
``<!-- file: model.py -->``        the block is written to that file
``<!-- exit: 1 -->``               the commands in the block end with that status, not 0
``<!-- not run: the reason -->``   the block is left alone
=================================  ======================================================
"""

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

_BLOCK = re.compile(
    r"(?:^<!-- *(?P<directive>file|exit|not run): *(?P<argument>.*?) *-->\n)?"
    r"^```(?P<language>python|pycon|console)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, kw_only=True)
class Example:
    """One fenced block: its language, text, first line, and what the page says about it."""

    language: str
    code: str
    line: int
    directive: str | None = None
    argument: str | None = None


class ExampleFailed(AssertionError):
    """An example did not do what the page says."""


def examples(text: str) -> Iterator[Example]:
    """Yield the blocks of a page that can be run, in order."""
    for match in _BLOCK.finditer(text):
        yield Example(
            language=match["language"],
            code=match["code"],
            line=text.count("\n", 0, match.start("code")) + 1,
            directive=match["directive"],
            argument=match["argument"],
        )


def run_page(page: Path, folder: Path) -> int:
    """Run a page's examples, with ``folder`` as the working directory; say how many ran."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    ran = 0
    for example in examples(page.read_text(encoding="utf-8")):
        where = f"{page.name}:{example.line}"
        if example.directive == "not run":
            if not example.argument:
                raise ExampleFailed(f"{where}: not run, without a reason")
        elif example.directive == "file":
            (folder / str(example.argument)).write_text(example.code, encoding="utf-8")
        elif example.language == "python":
            _run_python(example, page, namespace)
            ran += 1
        elif example.language == "pycon":
            _run_session(example, where, namespace)
            ran += 1
        else:
            ran += _run_commands(example, where, folder)
    return ran


def _run_python(example: Example, page: Path, namespace: dict[str, Any]) -> None:
    # Empty lines above the code let a traceback name the line of the page.
    code = "\n" * (example.line - 1) + example.code
    exec(compile(code, str(page), "exec"), namespace)


def _run_session(example: Example, where: str, namespace: dict[str, Any]) -> None:
    test = doctest.DocTestParser().get_doctest(example.code, namespace, where, where, example.line)
    test.globs = namespace  # get_doctest copies; the next block needs what this one defines
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
    runner.run(test, out=report.append, clear_globs=False)
    if runner.failures:
        raise ExampleFailed("".join(report))


def _run_commands(example: Example, where: str, folder: Path) -> int:
    status = int(example.argument) if example.directive == "exit" and example.argument else 0
    commands = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", example.code, re.MULTILINE)
    ran = 0
    for command, expected in commands:
        program, *arguments = shlex.split(command, comments=True)
        if program == "rootdk":
            _run_rootdk(arguments, expected, status, f"{where}: {command}", folder)
            ran += 1
    return ran


def _run_rootdk(arguments: list[str], expected: str, status: int, where: str, folder: Path) -> None:
    process = subprocess.run(
        [Path(sys.executable).with_name("rootdk"), *arguments],
        cwd=folder,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode != status:
        raise ExampleFailed(
            f"{where}\nended with {process.returncode}; expected {status}\n"
            f"{process.stdout}{process.stderr}"
        )
    checker = doctest.OutputChecker()
    if expected.strip() and not checker.check_output(expected, process.stdout, OPTIONS):
        raise ExampleFailed(f"{where}\nexpected:\n{expected}\ngot:\n{process.stdout}")
