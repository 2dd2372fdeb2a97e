"""Check every architecture of the installed transformers, small, random and on synthetic input.

    python bench/zoo.py [--only GLOB] [--limit N] [--jobs 2] [--timeout 90] [--again GLOB]
    python bench/zoo.py --only t5 --verbose      # the whole diagnosis of one
    python bench/zoo.py --table                  # write docs/zoo.md from what has run
    python bench/zoo.py --failures FILE          # what is not as it should be, by kind

Each architecture runs in a process of its own, with limits of time and memory, so that a crash or
a hang costs one row. Rows are kept in out/zoo/rows.jsonl; what is there is not run again unless
``--again`` asks for it.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

ROWS = Path(__file__).parent.parent / "out" / "zoo" / "rows.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="*", metavar="GLOB[,GLOB]")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=90, help="seconds an architecture")
    parser.add_argument("--memory", type=float, default=9, help="GiB an architecture")
    parser.add_argument("--again", default="", metavar="GLOB[,GLOB]|failed|stale|all")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--failures", type=Path, metavar="FILE")
    options = parser.parse_args()
    from zoo import rows

    kept = rows.Rows(ROWS)
    if options.verbose:
        verbose(options.only)
    elif options.table:
        from zoo.table import write_table

        write_table(kept.all(), Path(__file__).parent.parent / "docs" / "zoo.md")
    elif options.failures:
        from zoo.failures import failures

        options.failures.write_text(failures(kept.all()), encoding="utf-8")
    else:
        sweep(kept, options)


def sweep(kept: object, options: argparse.Namespace) -> None:
    from zoo import build, pool, rows

    rows.code_digest()
    wanted = [n for n in build.names() if matches(n, options.only)]
    if options.again == "all":
        todo = wanted
    elif options.again == "failed":
        todo = [n for n in wanted if kept.failed(n)]
    elif options.again == "stale":
        todo = [n for n in wanted if kept.stale(n)]
    else:
        todo = [n for n in wanted if not kept.has(n) or matches(n, options.again)]
    todo = todo[: options.limit]
    print(f"{len(todo)} of {len(wanted)} architectures to run", flush=True)
    pool.run(todo, kept.add, jobs=options.jobs, timeout=options.timeout, memory=options.memory)


def matches(name: str, globs: str) -> bool:
    return any(fnmatch.fnmatch(name, glob) for glob in globs.split(",") if glob)


def verbose(only: str) -> None:
    import json

    from zoo import build, row

    for name in build.names():
        if matches(name, only):
            made, diagnoses = row.make_row(name)
            for which, diagnosis in diagnoses.items():
                if diagnosis is not None:
                    sys.stdout.write(f"\n===== {name}, {which}\n")
                    from rootdk.records.render import render_record

                    sys.stdout.write(render_record(diagnosis, "text") + "\n")
                else:
                    sys.stdout.write(made[which]["traceback"])
            sys.stdout.write(json.dumps(made, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
