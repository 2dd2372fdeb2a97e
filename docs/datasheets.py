"""Write the datasheets of the libraries' own attention functions, as measured here and now.

``python docs/datasheets.py`` writes them all, ``--check`` says which are out of date (and ends
with 1), names after it choose some. A function whose library is not installed is left alone.
"""

import argparse
import os
import re
import sys
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "torch")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from rootdk._lib.errors import MissingExtraError
from rootdk.identify import identify, named_targets

FOLDER = Path(__file__).resolve().parent / "datasheets"
REFERENCE = "rootdk.attention"
NOT_HERE = {
    "torch.sdpa.efficient": "no such backend on a CPU",
    "torch.sdpa.cudnn": "no such backend on a CPU",
}
"""Targets that this kind of machine cannot call."""


def names() -> list[str]:
    """Every function that has a datasheet."""
    return [REFERENCE, *sorted(name for name in named_targets() if name not in NOT_HERE)]


def page(name: str) -> str | None:
    """The datasheet of a function as Markdown, None if its library is not installed."""
    try:
        if name == REFERENCE:
            import rootdk

            function = rootdk.attention
        else:
            function = named_targets()[name]()
    except MissingExtraError:
        return None
    sheet = identify(function, name=name)
    from rootdk.report import renderer_named

    return renderer_named("markdown").render(sheet)


def comparable(text: str) -> str:
    """A datasheet without what changes from machine to machine: versions."""
    return re.sub(r"^Layout .*$", "", text, flags=re.MULTILINE)


def index(written: list[str]) -> str:
    """The page that lists the datasheets."""
    rows = [f"- [{name}]({name}.md)" for name in written]
    left_out = [f"- {name}: {why}" for name, why in NOT_HERE.items()]
    return "\n".join(
        [
            "# Datasheets",
            "",
            "What the attention functions of libraries compute, as `rootdk identify` measured it.",
            "`python docs/datasheets.py` writes these pages anew.",
            "",
            *rows,
            "",
            "Not here:",
            "",
            *left_out,
            "",
        ]
    )


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only these functions")
    parser.add_argument("--check", action="store_true", help="write nothing")
    given = parser.parse_args()
    stale = []
    FOLDER.mkdir(exist_ok=True)
    for name in given.names or names():
        made, path = page(name), FOLDER / f"{name}.md"
        if made is None:
            print(f"{name}: its library is not installed")
            continue
        same = path.exists() and comparable(path.read_text("utf-8")) == comparable(made)
        if not same:
            stale.append(name)
            if not given.check:
                path.write_text(made, encoding="utf-8")
        print(f"{name}: {'as it was' if same else 'stale' if given.check else 'written'}")
    if not given.check:
        there = [name for name in names() if (FOLDER / f"{name}.md").exists()]
        (FOLDER / "index.md").write_text(index(there), encoding="utf-8")
    return 1 if given.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
