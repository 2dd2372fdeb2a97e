"""Codes that are taken and not yet written, and codes that have been replaced."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["REDIRECTS", "RESERVED", "RESERVED_FOR", "reserved_sentence"]

_BY_VERB: Mapping[str, Mapping[str, str]] = {
    "watch": {
        "RDK603": "entropy-collapse",
        "RDK604": "score-growth",
        "RDK608": "scale-changed",
    },
    "probe": {
        "RDK701": "future-leak",
        "RDK702": "padding-changes-output",
        "RDK703": "batch-neighbour-leak",
        "RDK704": "packing-leak",
        "RDK705": "cache-disagrees",
        "RDK706": "paths-disagree",
        "RDK709": "precision-breaks-site",
    },
}

RESERVED: Mapping[str, str] = MappingProxyType(
    dict(sorted((code, name) for names in _BY_VERB.values() for code, name in names.items()))
)
"""Codes whose fault a model's graph and numbers cannot show, and their names. For ever."""

RESERVED_FOR: Mapping[str, str] = MappingProxyType(
    {code: verb for verb, names in _BY_VERB.items() for code in names}
)
"""The verb that will show the fault of a reserved code: watch or probe."""

REDIRECTS: Mapping[str, str] = MappingProxyType({})
"""Codes and names that rules once had, and the codes that took their place."""


def reserved_sentence(code_or_name: str) -> str | None:
    """Return what there is to say of a reserved code or name, None if it is not one.

    Examples
    --------
    >>> reserved_sentence("RDK701")
    'RDK701 future-leak is reserved; it fires in probe'
    """
    for code, name in RESERVED.items():
        if code_or_name.upper() == code or code_or_name.lower() == name:
            return f"{code} {name} is reserved; it fires in {RESERVED_FOR[code]}"
    return None
