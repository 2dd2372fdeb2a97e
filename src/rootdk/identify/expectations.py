"""What an author declared about a function, and whether the measured scale is that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType

from rootdk._lib.errors import ArgumentError
from rootdk._lib.expressions import evaluate
from rootdk.identify.law import TOLERANCE
from rootdk.records import ScalePoint, Sizes

__all__ = ["NAMES", "agrees_with", "expected_mapping"]

NAMES = (
    "scale",
    "causal",
    "softcap",
    "row_sums",
    "kv_map",
    "mask",
    "empty_rows",
    "axis",
    "bias",
    "window",
)
"""What can be declared."""


def expected_mapping(expect: object) -> Mapping[str, object]:
    """Return a declaration as a mapping; a number or an expression is the scale.

    Raises
    ------
    ArgumentError
        If it names what cannot be declared, or the scale is no arithmetic.

    Examples
    --------
    >>> dict(expected_mapping("1/head_dim"))
    {'scale': '1/head_dim'}
    """
    if expect is None:
        return MappingProxyType({})
    if isinstance(expect, str | int | float) and not isinstance(expect, bool):
        expect = {"scale": expect}
    if not isinstance(expect, Mapping):
        raise ArgumentError.unexpected("expect", expect, "a number, an expression, or a mapping")
    for name in expect:
        if name not in NAMES:
            raise ArgumentError.unexpected("expect names", name, f"one of {', '.join(NAMES)}")
    if "scale" in expect:
        some = Sizes(batch=2, heads=3, kv_heads=3, queries=5, keys=7, head_dim=16, value_dim=45)
        _value(expect["scale"], some)
    return MappingProxyType(dict(expect))


def agrees_with(expected: Mapping[str, object], points: Sequence[ScalePoint]) -> bool | None:
    """Return whether every measured scale is the declared one; None if there is nothing to say."""
    if "scale" not in expected or not points:
        return None
    for point in points:
        value = _value(expected["scale"], point.sizes)
        room = max(TOLERANCE * abs(value), 3.0 * point.uncertainty)
        if abs(point.scale - value) > room:
            return False
    return True


def _value(scale: object, sizes: Sizes) -> float:
    if isinstance(scale, str):
        facts = {name: float(size) for name, size in asdict(sizes).items()}
        return evaluate(scale, {**facts, "hidden": float(sizes.hidden)})
    if isinstance(scale, int | float) and not isinstance(scale, bool):
        return float(scale)
    raise ArgumentError.unexpected("the expected scale", scale, "a number or an expression")
