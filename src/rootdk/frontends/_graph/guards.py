"""The graph rules that keep a factor from being lost, each by name.

Every way in which a walk could silently miscount is held by one entry. A test takes each one
out in turn and asserts that the numerical verification alone then refuses the site.
"""

from __future__ import annotations

__all__ = ["GUARDS", "guarded"]

GUARDS: dict[str, str] = {
    "factor-without-value": "a factor whose value is not known makes the site unresolved",
    "unknown-leaf": "a tensor that nothing recorded makes the site unresolved",
    "map-over-scores": "a learned map over the scores makes the site unresolved",
    "vector-factor": "a vector of factors is learned, per position, or unresolved",
    "score-term": "a further product of activations is added to the scores",
    "sum-of-same": "a tensor added to itself is a factor of two",
    "partial-write": "a tensor of which parts were rewritten is resolved part by part",
    "opaque-operation": "an operation that is not understood makes the site unresolved",
    "projection-scope": "a factor made inside the projection's own module belongs to it",
}

_removed: set[str] = set()


def guarded(name: str) -> bool:
    """Whether the guard is in force."""
    if name not in GUARDS:
        raise KeyError(name)
    return name not in _removed
