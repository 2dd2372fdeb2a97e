"""Prints the fault table: fault × spelling × initialisation → code and line.

From the repository's root::

    PYTHONPATH=src:tests python -m faults.table [--width 64]
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from faults.registry import FAULTS, SOUND, Fault
from faults.transformer import INITS, SIZES, build

import rootdk


def cell(fault: Fault, init: str, width: int) -> str:
    """The codes of one check and the lines they name, with a mark where that is not right."""
    model, tokens = build(fault.attention, init=init, size=SIZES[width], seed=0)
    diagnosis = rootdk.check(model, tokens)
    found = [finding for finding in diagnosis.findings if finding.severity.reaches("warning")]
    codes = sorted({finding.code for finding in found})
    frames = {f.source.frames[0] for f in found if f.source is not None and f.source.frames}
    lines = sorted(frame.line for frame in frames)
    right = (
        codes == ([] if fault.code is None else [fault.code])
        and (not fault.lines or {(frame.file, frame.line) for frame in frames} <= fault.lines)
        and not diagnosis.unresolved
    )
    where = ":" + ",".join(map(str, lines)) if lines else ""
    unresolved = f" {len(diagnosis.unresolved)} unresolved" if diagnosis.unresolved else ""
    return f"{' '.join(codes) or '–'}{where}{unresolved}{'' if right else ' ✗'}"


def rows(width: int) -> Iterator[str]:
    """The lines of a Markdown table."""
    yield f"| fault | spelling | guilty line | {' | '.join(INITS)} |"
    yield "|" + "---|" * (3 + len(INITS))
    for fault in FAULTS + SOUND:
        file = Path(fault.module.__file__ or "").name
        guilty = ", ".join(f"{file}:{line}" for _, line in sorted(fault.lines)) or "–"
        cells = " | ".join(cell(fault, init, width) for init in INITS)
        name = f"{fault.title} ({fault.code})" if fault.code else fault.title
        yield f"| {name} | {fault.spelling} | {guilty} | {cells} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Print the fault table in Markdown.")
    parser.add_argument("--width", type=int, choices=SIZES, default=64)
    for row in rows(parser.parse_args().width):
        print(row, flush=True)


if __name__ == "__main__":
    main()
