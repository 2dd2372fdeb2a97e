"""Write the pages on rules, quantities and errors from docstrings, that on the lab by running it.

``python docs/generate.py`` writes them, ``--check`` only says what is out of date (and
ends with 1). Each folder of pages is generated whole: a page whose rule or quantity is
gone is removed.
"""

import argparse
import inspect
import re
import runpy
import sys
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import get_args

from rootdk._lib import errors
from rootdk.rules import RESERVED, Rule, all_rules
from rootdk.stats.quantity import Quantity, Stage, quantities

HERE = Path(__file__).resolve().parent
NOTICE = (
    "<!-- Written by docs/generate.py from a docstring: edit that, then run `make docs`. -->\n\n"
)
RULE_HEAD = ("code", "name", "severity", "what it finds")
RESERVED_HEAD = "## Reserved\n\nNo rule of this version has these codes yet.\n\n"
STAGES = get_args(Stage)
SCORES = ("scaled", "biased")
BOUNDS = {"lower": "below", "upper": "above"}

Pages = dict[str, str]
"""The text of each page by its path below docs/."""


def pages(*, draw: bool = True) -> Pages:
    """Every generated page, as the docstrings have it now."""
    return {**rule_pages(), **quantity_pages(), **error_pages(), **lab_pages(draw=draw)}


def lab_pages(*, draw: bool) -> Pages:
    """The page on the lab and its figures, drawn or only to compare with; see gallery.py."""
    made: Pages = runpy.run_path(str(HERE / "gallery.py"))["pages"](draw=draw)
    return made


def rule_pages() -> Pages:
    """One page a rule, and an index with a table for each family."""
    rules = all_rules()
    made = {f"rules/{rule.code}.md": rule_page(rule) for rule in rules}
    index = [NOTICE + "# Rules\n\nA code is for ever; a name says the fault.\n"]
    for family, members in groupby(rules, key=lambda rule: rule.family):
        rows = [
            (
                f"[{rule.code}]({rule.code}.md)",
                rule.name,
                listed(rule.severities),
                markdown(rule.page.summary),
            )
            for rule in members
        ]
        index.append(f"## {family.capitalize()}\n\n" + table(RULE_HEAD, rows))
    if RESERVED:
        index.append(RESERVED_HEAD + table(("code", "name"), RESERVED.items()))
    return {**made, "rules/index.md": "\n".join(index)}


def rule_page(rule: Rule) -> str:
    """The page of one rule: its docstring under a title."""
    facts = f"{rule.family} · {listed(rule.severities)} · since {rule.since}"
    return f"{NOTICE}# {rule.code} {rule.name}\n\n{facts}\n\n{markdown(rule.page.text)}\n"


def quantity_pages() -> Pages:
    """One page a quantity, and an index with a table for each stage."""
    members = sorted(
        quantities().values(), key=lambda member: (STAGES.index(member.stage), member.name)
    )
    made = {f"quantities/{member.name}.md": quantity_page(member) for member in members}
    index = [NOTICE + "# Quantities\n\nEach is measured per head; all of them merge.\n"]
    for stage, group in groupby(members, key=lambda member: member.stage):
        rows = [
            (f"[{member.name}]({member.name}.md)", member.unit, summary_of(member))
            for member in group
        ]
        index.append(f"## {stage.capitalize()}\n\n" + table(("name", "unit", "what it is"), rows))
    return {**made, "quantities/index.md": "\n".join(index)}


def quantity_page(member: Quantity) -> str:
    """The page of one quantity: what it is made of, then its docstring."""
    rows = [
        ("unit", member.unit),
        ("measured at", f"{member.stage} scores" if member.stage in SCORES else member.stage),
        ("one head has", member.per_head),
        ("made from", listed(f"`{name}`" for name in member.parameters)),
    ]
    if member.bound_when_sampled:
        rows.append(("on sampled rows", f"a bound from {BOUNDS[member.bound_when_sampled]}"))
    text = described(member.doc)
    return f"{NOTICE}# {member.name}\n\n{table(('', ''), rows)}\n{markdown(text)}\n"


def error_pages() -> Pages:
    """One page on all errors; each has the anchor that its class names."""
    parts = [NOTICE + "# Errors\n\nAll are a `RootdkError`; each has an anchor that stays.\n"]
    kinds = (kind for kind in vars(errors).values() if inspect.isclass(kind))
    for kind in kinds:
        if issubclass(kind, errors.RootdkError):
            builtin = [base.__name__ for base in kind.__bases__ if base.__module__ == "builtins"]
            caught = "".join(f"\n\nAlso caught as `{n}`." for n in builtin if n != "Exception")
            # The examples of a docstring run where its module is at hand, and stay there.
            said = inspect.cleandoc(kind.__doc__ or "").partition("\nExamples\n")[0].rstrip()
            text = markdown(said).replace("\n## ", "\n### ")
            parts.append(f'<a id="{kind.anchor}"></a>\n\n## {kind.__name__}\n\n{text}{caught}\n')
    return {"errors/index.md": "\n".join(parts)}


