"""The table of a text report: one line a site."""

from __future__ import annotations

from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from rootdk.records import AttentionSite, Diagnosis, Finding
from rootdk.report._figures import (
    compact,
    finite,
    fraction,
    head_shape,
    head_values,
    middle,
    percent,
    short_names,
    site_room,
)

__all__ = ["SEVERITY_STYLES", "site_table"]

SEVERITY_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}
_LEGEND = (
    "scale: all constant factors before the softmax; ×√d: over 1/√head_dim. row spread: standard\n"
    "deviation of a row's scores; head with the least, median head, head with the most. entropy\n"
    "share: of log(visible keys); max weight: a row's largest; rows > 0.9: where that exceeds 0.9."
)


def site_table(diagnosis: Diagnosis, width: int) -> Iterator[RenderableType]:
    """Yield the table of sites, and what its columns mean."""
    names, pattern = short_names(diagnosis, site_room(width))
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("attention site")
    for header in (
        "heads\n×dim",
        "scale",
        "×√d",
        "row spread\n  min   med   max",
        "entropy\nshare",
        "max\nweight",
        "rows\n> 0.9",
    ):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("flag", no_wrap=True)
    for site in diagnosis.sites:
        table.add_row(names[site.name], *_cells(diagnosis, site), _flag(diagnosis, site))
    yield table
    if pattern:
        yield Text(f"sites are named {pattern}", style="dim")
    yield Text(_LEGEND, style="dim")


def _cells(diagnosis: Diagnosis, site: AttentionSite) -> list[str]:
    summary = diagnosis.summaries.get(site.name)
    spreads = head_values(summary, "row_spread")
    known = finite(spreads)
    ends = (min(known), middle(spreads), max(known)) if known else (None, middle(spreads), None)
    return [
        head_shape(site),
        compact(site.effective_scale, 4),
        compact(site.scale_ratio, 4),
        " ".join(f"{compact(value):>5}" for value in ends),
        fraction(middle(head_values(summary, "entropy_share"))),
        fraction(middle(head_values(summary, "max_weight"))),
        percent(middle(head_values(summary, "rows_over_90"))),
    ]


def _flag(diagnosis: Diagnosis, site: AttentionSite) -> Text:
    if not site.resolved:
        return Text("unresolved", style="magenta")
    found: list[Finding] = [f for f in diagnosis.findings if f.site == site.name]
    if not found:
        return Text("ok", style="green")
    worst = min(found, key=lambda finding: finding.severity.rank)
    codes = {finding.code for finding in found}
    more = f" +{len(codes) - 1}" if len(codes) > 1 else ""
    return Text(f"{worst.code}{more}", style=SEVERITY_STYLES[worst.severity])
