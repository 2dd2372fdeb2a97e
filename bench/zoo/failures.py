"""What is not as it should be, by kind: for whoever works on the tracer."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

_EXAMPLES = 2


def failures(rows: list[dict[str, Any]]) -> str:
    """A report in Markdown; each line gives two architectures, to be run with ``--verbose``."""
    lines = [
        f"# Zoo: what is open, {datetime.now(UTC):%H:%M:%S} UTC",
        "",
        "`HF_HUB_OFFLINE=1 python bench/zoo.py --only NAME --verbose` shows any of them whole.",
        "",
        *totals(rows),
    ]
    for title, found in (
        ("Crashed in rootdk", _crashes(rows)),
        ("Errors", _findings(rows, "error")),
        ("Warnings", _findings(rows, "warning")),
        ("Unresolved", _unresolved(rows)),
        ("Declared scale differs", _declared(rows)),
        ("Eager and sdpa differ", _disagreements(rows)),
        ("Attention modules that ran and hold no site", _without(rows)),
        ("Remarks", _remarks(rows)),
        ("Unhandled operations", _unhandled(rows)),
        ("Notes", _findings(rows, "note")),
        ("Not run", _not_run(rows)),
    ):
        lines += ["", f"## {title}", ""]
        grouped: dict[str, list[str]] = defaultdict(list)
        for kind, example in found:
            grouped[kind].append(example)
        for kind, examples in sorted(grouped.items(), key=lambda item: -len(item[1])):
            names = list(dict.fromkeys(examples))
            shown = names if title in {"Errors", "Not run", "Warnings"} else names[:_EXAMPLES]
            more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
            lines.append(f"- {len(examples)} × {kind}\n  - {'; '.join(shown[:12])}{more}")
        lines += [] if grouped else ["none"]
    return "\n".join(lines) + "\n"


def totals(rows: list[dict[str, Any]]) -> list[str]:
    """The figures of the sweep, one a line."""
    ran = [r for r in rows if r["status"] == "ran"]
    lines = [f"- {len(rows)} configuration types, {len(ran)} built and ran"]
    for which in ("eager", "sdpa"):
        parts = [p for _, p in _parts(ran, which)]
        figures = {
            key: sum(p.get(key, 0) for p in parts) for key in ("sites", "resolved", "verified")
        }
        agree = sum(p["declared"]["agree"] for p in parts)
        differ = sum(len(p["declared"]["differ"]) for p in parts)
        share = figures["resolved"] / max(figures["sites"], 1)
        lines.append(
            f"- {which}: {len(parts)} models, {figures['sites']} sites, {figures['resolved']} "
            f"resolved ({share:.2%}), {figures['verified']} verified by numbers; declared scale: "
            f"{agree} agree, {differ} differ"
        )
    both = [r["agreement"] for r in ran if r.get("agreement")]
    same = sum(not a["scale"] for a in both)
    alike = sum(not a["statistics"] for a in both)
    lines.append(
        f"- eager and sdpa: {same} of {len(both)} agree on every scale, {alike} on every statistic"
    )
    seconds = sum(r.get("seconds", 0) for r in rows)
    lines.append(f"- {seconds / 60:.1f} minutes of one process")
    return lines


def _parts(
    rows: list[dict[str, Any]], only: str | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    for row in rows:
        for which in ("eager", "sdpa"):
            part = row.get(which)
            if part and "sites" in part and only in {None, which}:
                yield f"{row['name']} ({which})", part


def _crashes(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for row in rows:
        for which in ("eager", "sdpa"):
            part = row.get(which) or {}
            if "crashed" in part:
                frames = re.findall(r'rootdk/(\S+)", line (\d+), in (\w+)', part["traceback"])
                at = " > ".join(f"{f}:{n} {w}" for f, n, w in frames[-3:])
                yield f"{part['crashed']} at {at}", f"{row['name']} ({which})"
            elif "not_built" in part:
                yield f"sdpa not built: {part['not_built']}", row["name"]


def _findings(rows: list[dict[str, Any]], severity: str) -> Iterator[tuple[str, str]]:
    for name, part in _parts(rows):
        seen = set()
        for code, how, site, message, excuse, source in part["findings"]:
            if how != severity:
                continue
            text = _blurred(excuse) if severity == "note" and excuse else _blurred(message)
            kind = f"{code}: {text}"
            if kind not in seen:
                seen.add(kind)
                more = "" if severity == "note" else f" e.g. “{message[:260]}”"
                yield kind, f"`{name}` {site} at {source}{more}"


def _unresolved(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for name, part in _parts(rows):
        for site, spelling, source, why in part["unresolved"]:
            yield _blurred(why), f"`{name}` {site} [{spelling}] at {source}: {why[:160]}"


def _declared(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for name, part in _parts(rows):
        differ = part["declared"]["differ"]
        for site, stated, traced in differ[:1]:
            yield f"{stated} stated, {traced:.6g} traced", f"`{name}` {site} ({len(differ)} sites)"


def _disagreements(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for row in rows:
        agreement = row.get("agreement") or {}
        gap = agreement.get("outputs")
        told = "outputs not compared" if gap is None else f"outputs differ by {gap:.0e}"
        told += "" if agreement.get("weights", True) else ", weights differ (not initialised)"
        real = "; so do the outputs" if gap is not None and gap > 1e-3 else ""
        for site, one, two, terms in agreement.get("scale", ())[:1]:
            yield f"scale {one:.5g} and {two:.5g}", f"`{row['name']}` {site}, {terms} terms, {told}"
        for site, what, one, two in agreement.get("statistics", ())[:1]:
            yield f"statistic{real}", f"`{row['name']}` {site} {what} {one} and {two}, {told}"
        only = agreement.get("only_eager", 0), agreement.get("only_sdpa", 0)
        if any(only):
            yield f"sites only in eager {only[0]}, only in sdpa {only[1]}", f"`{row['name']}`"


def _without(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for name, part in _parts(rows):
        for entry in part["without_site"]:
            path, _, kind = entry.partition(":")
            yield kind, f"`{name}` {path}"


def _remarks(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for name, part in _parts(rows):
        for remark in part["remarks"]:
            yield _blurred(remark), f"`{name}`: {remark[:200]}"


def _unhandled(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for name, part in _parts(rows, "eager"):
        for operation, count, where, *_why in part["unhandled"]:
            yield operation, f"`{name}` {count} × in {where}"


def _not_run(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for row in rows:
        if row["status"] != "ran":
            yield row["status"], f"{row['name']}: {row.get('why', '')[:150]}"


def _blurred(text: str) -> str:
    text = re.sub(r"'[^']*'|`[^`]*`", "'…'", text or "")
    return re.sub(r"-?\d+(\.\d+)?(e[-+]?\d+)?", "#", text)[:200]