def summary_of(member: Quantity) -> str:
    """What a quantity is, in one sentence."""
    return first_sentence(described(member.doc))


def described(docstring: str) -> str:
    """A formula's docstring as a description: what it returns is what the quantity is."""
    text = re.sub(r"^Return (.)", lambda match: match[1].upper(), docstring)
    return re.sub(r"^Returns\n-+\n(.+)\n((?:    .*(?:\n|$))+)", _value, text, flags=re.MULTILINE)


def _value(match: re.Match[str]) -> str:
    return f"Value\n-----\nAn {match[1]}. {inspect.cleandoc(match[2])}\n"


def listed(words: Iterable[object]) -> str:
    """Words with commas between them."""
    return ", ".join(str(word) for word in words)


# ------------------------------------------------------------------ docstrings


def markdown(docstring: str) -> str:
    """Turn a numpydoc docstring into Markdown: headings, examples, literals, formulas."""
    text = inspect.cleandoc(docstring)
    text = re.sub(r"^(\S.*)\n[-=]{3,}$", r"## \1\n", text, flags=re.MULTILINE)
    text = re.sub(r"^\.\. math::(.*\n(?:\n|[ ]+.*(?:\n|$))*)", _formula, text, flags=re.MULTILINE)
    text = re.sub(r":math:`([^`]+)`", r"$\1$", text)
    text = re.sub(r"::\n\n((?:[ ]{4}.*(?:\n|$)|\n)+)", _literal, text)
    text = re.sub(r"^>>> (?:.+\n?)+", _session, text, flags=re.MULTILINE)
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text)
    text = re.sub(r"(?<!`)``(?!`)([^`]+)``(?!`)", r"`\1`", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _formula(match: re.Match[str]) -> str:
    return f"```math\n{inspect.cleandoc(match[1]).strip()}\n```\n\n"


def _literal(match: re.Match[str]) -> str:
    return f":\n\n```text\n{inspect.cleandoc(match[1])}\n```\n\n"


def _session(match: re.Match[str]) -> str:
    return f"```pycon\n{match[0].rstrip()}\n```\n"


def first_sentence(docstring: str) -> str:
    """The first sentence, on one line, as Markdown."""
    return markdown(re.split(r"\n\s*\n", inspect.cleandoc(docstring))[0]).replace("\n", " ")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; a bar inside a cell is escaped."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    cells = ([cell.replace("|", r"\|") for cell in line] for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


# ------------------------------------------------------------------ files


def differences(expected: Pages, root: Path) -> list[str]:
    """What in the generated folders below ``root`` is not as expected, by path."""
    found = []
    for name in sorted(expected.keys() | existing(expected, root)):
        file = root / name
        if name not in expected:
            found.append(f"{name} has no source")
        elif not file.exists():
            found.append(f"{name} is missing")
        elif not same(file.read_text(encoding="utf-8"), expected[name]):
            found.append(f"{name} is out of date")
    return found


def same(text: str, expected: str) -> bool:
    """Tell whether two pages, or two figures with a digest at their end, are the same."""
    digests = [re.findall(r"<!-- digest: \w+ -->\n\Z", one) for one in (text, expected)]
    return text == expected or (digests[0] == digests[1] != [])


def write(expected: Pages, root: Path) -> None:
    """Make the generated folders below ``root`` hold the expected pages and no others."""
    for name in existing(expected, root) - expected.keys():
        (root / name).unlink()
    for name, text in expected.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() and same(file.read_text(encoding="utf-8"), text):
            continue
        file.write_text(text, encoding="utf-8")


def existing(expected: Pages, root: Path) -> set[str]:
    """The pages and figures that are in the folders below ``root`` that ``expected`` names."""
    folders = {(root / name).parent for name in expected} - {root}
    files = (file for folder in folders for file in folder.glob("*"))
    return {file.relative_to(root).as_posix() for file in files if file.suffix in {".md", ".svg"}}


def main() -> int:
    """Write the pages, or say what is out of date."""
    parser = argparse.ArgumentParser(description=inspect.cleandoc(__doc__ or ""))
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 if stale")
    if not parser.parse_args().check:
        write(pages(), HERE)
        return 0
    stale = differences(pages(draw=False), HERE)
    for line in stale:
        print(f"docs/{line}")
    print("run `make docs`" if stale else "generated pages are up to date")
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
