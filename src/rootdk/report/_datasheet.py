"""What every renderer says of a datasheet."""

from __future__ import annotations

from rootdk.records import Datasheet
from rootdk.report._verdict import counted

__all__ = ["headline_of", "not_judged", "refusals_of", "verdict_of"]


_OUTCOMES = {"non-finite": "it returned NaN or infinity"}


def verdict_of(sheet: Datasheet) -> str:
    """Return the verdict in one or two words."""
    if sheet.count("error"):
        return "SICK"
    if sheet.count("warning"):
        return "SUSPECT"
    if sheet.behaviour.call.outcome != "ok":
        return "NOT CALLED" if sheet.behaviour.call.outcome == "raised" else "NO USABLE OUTPUT"
    return "HEALTHY" if sheet.behaviour.understood else "NOT UNDERSTOOD"


def headline_of(sheet: Datasheet) -> str:
    """Return verdict and why, in one line."""
    found = [counted(sheet.count(s), s) for s in ("error", "warning", "note") if sheet.count(s)]
    call = sheet.behaviour.call
    if found:
        why = ", ".join(found)
    elif call.outcome != "ok":
        why = f"the plain call: {call.error or _OUTCOMES.get(call.outcome, call.outcome)}"
    elif not sheet.behaviour.understood:
        why = "what it computes is no attention that was understood; nothing wrong was found"
    else:
        why = "nothing wrong"
    return f"{verdict_of(sheet)} · {why}"


def refusals_of(sheet: Datasheet) -> list[str]:
    """Return what the function refused, a line each."""
    return [
        f"{one.what}: {one.error}"
        + (" (the same shapes had worked with other values)" if one.same_shapes_worked else "")
        for one in sheet.behaviour.refusals
    ]


def not_judged(sheet: Datasheet) -> list[str]:
    """Return the probes that could not be run, and why. Rules that follow are not repeated."""
    start = "probe "
    return [
        f"{one.code.removeprefix(start)}: {one.why}"
        for one in sheet.skipped
        if one.code.startswith(start)
    ]
