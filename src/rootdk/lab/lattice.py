"""The exact distribution of a dot product whose entries take finitely many rational values.

A score is a sum of head_dim products of independent entries. On a lattice its distribution is
a polynomial, one coefficient for each value, and that of a sum of head_dim is its power. The
coefficients of a power follow one from another, in whole numbers: nothing is rounded, and
nothing grows like the number of cases.

Where even that is too much, the moments alone are exact still: cumulants of independent
products add up.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Self

from rootdk._lib.errors import ArgumentError

__all__ = [
    "Distribution",
    "Moments",
    "TooManyValuesError",
    "dot_product",
    "dot_product_by_listing",
    "entry",
    "moments",
]

MOST_TERMS = 2_000_000
"""Of additions of whole numbers for one distribution."""

MOST_BYTES = 2**26
"""Of the whole numbers of one distribution, about."""

MOST_CASES = 4**10
"""That are listed one by one."""


class TooManyValuesError(ArgumentError):
    """A distribution has more values, or larger counts, than are computed."""


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """Values with whole numbers of equally likely cases.

    Attributes
    ----------
    cases : mapping of Fraction to int
        How many cases have each value, by value, in rising order.
    """

    cases: Mapping[Fraction, int]

    @property
    def total(self) -> int:
        """How many cases there are."""
        return sum(self.cases.values())

    def moment(self, power: int) -> Fraction:
        """Return the mean of a power of the value, exactly."""
        return Fraction(sum(value**power * n for value, n in self.cases.items())) / self.total

    @property
    def variance(self) -> Fraction:
        """The variance, exactly.

        Examples
        --------
        >>> dot_product(entry((-1, 1)), 1024).variance
        Fraction(1024, 1)
        """
        return self.moment(2) - self.moment(1) ** 2


@dataclass(frozen=True, kw_only=True)
class Moments:
    """Variance and fourth central moment of a score, exactly."""

    variance: Fraction
    fourth: Fraction

    @classmethod
    def of(cls, scores: Distribution) -> Self:
        """Return the moments of a distribution by summing over its values."""
        mean, total = scores.moment(1), scores.total
        second, fourth = (
            Fraction(sum((value - mean) ** power * n for value, n in scores.cases.items())) / total
            for power in (2, 4)
        )
        return cls(variance=second, fourth=fourth)


def moments(one: Distribution, head_dim: int) -> Moments:
    r"""Return the moments of a dot product without its distribution, at any head_dim.

    The second and fourth cumulants of one product, times head_dim, are those of the score:

    .. math:: \sigma^2 = d\,\kappa_2, \qquad \mu_4 = d\,\kappa_4 + 3 d^2 \kappa_2^2

    Examples
    --------
    >>> moments(entry((-1, 1)), 10**6).variance
    Fraction(1000000, 1)
    """
    single = Moments.of(_product(one, one))
    fourth_cumulant = single.fourth - 3 * single.variance**2
    variance = head_dim * single.variance
    return Moments(variance=variance, fourth=head_dim * fourth_cumulant + 3 * variance**2)


def entry(values: Sequence[Fraction | int], chances: Sequence[Fraction | int] = ()) -> Distribution:
    """Return the distribution of an entry.

    Parameters
    ----------
    values : sequence of Fraction or int
        What an entry can be.
    chances : sequence of Fraction or int
        In what proportion; equal unless given.

    Raises
    ------
    ArgumentError
        If the chances are not one for each value, or one is not above 0.
    """
    weights = [Fraction(chance) for chance in chances] or [Fraction(1)] * len(values)
    if len(weights) != len(values) or not values or min(weights) <= 0:
        raise ArgumentError(
            f"there are {len(values)} values and chances {', '.join(map(str, weights))}; "
            "expected a chance above 0 for each value"
        )
    whole = math.lcm(*(weight.denominator for weight in weights))
    counted: Counter[Fraction] = Counter()
    for value, weight in zip(values, weights, strict=True):
        counted[Fraction(value)] += int(weight * whole)
    return Distribution(cases=dict(sorted(counted.items())))


def dot_product(one: Distribution, head_dim: int) -> Distribution:
    r"""Return the distribution of a dot product of two vectors of such entries.

    With :math:`P(x) = \sum_i p_i x^i` the cases of one product, shifted to begin at 0 and in
    units of the lattice, the coefficients of :math:`P^d` are

    .. math:: c_0 = p_0^d, \qquad c_k = \frac{1}{k\,p_0} \sum_{i \ge 1} (i(d + 1) - k)\,p_i\,c_{k-i}

    which are whole numbers.

    Raises
    ------
    TooManyValuesError
        If the lattice is so fine, or the head so wide, that it would take too much.

    Examples
    --------
    >>> {int(score): n for score, n in dot_product(entry((-1, 1)), 2).cases.items()}
    {-2: 4, 0: 8, 2: 4}

    References
    ----------
    Knuth, "The Art of Computer Programming", volume 2, section 4.7, equation 9.
    """
    single = _product(one, one).cases
    lowest = min(single)
    steps = [value - lowest for value in single]
    unit = _common(steps)
    shared = math.gcd(*single.values())
    terms = {int(step / unit) if unit else 0: n // shared
             for step, n in zip(steps, single.values(), strict=True)}  # fmt: skip
    size = max(terms) * head_dim + 1
    bits = head_dim * math.log2(sum(terms.values()))
    if size * len(terms) > MOST_TERMS or size * bits / 8 > MOST_BYTES:
        raise TooManyValuesError(
            f"the scores have {size} values on their lattice, in whole numbers of up to "
            f"{bits:.0f} bits, each a sum of {len(terms)}; expected at most {MOST_TERMS} terms "
            f"and {MOST_BYTES} bytes in all (moments need no distribution)"
        )
    powers = _power(terms, head_dim, size)
    factor = shared**head_dim
    return Distribution(
        cases={lowest * head_dim + unit * k: n * factor for k, n in enumerate(powers) if n}
    )


def dot_product_by_listing(one: Distribution, head_dim: int) -> Distribution:
    """Return the same by going through every pair of vectors, one by one.

    Raises
    ------
    ArgumentError
        If there are more than four to the tenth of them.
    """
    pairs = [(q * k, n * m) for q, n in one.cases.items() for k, m in one.cases.items()]
    if len(pairs) ** head_dim > MOST_CASES:
        raise ArgumentError(
            f"there are {len(pairs)}^{head_dim} pairs of vectors; expected at most {MOST_CASES} "
            "to list (method exact lists none)"
        )
    whole = math.lcm(*(value.denominator for value, _ in pairs))
    on_lattice = [(int(value * whole), n) for value, n in pairs]
    counted: Counter[int] = Counter()
    for combination in product(on_lattice, repeat=head_dim):
        counted[sum(value for value, _ in combination)] += math.prod(n for _, n in combination)
    return Distribution(cases={Fraction(v, whole): n for v, n in sorted(counted.items())})


def _product(one: Distribution, other: Distribution) -> Distribution:
    counted: Counter[Fraction] = Counter()
    for query, n in one.cases.items():
        for key, m in other.cases.items():
            counted[query * key] += n * m
    return Distribution(cases=dict(sorted(counted.items())))


def _common(steps: Sequence[Fraction]) -> Fraction:
    """Return the largest number of which all steps are multiples; 0 if all of them are 0."""
    whole = math.lcm(*(step.denominator for step in steps))
    return Fraction(math.gcd(*(int(step * whole) for step in steps)), whole)


def _power(terms: Mapping[int, int], power: int, size: int) -> list[int]:
    first = terms[0]
    rest = [(step, n) for step, n in terms.items() if step]
    found = [first**power]
    for k in range(1, size):
        total = sum((i * (power + 1) - k) * n * found[k - i] for i, n in rest if i <= k)
        found.append(total // (k * first))
    return found
