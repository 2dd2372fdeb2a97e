"""What a user says a site should be: a scale, a softcap, an alignment of the causal mask."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from rootdk._lib.errors import ArgumentError
from rootdk._lib.expressions import evaluate
from rootdk.records import AttentionSite, Expected

__all__ = ["Expectation", "apply_expectations", "parse_expectations"]

_TOLERANCE = 1e-3
_ALIGNMENTS = ("top_left", "bottom_right", "none")
_KEYS = ("scale", "softcap", "causal")


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What one pattern of sites should have; None says nothing about it.

    ``scale`` and ``softcap`` are numbers or expressions in ``head_dim``, ``hidden``,
    ``heads``, ``keys``, ``queries`` and ``layer``; a softcap of ``"none"`` says that there is
    none. ``causal`` is ``"top_left"``, ``"bottom_right"`` or ``"none"``.
    """

    scale: float | str | None = None
    softcap: float | str | None = None
    causal: str | None = None


def parse_expectations(value: object, *, where: str = "expect") -> dict[str, Expectation]:
    """Return the expectations of a mapping from a glob of sites to what they should be.

    Parameters
    ----------
    value : mapping
        A glob over site names and module paths, and for each a number, an expression, an
        ``Expectation``, or a mapping with ``scale``, ``softcap`` and ``causal``.
    where : str
        What to call the mapping in an error.

    Raises
    ------
    ArgumentError
        If it is no such mapping. Expressions are evaluated later, at each site.
    """
    if not isinstance(value, Mapping):
        raise ArgumentError.unexpected(where, value, "a mapping from a glob of sites to a scale")
    return {
        str(pattern): _parse_one(wanted, f"{where}[{str(pattern)!r}]")
        for pattern, wanted in value.items()
    }


def apply_expectations(
    sites: Iterable[AttentionSite], expectations: Mapping[str, Expectation]
) -> tuple[tuple[AttentionSite, ...], tuple[str, ...]]:
    """Return the sites with the scales that the user declared, and remarks on the rest.

    Where several patterns match a site, the later one decides, quantity by quantity. A
    pattern that matches no site is a remark; so is a softcap or a causal alignment that the
    site does not have, because no rule reads those two.
    """
    declared = tuple(sites)
    remarks: list[str] = []
    for pattern, expectation in expectations.items():
        matched = [i for i, site in enumerate(declared) if _matches(pattern, site)]
        if not matched:
            remarks.append(f"expect[{pattern!r}] matches no attention site")
        declared = tuple(
            _declare(site, pattern, expectation) if i in matched else site
            for i, site in enumerate(declared)
        )
    for site in declared:
        remarks += _unmet(site, expectations)
    return declared, tuple(remarks)


def _parse_one(wanted: object, where: str) -> Expectation:
    match wanted:
        case Expectation():
            expectation = wanted
        case bool():
            raise ArgumentError.unexpected(where, wanted, "a number, an expression or a mapping")
        case int() | float() | str():
            expectation = Expectation(scale=wanted)
        case Mapping():
            unknown = [str(key) for key in wanted if key not in _KEYS]
            if unknown:
                raise ArgumentError(
                    f"{where} has {', '.join(unknown)}; expected only {', '.join(_KEYS)}"
                )
            expectation = Expectation(**wanted)
        case _:
            raise ArgumentError.unexpected(where, wanted, "a number, an expression or a mapping")
    _require_number(expectation.scale, f"{where} scale")
    if expectation.softcap != "none":
        _require_number(expectation.softcap, f"{where} softcap")
    if expectation.causal is not None and expectation.causal not in _ALIGNMENTS:
        raise ArgumentError.unexpected(
            f"{where} causal", expectation.causal, f"one of {', '.join(_ALIGNMENTS)}"
        )
    return expectation


def _require_number(value: object, where: str) -> None:
    if value is None or isinstance(value, str):
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ArgumentError.unexpected(where, value, "a finite number or an expression")


def _matches(pattern: str, site: AttentionSite) -> bool:
    return fnmatchcase(site.name, pattern) or fnmatchcase(site.module_path, pattern)


def _declare(site: AttentionSite, pattern: str, expectation: Expectation) -> AttentionSite:
    if expectation.scale is None:
        return site
    value = _number(expectation.scale, site)
    shown = f" = {expectation.scale}" if isinstance(expectation.scale, str) else ""
    expected = Expected(value=value, where=f"expect[{pattern!r}]{shown}", by="user")
    return dataclasses.replace(site, expected=expected)


def _number(value: float | str, site: AttentionSite) -> float:
    if not isinstance(value, str):
        return float(value)
    facts: dict[str, float | None] = {
        "head_dim": site.head_dim,
        "hidden": site.hidden,
        "heads": site.num_heads,
        "keys": site.keys,
        "queries": site.queries,
        "layer": site.layer,
    }
    try:
        return evaluate(value, {name: fact for name, fact in facts.items() if fact is not None})
    except ArgumentError as error:
        raise ArgumentError(f"at {site.name}: {error}") from None


def _unmet(site: AttentionSite, expectations: Mapping[str, Expectation]) -> list[str]:
    """Say which declared softcap and alignment a resolved site does not have."""
    softcap: float | str | None = None
    causal: str | None = None
    for pattern, expectation in expectations.items():
        if _matches(pattern, site):
            softcap = softcap if expectation.softcap is None else expectation.softcap
            causal = expectation.causal or causal
    if not site.resolved:
        return []
    remarks = []
    if softcap is not None and not _has_softcap(site, softcap):
        remarks.append(f"{site.name}: the softcap is {_or_none(site.softcap)}; expected {softcap}")
    if causal is not None and not _has_alignment(site, causal):
        known = "not known" if _is_unknown(site) else _or_none(site.causal)
        remarks.append(f"{site.name}: the causal mask is {known}; expected {causal}")
    return remarks


def _has_alignment(site: AttentionSite, causal: str) -> bool:
    if site.causal is None or causal == "none":
        return causal == _or_none(site.causal) and not _is_unknown(site)
    # The two alignments are one where there are as many queries as keys.
    return causal == site.causal or site.queries == site.keys


def _is_unknown(site: AttentionSite) -> bool:
    """Tell whether some mask forbids keys and nobody said in which way."""
    return site.causal is None and any(addend.kind == "mask" for addend in site.addends)


def _has_softcap(site: AttentionSite, softcap: float | str) -> bool:
    if softcap == "none":
        return site.softcap is None
    wanted = _number(softcap, site)
    return site.softcap is not None and math.isclose(site.softcap, wanted, rel_tol=_TOLERANCE)


def _or_none(value: object) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
