"""One diagnosis in one line, in words that are true of it."""

from __future__ import annotations

from collections import Counter

from rootdk.records import Diagnosis

__all__ = ["counted", "headline", "tally", "verdict"]


def counted(number: int, word: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> counted(1, "error"), counted(0, "note")
    ('1 error', '0 notes')
    """
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def verdict(diagnosis: Diagnosis) -> str:
    """Return the verdict in one or two words."""
    if not diagnosis.sites:
        return "NO ATTENTION FOUND"
    if diagnosis.count("error"):
        return "SICK"
    if diagnosis.count("warning"):
        return "SUSPECT"
    if len(diagnosis.unresolved) == len(diagnosis.sites):
        return "NOT UNDERSTOOD"
    return "HEALTHY"


def headline(diagnosis: Diagnosis) -> str:
    """Return state, verdict and why, in one line."""
    sites, unresolved = len(diagnosis.sites), len(diagnosis.unresolved)
    places = counted(sites, "attention site")
    bad = [counted(diagnosis.count(s), s) for s in ("error", "warning") if diagnosis.count(s)]
    notes = counted(diagnosis.count("note"), "note") if diagnosis.count("note") else ""
    if not sites:
        why = "no softmax over query-key products whose weights meet values"
    elif bad:
        why = f"{', '.join([*bad, *([notes] if notes else [])])} among {places}"
    elif unresolved == sites:
        why = f"{places} found, none of them understood"
    elif unresolved:
        why = f"{unresolved} of {places} unresolved, no fault found at the others"
    else:
        why = "nothing wrong at the one attention site" if sites == 1 else (
            f"nothing wrong at any of the {places}"
        )  # fmt: skip
    if sites and not bad and notes:
        why += f", {notes}"
    return f"{diagnosis.state.upper()} · {verdict(diagnosis)} · {why}"


def tally(diagnosis: Diagnosis) -> str:
    """Return every count of a diagnosis, zeros included, in one line."""
    kinds: Counter[str] = Counter()
    for item in diagnosis.unhandled:
        kinds[item.kind] += item.count
    elsewhere = kinds["attention"]
    heads = sum(site.num_heads for site in diagnosis.sites if site.name in diagnosis.summaries)
    return ", ".join(
        [
            counted(len(diagnosis.sites), "site"),
            f"{counted(heads, 'head')} measured",
            *(counted(diagnosis.count(s), s) for s in ("error", "warning", "note")),
            f"{len(diagnosis.unresolved)} unresolved",
            f"{counted(kinds['operation'], 'operation')} unhandled",
            *([f"{elsewhere} over no query-key products"] if elsewhere else []),
        ]
    )
