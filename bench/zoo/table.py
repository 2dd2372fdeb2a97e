"""docs/zoo.md: the rows as a page, with every warning and every site that is not resolved."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zoo.failures import totals
from zoo.remarks import remark

_HEAD = """# The zoo: every architecture of transformers

Written by `python bench/zoo.py --table`; do not edit. Each architecture of transformers
{transformers} (torch {torch}) that could be built from a small random configuration and fed
synthetic input ran once under `rootdk.check`, with eager attention and, where it has it, with
sdpa. Head counts and widths are divided by one number, so that the width of a head is the
default's; there are two layers, or one of each kind.

"""


def write_table(rows: list[dict[str, Any]], path: Path) -> None:
    """Write the page."""
    import torch
    import transformers

    ran = [r for r in rows if r["status"] == "ran"]
    codes = Counter(r.get("code") for r in rows)
    parts = [
        _HEAD.format(transformers=transformers.__version__, torch=torch.__version__),
        *[f"{line}\n" for line in totals(rows)],
        f"- {max(codes.values(), default=0)} of {len(rows)} rows by one state of the source\n",
        "\n## Findings by code\n\n",
        _findings_by_code(ran),
        "\n## Warnings and errors, each with its line\n\n",
        gravest(ran),
        "\n## Unresolved, with reasons\n\n",
        unresolved(ran),
        "\n## Attention that is no softmax over query-key products, or was not seen\n\n",
        "Modules called attention that ran and hold no site.\n\n",
        _without(ran),
        "\n## Declared scale that differs from the traced one\n\n",
        _declared(ran),
        "\n## Eager and sdpa\n\n",
        _agreement(ran),
        "\n## Operations not in the tracer's table\n\n",
        unhandled(ran),
        "\n## Architectures\n\n",
        _architectures(ran),
        "\n## Not run\n\n",
        _not_run(rows),
    ]
    path.write_text("".join(parts), encoding="utf-8")


def _both(row: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(w, row[w]) for w in ("eager", "sdpa") if row.get(w) and "sites" in row[w]]


def table(head: str, lines: list[str]) -> str:
    columns = head.count("|") - 1
    return "\n".join([head, "|" + "---|" * columns, *lines]) + "\n" if lines else "none\n"


def _findings_by_code(rows: list[dict[str, Any]]) -> str:
    sites: Counter[tuple[str, str, str]] = Counter()
    models: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for row in rows:
        for _, part in _both(row):
            for code, severity, _site, _message, excuse, _source in part["findings"]:
                key = code, severity, _blurred(excuse or "")
                sites[key] += 1
                models[key].add(row["name"])
    return table(
        "| code | severity | sites | architectures | why it is only a note | examples |",
        [
            f"| {c} | {s} | {n} | {len(models[c, s, e])} | {cell(e)} | "
            f"{', '.join(sorted(models[c, s, e])[:4])} |"
            for (c, s, e), n in sorted(sites.items())
        ],
    )


def gravest(rows: list[dict[str, Any]], said_of: Callable[[str, str], str] = remark) -> str:
    """What is no note, with what a person read in the source of it."""
    lines: list[str] = []
    for row in rows:
        seen: dict[tuple[str, str], list[Any]] = {}
        for which, part in _both(row):
            for code, severity, site, message, _excuse, source in part["findings"]:
                if severity != "note":
                    key = code, re.sub(r"[\d.]+", "#", message)
                    seen.setdefault(key, [severity, site, message, source, which, 0])[-1] += 1
        lines += [
            f"| {row['name']} | {code} {severity} | {count} × {which}: `{site}` | {source} | "
            f"{cell(message)} | {said_of(row['name'], source)} |"
            for (code, _), (severity, site, message, source, which, count) in seen.items()
        ]
    return table(
        "| architecture | finding | first site | line | message | why, read in the source |", lines
    )


def unresolved(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        for which, part in _both(row):
            reasons = Counter(_blurred(w) for *_, w in part["unresolved"])
            first = {_blurred(w): (s, line) for s, _, line, w in reversed(part["unresolved"])}
            lines += [
                f"| {row['name']} ({which}) | {n} of {part['sites']} | `{first[why][0]}` | "
                f"{first[why][1]} | {cell(why)} |"
                for why, n in reasons.items()
            ]
    return table("| architecture | sites | first site | line | reason |", lines)


def _without(rows: list[dict[str, Any]]) -> str:
    models: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        for _, part in _both(row):
            for entry in part["without_site"]:
                models[entry.partition(":")[2]].add(row["name"])
    return table(
        "| module | architectures |",
        [f"| {kind} | {', '.join(sorted(names))} |" for kind, names in sorted(models.items())],
    )


def _declared(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        for which, part in _both(row):
            for site, stated, traced in part["declared"]["differ"][:1]:
                said = ", ".join(f"{k} = {v:.6g}" for k, v in stated.items())
                count = len(part["declared"]["differ"])
                lines.append(
                    f"| {row['name']} ({which}) | {count} | `{site}` | {said} | {traced:.6g} |"
                )
    return table("| architecture | sites | first site | module says | traced |", lines)


def _agreement(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        told = row.get("agreement") or {}
        gap = told.get("outputs")
        same = told.get("weights", True)
        outputs = "not compared" if gap is None else f"differ by {gap:.0e} of the largest"
        outputs += "" if same else "; the two builds hold different weights"
        for site, one, two, *_ in told.get("scale", ())[:1]:
            lines.append(
                f"| {row['name']} | `{site}` | scale | {one:.4g} | {two:.4g} | {outputs} |"
            )
        for site, what, one, two in told.get("statistics", ())[:1]:
            first, second = (", ".join(f"{v:.3g}" for v in values) for values in (one, two))
            lines.append(f"| {row['name']} | `{site}` | {what} | {first} | {second} | {outputs} |")
        only = told.get("only_eager", 0), told.get("only_sdpa", 0)
        if any(only):
            lines.append(f"| {row['name']} | | sites in one only | {only[0]} | {only[1]} | |")
    return table("| architecture | first site | what | eager | sdpa | outputs |", lines)


def unhandled(rows: list[dict[str, Any]]) -> str:
    models: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        for _, part in _both(row):
            for operation, _count, _where, *why in part["unhandled"]:
                said = "".join(f": {w}" for w in why if w and "table of operations" not in w)
                models[operation + said].add(row["name"])
    return table(
        "| operation | architectures | examples |",
        [
            f"| {cell(op)} | {len(n)} | {', '.join(sorted(n)[:5])} |"
            for op, n in sorted(models.items())
        ],
    )


def _architectures(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        eager, sdpa = row["eager"], row.get("sdpa") or {}
        if "sites" not in eager:
            lines.append(f"| {row['name']} | | | crashed | | | {row['seconds']:.1f} |")
            continue
        scales = "; ".join(
            f"{scale:.4g} ({ratio:.4g}, d {width}) × {count}"
            for scale, ratio, width, count in eager["scales"][:4]
        )
        scales += "; …" if len(eager["scales"]) > 4 else ""
        codes = Counter(f"{f[0]}{'' if f[1] == 'note' else ' ' + f[1]}" for f in eager["findings"])
        found = ", ".join(f"{code} × {n}" for code, n in sorted(codes.items()))
        sites = f"{eager['resolved']}/{eager['sites']}"
        both = f"{sdpa['resolved']}/{sdpa['sites']}" if "sites" in sdpa else "–"
        agree = f"{eager['declared']['agree']}/{len(eager['declared']['differ'])}"
        lines.append(
            f"| {row['name']} | {sites} | {both} | {scales} | {agree} | {found} | "
            f"{row['seconds']:.1f} |"
        )
    return table(
        "| architecture | eager resolved/found | sdpa | scale (ratio to 1/√head_dim, head_dim) × "
        "sites | declared agree/differ | findings | seconds |",
        lines,
    )


def _not_run(rows: list[dict[str, Any]]) -> str:
    groups: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row["status"] != "ran":
            groups[row["status"]].append(f"| {row['name']} | {cell(row.get('why', '')[:160])} |")
    return "\n".join(
        f"### {kind} ({len(lines)})\n\n" + table("| configuration type | why |", lines)
        for kind, lines in sorted(groups.items())
    )


def _blurred(text: str) -> str:
    text = re.sub(r" at \S+:\d+", "", text)
    return re.sub(r"(?<![\w/])-?\d+(\.\d+)?(e[-+]?\d+)?", "#", text)


def cell(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ").replace("<", "&lt;")
