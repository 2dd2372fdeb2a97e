"""The heads of a text report: those that stand out, or every one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from rootdk.records import Diagnosis
from rootdk.report._figures import (
    compact,
    finite,
    fraction,
    head_values,
    middle,
    percent,
    short_names,
    site_room,
)

__all__ = ["Head", "head_view", "outstanding"]

_TIMES = 3.0
_MOST = 8
_CELL = 7
_QUANTITIES: tuple[tuple[str, str, Callable[[float | None], str]], ...] = (
    ("spread", "standard deviation of all visible scores", compact),
    ("max_score", "largest score", compact),
    ("entropy_share", "entropy of a row over log(visible keys)", fraction),
    ("rows_over_90", "share of rows whose largest weight exceeds 0.9", percent),
)


@dataclass(frozen=True)
class Head:
    """One head of one site, by the spread of its scores."""

    site: str
    head: int
    spread: float


def outstanding(diagnosis: Diagnosis) -> tuple[Head, ...]:
    """Return the heads whose spread exceeds three times the median head's, widest first."""
    heads = _heads(diagnosis)
    typical = middle([head.spread for head in heads])
    if typical is None:
        return ()
    wide = [head for head in heads if head.spread > _TIMES * typical]
    return tuple(sorted(wide, key=lambda head: -head.spread))


def head_view(diagnosis: Diagnosis, width: int, every: bool) -> Iterator[RenderableType]:
    """Yield the heads that stand out, and with ``every`` tables of all heads."""
    known = finite(head.spread for head in _heads(diagnosis))
    if not known:
        return
    wide = outstanding(diagnosis)
    typical = compact(middle(known))
    yield Text()
    if wide:
        share = f"spread more than {_TIMES:g} × the median head's {typical}"
        yield Text(f"Heads that stand out ({share})", style="bold")
        yield _table(diagnosis, wide[:_MOST], width)
        if len(wide) > _MOST:
            yield Text(f"and {len(wide) - _MOST} more; --heads shows every head", style="dim")
    else:
        ends = f"{compact(min(known))} to {compact(max(known))}, median {typical}"
        yield Text(f"No head stands out: spreads from {ends}.")
    if every:
        for quantity in _QUANTITIES:
            yield from _matrix(diagnosis, quantity, {(h.site, h.head) for h in wide}, width)


def _heads(diagnosis: Diagnosis) -> list[Head]:
    return [
        Head(site.name, index, spread)
        for site in diagnosis.sites
        for index, spread in enumerate(head_values(diagnosis.summaries.get(site.name), "spread"))
    ]


def _table(diagnosis: Diagnosis, heads: tuple[Head, ...], width: int) -> Table:
    names, _ = short_names(diagnosis, site_room(width))
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("attention site")
    for header in (
        "head",
        "spread",
        "row\nspread",
        "scores\nmin … max",
        "entropy\nshare",
        "effective\nkeys",
        "max\nweight",
        "rows\n> 0.9",
        "first\nkey",
    ):
        table.add_column(header, justify="right", no_wrap=True)
    for head in heads:
        table.add_row(names[head.site], str(head.head), *_cells(diagnosis, head))
    return table


def _cells(diagnosis: Diagnosis, head: Head) -> list[str]:
    summary = diagnosis.summaries[head.site]

    def of(quantity: str) -> float | None:
        values = head_values(summary, quantity)
        return values[head.head] if values else None

    return [
        compact(head.spread),
        compact(of("row_spread")),
        f"{compact(of('min_score'))} … {compact(of('max_score'))}",
        fraction(of("entropy_share")),
        compact(of("effective_keys")),
        fraction(of("max_weight")),
        percent(of("rows_over_90")),
        fraction(of("first_key_weight")),
    ]


def _matrix(
    diagnosis: Diagnosis,
    quantity: tuple[str, str, Callable[[float | None], str]],
    marked: set[tuple[str, int]],
    width: int,
) -> Iterator[RenderableType]:
    """Yield one quantity as a table of sites by heads, as many heads a block as fit."""
    name, meaning, show = quantity
    names, _ = short_names(diagnosis, site_room(width))
    values = {s.name: head_values(diagnosis.summaries.get(s.name), name) for s in diagnosis.sites}
    most = max(map(len, values.values()), default=0)
    label = max((len(names[site]) for site in values), default=0)
    block = max(1, (width - label) // _CELL)
    star = "; * stands out" if marked else ""
    yield Text()
    yield Text(f"{name}: {meaning}{star}", style="bold")
    for start in range(0, most, block):
        heads = range(start, min(start + block, most))
        yield Text("head".rjust(label) + "".join(f"{h:>{_CELL - 1}} " for h in heads), style="dim")
        for site, row in values.items():
            line = Text(names[site].ljust(label))
            for head in heads[: len(row) - start] if len(row) > start else ():
                odd = (site, head) in marked
                cell = f"{show(row[head]):>{_CELL - 1}}{'*' if odd else ' '}"
                line.append(cell, style="bold red" if odd else "")
            yield line
