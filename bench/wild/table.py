"""The page docs/wild.md, from the rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from zoo.table import cell, gravest, table, unhandled, unresolved

from wild.remarks import remark

__all__ = ["write_table"]


def write_table(rows: list[dict[str, Any]], path: Path) -> None:
    """Write the page."""
    ran = [row for row in rows if row["status"] == "ran" and "sites" in row["eager"]]
    packages = sorted({row["package"] for row in ran})
    sites = sum(row["eager"]["sites"] for row in ran)
    resolved = sum(row["eager"]["resolved"] for row in ran)
    parts = [
        "# In the wild: attention of other packages\n\n",
        "Written by `python bench/wild.py --table`; do not edit.\n\n",
        "Models of other packages, unchanged, with random weights, each checked once.\n\n",
        f"- {len(ran)} models of {len(packages)} packages ran\n",
        f"- {sites} sites, {resolved} resolved and verified by numbers\n",
        "\n## Warnings and errors\n\n",
        gravest(ran, remark),
        "\n## Unresolved, with reasons\n\n",
        unresolved(ran),
        "\n## What is no softmax over query-key products, and operations not in the table\n\n",
        unhandled(ran),
        "\n## Models\n\n",
        _models(ran),
        "\n## Not run\n\n",
        table(
            "| model | why |",
            [f"| {r['name']} | {r['status']}: {cell(r.get('why', ''))} |" for r in rows
             if r["status"] != "ran"],
        ),
    ]  # fmt: skip
    path.write_text("".join(parts), encoding="utf-8")


def _models(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        part = row["eager"]
        scales = "; ".join(f"{s:.4g} ({r:.4g}, d {d}) × {n}" for s, r, d, n in part["scales"][:4])
        codes = Counter(f"{f[0]}{'' if f[1] == 'note' else ' ' + f[1]}" for f in part["findings"])
        found = ", ".join(f"{code} × {n}" for code, n in sorted(codes.items()))
        lines.append(
            f"| {row['name']} | {row['version']} | {part['resolved']}/{part['sites']} | {scales} | "
            f"{found} |"
        )
    return table(
        "| model | version | resolved/found | scale (ratio to 1/√head_dim, head_dim) × sites | "
        "findings |",
        lines,
    )
