"""Every rule by walking the folder, one rule by its code or name, some by selectors."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from functools import cache

from rootdk._lib.discovery import subclasses
from rootdk._lib.errors import ArgumentError
from rootdk.rules._base import FAMILIES, Rule
from rootdk.rules._reserved import REDIRECTS, RESERVED, reserved_sentence

__all__ = ["UnknownRuleError", "all_rules", "chosen", "rule"]

PACKAGE = "rootdk.rules"
ENTRY_POINTS = "rootdk.rules"


class UnknownRuleError(ArgumentError):
    """No rule has this code or name."""


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return every rule, of this package and of plug-ins, by code."""
    kinds = subclasses(
        PACKAGE,
        Rule,  # type: ignore[type-abstract]
        group=ENTRY_POINTS,
        key=lambda kind: kind.code,
    )
    return tuple(sorted((kind() for kind in kinds), key=lambda one: one.code))


def rule(code_or_name: str, *, redirects: Mapping[str, str] = REDIRECTS) -> Rule:
    """Return the rule with this code (RDK101) or name (missing-scale), old ones included.

    Raises
    ------
    UnknownRuleError
        If there is none; the message says where a reserved code fires, and what is close.

    Examples
    --------
    >>> rule("RDK101"), rule("missing-scale")
    (<RDK101 missing-scale>, <RDK101 missing-scale>)
    """
    wanted = redirects.get(code_or_name, code_or_name)
    for one in all_rules():
        if wanted.upper() == one.code or wanted.lower() == one.name:
            return one
    raise UnknownRuleError(reserved_sentence(wanted) or _unknown(code_or_name))


def chosen(
    rules: Iterable[Rule], *, select: Iterable[str] = (), ignore: Iterable[str] = ()
) -> frozenset[str]:
    """Return the codes that ``select`` names (all, if it is empty) and ``ignore`` does not.

    A selector is a code, the beginning of one (RDK3), a name, or a family's name. An old code
    means the new one.

    Raises
    ------
    UnknownRuleError
        If a selector is neither the code nor the name of anything, reserved ones included.
    """
    every = tuple(rules)
    selected, ignored = tuple(select), tuple(ignore)
    wanted = _matching(every, selected) if selected else {one.code for one in every}
    return frozenset(wanted - _matching(every, ignored))


def _matching(rules: tuple[Rule, ...], selectors: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for selector in selectors:
        wanted = REDIRECTS.get(selector, selector)
        codes = {one.code for one in rules if _matches(one.code, one.name, wanted)}
        known = any(_matches(code, name, wanted) for code, name in RESERVED.items())
        if not codes and not known:
            raise UnknownRuleError(_unknown(selector))
        found |= codes
    return found


def _matches(code: str, name: str, selector: str) -> bool:
    text = selector.strip()
    if text.upper().startswith("RDK"):
        return code.startswith(text.upper())
    family = FAMILIES[int(code[3]) - 1]
    return text.lower() in (name, family)


def _unknown(text: str) -> str:
    names = [key for one in all_rules() for key in (one.code, one.name)]
    close = difflib.get_close_matches(text, names, n=1)
    end = f"; did you mean {close[0]}?" if close else "; `rootdk rules` lists them all"
    return f"there is no rule {text!r}{end}"
