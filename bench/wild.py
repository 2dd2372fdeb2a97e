"""Check attention of other packages, unchanged, with random weights and random input.

    python bench/wild.py [--only GLOB] [--verbose]
    python bench/wild.py --table        # write docs/wild.md from what has run

A package that is not installed costs its cases, with the reason. Those that are wanted are the
first words of the cases' titles; ``pip install --no-deps`` in an environment of its own, with a
``.pth`` file that names the site-packages of this one, keeps torch and transformers as they are.
torchvision's compiled operators are declared by name where they do not load, so that packages which
only import it can be used.
Rows are kept in out/wild/rows.jsonl, in the format of ``bench/zoo.py``.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import os
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).parent.parent
FILES = ("torch_own", "x_transformers", "sequences", "vision", "further")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="*", metavar="GLOB")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    from wild import operators
    from wild.case import CASES
    from zoo.rows import Rows

    for file in FILES:
        importlib.import_module(f"wild.{file}")
    kept = Rows(ROOT / "out" / "wild" / "rows.jsonl")
    if options.table:
        from wild.table import write_table

        write_table([row for row in kept.all() if row["name"] in CASES], ROOT / "docs" / "wild.md")
        return
    operators.declare()
    import rootdk  # noqa: F401 - before the packages, whose imports may be slow

    chosen = [c for title, c in CASES.items() if fnmatch.fnmatch(title, options.only)]
    for case in chosen:
        made, diagnosis = row_of(case)
        kept.add(made)
        said = made.get("why") or ", ".join(
            f"{f[0]} {f[1]}" for f in made["eager"].get("findings", ()) if f[1] != "note"
        )
        found = made.get("eager", {})
        print(
            f"{case.title}: {made['status']} {found.get('resolved', '')}/{found.get('sites', '')} "
            f"{said}",
            flush=True,
        )
        if options.verbose and diagnosis is not None:
            from rootdk.records.render import render_record

            sys.stdout.write(render_record(diagnosis, "text") + "\n")


def row_of(case: Any) -> tuple[dict[str, Any], Any]:
    """Build one case, check it, and say what was found."""
    import torch
    from zoo.row import checked

    start = time.perf_counter()
    row: dict[str, Any] = {"name": case.title, "package": case.package, "status": "ran"}
    diagnosis = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        try:
            made = case.make()
            torch.manual_seed(0)
            with torch.no_grad():
                made.model(*made.args, **(made.kwargs or {}))
        except ImportError as error:
            row |= {"status": "not installed", "why": f"{type(error).__name__}: {error}"[:200]}
        except Exception as error:  # noqa: BLE001 - said in the row
            first = traceback.format_exception_only(error)[-1].strip()
            row |= {"status": "not built", "why": first[:200]}
        else:
            row["version"] = version(case.package)
            row["eager"], diagnosis = checked(made.model, made.kwargs or {}, made.args)
    return row | {"seconds": round(time.perf_counter() - start, 2)}, diagnosis


def version(package: str) -> str:
    """The version of a package, by the name that it is installed under."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


if __name__ == "__main__":
    main()
