"""Passes over the scores of one row, each a loop that becomes vector instructions.

Sums run in float32 over at most SEGMENT scores and in float64 beyond. Sums may be
reassociated, so that they run in lanes; the exponential may not, because its rounding
step, adding a large number and taking it away again, would be simplified to nothing.
"""

from __future__ import annotations

import numpy as np

from rootdk.engines._numba.vectors import compiled, larger, low_bits_as_exponent, smaller
from rootdk.stats.block import HISTOGRAM_BINS

SEGMENT = 512
"""Scores summed in float32."""

HIDDEN = np.float32(-1e30)
"""What stands for a score that is left out: its exponential is 0."""

_IN_LANES = {"reassoc", "contract", "nnan", "ninf", "nsz"}
"""What may be done to sums: every score is finite here."""

_ONE = np.float32(1.0)
_TWO = np.float32(2.0)
_ZERO = np.float32(0.0)
_MIDDLE = np.float32(HISTOGRAM_BINS // 2)
_HIGHEST_CODE = np.float32(HISTOGRAM_BINS - 0.5)
_LARGEST = np.float32(3e38)

_SMALLEST = np.float32(-87.0)
"""Exponentials of less are 0: they would leave the normal numbers."""

_LOG2_E = np.float32(1.4426950408889634)
_LOG_2_HIGH = np.float32(0.693145751953125)
_LOG_2_LOW = np.float32(1.42860682030941723212e-06)
_ROUNDER = np.float32(1.5 * 2**23 + 127)
"""Added to a number, it leaves the nearest whole number, plus 127, in the lowest bits."""

# Interpolates exp(t) at the Chebyshev points of |t| ≤ log(2)/2; relative error 3e-9.
_E1, _E2 = np.float32(1.0000000377162135), np.float32(0.5000000047117773)
_E3, _E4 = np.float32(0.16666415514654734), np.float32(0.041666352896777586)
_E5, _E6 = np.float32(0.008375126398043114), np.float32(0.0013941108432542575)

# Interpolates tanh(√z)/√z for z ≤ 0.36; relative error 3e-9.
_T0, _T1, _T2 = (np.float32(c) for c in (0.9999999974801554, -0.3333328283432337, 0.1333167963))
_T3, _T4, _T5 = (
    np.float32(c) for c in (-0.053767983506288385, 0.020751349099737245, -0.0058496439)
)
_NEAR = np.float32(0.6)


@compiled()
def exponential(number: np.float32) -> np.float32:
    """Return exp of a number from −∞ to 0; relative error 2e-7, and 0 below −87."""
    held = max(number, _SMALLEST)
    rounded = held * _LOG2_E + _ROUNDER
    whole = rounded - _ROUNDER
    rest = (held - whole * _LOG_2_HIGH) - whole * _LOG_2_LOW
    power = low_bits_as_exponent(rounded)
    series = _E6 * rest + _E5
    series = series * rest + _E4
    series = series * rest + _E3
    series = series * rest + _E2
    series = series * rest + _E1
    value = (series * rest + _ONE) * power
    return value if number >= _SMALLEST else _ZERO


@compiled(fastmath={"contract"})
def hyperbolic_tangent(number: np.float32) -> np.float32:
    """Return tanh; relative error 4e-7."""
    square = min(number * number, _NEAR * _NEAR)
    near = _T5 * square + _T4
    near = near * square + _T3
    near = near * square + _T2
    near = near * square + _T1
    near = (near * square + _T0) * number
    small = exponential(-_TWO * abs(number))
    far = (_ONE - small) / (_ONE + small)
    far = far if number > _ZERO else -far
    return near if abs(number) < _NEAR else far


@compiled(fastmath=_IN_LANES)
def range_of(scores: np.ndarray) -> tuple[np.float32, ...]:
    """Return sum, smallest and largest."""
    total, least, greatest = _ZERO, _LARGEST, -_LARGEST
    for at in range(scores.size):
        score = scores[at]
        total += score
        least = smaller(least, score)
        greatest = larger(greatest, score)
    return total, least, greatest


@compiled(fastmath=_IN_LANES)
def place_of(scores: np.ndarray, number: np.float32) -> int:
    """Return where the first of at most SEGMENT scores that equals a number stands.

    That there is one is for the caller to see; all are compared, in lanes.
    """
    first = np.int32(SEGMENT)
    for at in range(scores.size):
        first = min(first, np.int32(at) if scores[at] == number else np.int32(SEGMENT))
    return int(first)


@compiled(fastmath=_IN_LANES)
def squared_deviations(scores: np.ndarray, mean: np.float32) -> np.float32:
    """Return the sum of squared deviations."""
    total = _ZERO
    for at in range(scores.size):
        deviation = scores[at] - mean
        total += deviation * deviation
    return total


@compiled()
def encode(
    scores: np.ndarray,
    mean: np.float32,
    per_unit: np.float32,
    codes: np.ndarray,
) -> None:
    """Write the bins of standardised scores to codes."""
    for at in range(scores.size):
        standard = (scores[at] - mean) * per_unit + _MIDDLE
        standard = min(max(standard, _ZERO), _HIGHEST_CODE)
        codes[at] = np.uint8(np.int32(standard))


@compiled()
def count_pairs(pairs: np.ndarray, many: int, table: np.ndarray) -> None:
    """Count codes two at a time: half as many steps of a loop that cannot run in lanes."""
    for at in range(many):
        table[pairs[at]] += 1


@compiled(fastmath=_IN_LANES)
def exponential_sums(scores: np.ndarray, peak: np.float32) -> tuple[np.float32, ...]:
    """Return sums of e, e·gap, e² and e³, with gap = score − peak and e = exp(gap)."""
    first, gaps, second, third = _ZERO, _ZERO, _ZERO, _ZERO
    for at in range(scores.size):
        gap = scores[at] - peak
        power = exponential(gap)
        square = power * power
        first += power
        gaps += power * gap
        second += square
        third += square * power
    return first, gaps, second, third


@compiled()
def finalise(
    scores: np.ndarray,
    softcap: np.float32,
    offset: np.float32,
    extra: np.ndarray,
) -> None:
    """Turn scaled scores into softcapped (unless softcap is 0) and biased ones, in place."""
    if softcap > _ZERO:
        for at in range(scores.size):
            scores[at] = softcap * hyperbolic_tangent((scores[at] + offset) / softcap)
    if extra.size:
        for at in range(scores.size):
            scores[at] += extra[at]
