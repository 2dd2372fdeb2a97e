"""Mean and sum of squared deviations, merged without cancellation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from rootdk.stats.block import Floats, Integers
from rootdk.stats.statistic import Count, Joint, Statistic, per


def merge_moments(
    counts: tuple[Integers, Integers],
    means: tuple[Floats, Floats],
    m2s: tuple[Floats, Floats],
) -> tuple[Integers, Floats, Floats]:
    """Merge count, mean and sum of squared deviations of two lots.

    With n = n₁ + n₂ and δ = m₂ − m₁: the mean is m₁ + δ·n₂/n, and the squared deviations
    add to M₁ + M₂ + δ²·n₁·n₂/n. Nothing is subtracted that was added before, so a mean
    that is large beside the deviations costs no digits (Chan, Golub and LeVeque 1983, eq. 2.1).
    """
    count = counts[0] + counts[1]
    share = counts[1] / np.maximum(count, 1)
    gap = np.where((counts[0] > 0) & (counts[1] > 0), means[1] - means[0], 0.0)
    start = np.where(counts[0] > 0, means[0], means[1])
    mean = np.where(counts[1] > counts[0], means[1] - gap * (1 - share), start + gap * share)
    m2 = m2s[0] + m2s[1] + gap * gap * counts[0] * share
    return count, np.where(count > 0, mean, 0.0), m2


@dataclass(frozen=True, eq=False)
class Moments(Statistic):
    """Count, mean and sum of squared deviations from the mean.

    Merges by the law of :func:`merge_moments`.

    Attributes
    ----------
    count : array of int64, shape (num_heads,)
        Number of values.
    mean : array of float64, shape (num_heads,)
        Their mean; 0 of none.
    m2 : array of float64, shape (num_heads,)
        Sum of squared deviations from the mean.
    """

    count: Count
    mean: Joint
    m2: Joint

    def _merged(self, other: Self) -> Self:
        count, mean, m2 = merge_moments(
            (self.count, other.count), (self.mean, other.mean), (self.m2, other.m2)
        )
        return type(self)(count=count, mean=mean, m2=m2)

    @property
    def average(self) -> Floats:
        """The mean; NaN of none."""
        return np.where(self.count > 0, self.mean, np.nan)

    @property
    def std(self) -> Floats:
        """Standard deviation with ddof 0; NaN of none."""
        return np.sqrt(per(self.m2, self.count))

    @property
    def rms(self) -> Floats:
        """Root of the mean square; NaN of none."""
        return np.hypot(self.average, self.std)


def moments_of_groups(
    counts: Integers, means: Floats, m2s: Floats
) -> tuple[Integers, Floats, Floats]:
    """Merge groups along the last dimension, each given by count, mean and deviations."""
    count = np.sum(counts, axis=-1)
    safe = np.maximum(count, 1)
    # A rough mean first, then the mean of what is left of it: no digit is lost to its size.
    rough = np.sum(means * (counts / safe[..., None]), axis=-1)
    left = np.where(counts > 0, means - rough[..., None], 0.0)
    correction = np.sum(left * counts, axis=-1) / safe
    gaps = np.where(counts > 0, left - correction[..., None], 0.0)
    m2 = np.sum(m2s, axis=-1) + np.sum(counts * gaps * gaps, axis=-1)
    return count, rough + correction, m2


@dataclass(frozen=True, eq=False)
class EntryMoments(Moments):
    """Moments of all entries of one array that enters the attention, per query head.

    Every entry counts, whether or not a mask hides it. An entry that is not finite makes
    the moments of its head NaN. Where query heads share a key-value head, each has that
    head's moments. Measuring the same keys again for more queries changes no quantity.
    """
