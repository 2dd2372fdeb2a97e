"""The naming scheme: ``<site>.<field>``, and which names of a store belong to which site."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rootdk._lib.errors import TargetError

__all__ = ["ARRAYS", "DOCUMENT", "NUMBERS", "STATE", "WORDS", "Group", "grouped"]

ARRAYS = (
    "query",
    "key",
    "value",
    "mask",
    "bias",
    "weights",
    "scores",
    "output",
    "rows",
    "inputs",
)
"""Fields that are arrays."""

NUMBERS = ("scale", "softcap", "hidden", "layer", "num_heads", "num_kv_heads", "window")
"""Fields that are numbers, one or (a window) two."""

WORDS = ("layout", "causal", "score_dtype")
"""Fields that are words."""

DOCUMENT = "rootdk"
"""The name of the JSON document that ``rootdk.capture`` adds."""

STATE = "state"
"""The name under which a file says whether its weights are at initialisation."""

_FIELDS = frozenset((*ARRAYS, *NUMBERS, *WORDS))
_UNNAMED = "attention"


@dataclass(frozen=True, kw_only=True)
class Group:
    """The names that belong to one site: field by field, the name in the store."""

    site: str
    fields: dict[str, str]


def grouped(names: Iterable[str], where: str) -> tuple[tuple[Group, ...], tuple[str, ...]]:
    """Return the sites that the names describe, in order, and the names that belong to none.

    Raises
    ------
    TargetError
        If a site has a query without a key or a key without a query, or there is no site.
    """
    fields: dict[str, dict[str, str]] = {}
    strangers: list[str] = []
    for name in names:
        site, dot, field = name.rpartition(".")
        if field not in _FIELDS or (dot and not site):
            if name not in (DOCUMENT, STATE, "layout"):
                strangers.append(name)
            continue
        fields.setdefault(site or _UNNAMED, {})[field] = name
    groups: list[Group] = []
    for site, found in fields.items():
        halves = {"query", "key"} & set(found)
        if not halves:
            strangers.extend(found.values())
            continue
        if len(halves) == 1:
            (one,) = halves
            (other,) = {"query", "key"} - halves
            raise TargetError(f"{where} has {found[one]} and no {other} beside it; expected both")
        groups.append(Group(site=site, fields=found))
    if not groups:
        raise TargetError(
            f"{where} holds no array called <site>.query with a <site>.key beside it; expected "
            f"the names of docs/saved-tensors.md{_shown(strangers)}"
        )
    return tuple(groups), tuple(strangers)


def _shown(names: list[str]) -> str:
    if not names:
        return ", and it holds nothing"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f", and it holds {', '.join(names[:3])}{more}"
