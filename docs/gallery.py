"""The page on the lab, and its figures, from the experiments themselves.

Experiments that take longer than a few seconds are described and not run. What is measured by a
clock is left out, so that the page is the same whoever makes it.

A figure is not drawn anew to see whether it is up to date: it carries a digest of the data that it
shows and of the code that drew it, which does not depend on the version of Matplotlib.
"""

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import rootdk.plots
from rootdk import lab
from rootdk.lab._text import cell

NOTICE = (
    "<!-- Written by docs/generate.py from the experiments: edit those, then run `make docs`. -->"
)
MOST_ROWS = 24
MOST_COLUMNS = 7
TINY = 1e-6
DIGEST = "<!-- digest: {} -->\n"

INTRODUCTION = """\
# The lab

Why is there a square root in softmax(QKᵀ/√d)V, and what happens without it? Each experiment below
is a question, a table, a figure and an answer in one sentence.

A *score* is the product of a query with a key: a sum of `head_dim` (d) products of entries. A row
of scores, one for each key, goes through softmax and becomes *weights* that sum to 1. If entries
are independent and of size 1, each product adds 1 to the variance of the score, so its standard
deviation, the *spread*, is √d: dividing by √d makes it 1 at any width. What a spread of √d does to
the weights, and to the gradient that has to pass through them, is what the experiments show. For a
first look, read four-key-row, width-sweep and gradient; then run and change them:

```console
$ rootdk lab run two-key-row
two-key-row · replay · How does the gap between two scores decide weights and gradient?
...
The wider the gap, the less moves: ...
```

`rootdk lab list` shows them all, `rootdk lab list width-sweep` one with its parameters and columns.
With `--out DIR` an experiment leaves its table (CSV), its settings (JSON) and its figure (SVG, PNG)
there. The tables here show about four figures of each number; the files have all of them.

Three ways to an answer, where they exist:

- `--method replay` draws every entry from a documented generator, seed and order: published digits
  come out as they were printed.
- `--method sample` draws from the same distribution the cheap way. Given a query, the scores of
  normal keys are normal themselves, so no key has to be drawn.
- `--method exact` draws nothing: it counts, or integrates.

Parameters are given by name. What if the entries were ±1, and the scores divided by d^0.25?

```console
$ rootdk lab run width-sweep --param distribution=rademacher --param scale=d^-0.25
width-sweep · replay · What does the width of a head do to its scores and weights?
...
```

The same from Python, with a pandas frame and a Matplotlib figure:

```pycon
>>> from rootdk import lab
>>> result = lab.variance_exact(method="exact", widths=(64, 1024))
>>> result.table["variance_raw"]
(64.0, 1024.0)
>>> result.settings["parameters"]["values"]
('-1', '1')
```

`result.frame` is the table in pandas, `result.figure()` the figure, `result.save("out")` writes the
four files. Figures and frames need the extra `lab`; experiments on layers need `torch`.
"""

Pages = dict[str, str]


def pages(*, draw: bool) -> Pages:
    """The page, and a figure for each experiment that is run for it; undrawn, its digest alone."""
    made: Pages = {}
    parts = [f"{NOTICE}\n\n{INTRODUCTION}"]
    for kind in lab.all_experiments():
        parts.append(f"## {kind.name}\n\n{text_of(kind)}\n")
        if kind.slow:
            parts.append(
                f"**{kind.question}** It takes longer than this page can wait: "
                f"`rootdk lab run {kind.name}`.\n"
            )
            continue
        result = lab.run(kind.name, **({"repeats": 1} if "repeats" in kind.parameters() else {}))
        table = result.table.without(kind.timed)
        sketch = kind(**result.settings["parameters"]).sketch(table)
        drawn = figure(sketch) if draw else ""
        made[f"lab/{kind.name}.svg"] = drawn + DIGEST.format(digest(sketch))
        parts.append(
            f"![{kind.question}](lab/{kind.name}.svg)\n\n{markdown_table(table)}\n"
            f"**{kind.question}** {result.answer}\n{side_by_side(kind, result.method, table)}"
        )
    return {"lab.md": "\n".join(parts), **made}


def side_by_side(kind: type[lab.Experiment], shown: str, table: lab.Table) -> str:
    """What the other methods give beside the one that is shown; nothing if there are none."""
    others = [method for method in kind.methods() if method != shown]
    tables = {shown: table, **{m: lab.run(kind.name, method=m).table for m in others}}
    same = [method for method in others if tables[method] == table]
    said = "".join(f"\n`{shown}` and `{method}` give the same table.\n" for method in same)
    if len(same) == len(others):
        return said
    key, *columns = [name for name in table.columns if all(name in t for t in tables.values())]
    if any(one[key] != table[key] for one in tables.values()):
        return said
    rows = [
        {key: row[key], "method": method, **{column: row[column] for column in columns}}
        for group in zip(*tables.values(), strict=True)
        for method, row in zip(tables, group, strict=True)
    ]
    head = f"\nThe methods side by side, by {key}:\n\n"
    return said + head + markdown_table(lab.Table.of(rows))


def text_of(kind: type[lab.Experiment]) -> str:
    """What an experiment says of itself, as Markdown."""
    return " ".join((kind.__doc__ or "").split()).replace("``", "`")


def figure(sketch: lab.Sketch) -> str:
    """The figure as SVG."""
    text = io.StringIO()
    rootdk.plots.write(rootdk.plots.draw(sketch), text)
    return text.getvalue()


def digest(sketch: lab.Sketch) -> str:
    """What a figure depends on: its data, to six figures, and the code that draws."""
    folder = Path(rootdk.plots.__file__).parent
    sources = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py")))
    content = sources + repr(list(_rounded(vars(sketch))))
    return hashlib.sha256(content.encode()).hexdigest()


def _rounded(value: Any) -> Iterator[str]:
    """Every leaf of a sketch as text."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from _rounded(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _rounded(item)
    elif hasattr(value, "__dataclass_fields__"):
        yield type(value).__name__
        yield from _rounded(vars(value))
    else:
        yield f"{value:.6g}" if isinstance(value, float) else str(value)


def markdown_table(table: lab.Table) -> str:
    """The table, on its side if it has more columns than a page is wide."""
    rows = [
        [shown(name, value) for name, value in zip(table.columns, row, strict=True)]
        for row in table.rows[:MOST_ROWS]
    ]
    lines = [list(table.columns), *rows]
    if len(table.columns) > MOST_COLUMNS and len(rows) < MOST_COLUMNS:
        lines = [list(line) for line in zip(*lines, strict=True)]
    lines.insert(1, ["---"] * len(lines[0]))
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    left = len(table) - len(rows)
    return text + (f"\nand {left} more rows.\n" if left > 0 else "")


def shown(column: str, value: Any) -> str:
    """A cell; of a tiny bound of an error only that it is tiny: its digits are the machine's."""
    tiny = column == "largest_error" and value is not None and value < TINY
    return f"< {TINY:g}" if tiny else cell(value)
