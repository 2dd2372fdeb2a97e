"""Counting how often each bin of a histogram occurs, many scores at once."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rootdk._lib.arrays import Array
from rootdk.engines.flatsums import Memory
from rootdk.stats.block import HISTOGRAM_BINS, Integers

_TOGETHER = 2**21
"""Codes, a byte each, that are counted at once: a call for fewer costs more than they do."""


@dataclass(eq=False)
class CodeCounter:
    """Counts the whole parts of numbers from 0 up to HISTOGRAM_BINS, for each head.

    Attributes
    ----------
    memory, heads
        Where codes are kept, and how many heads there are.
    """

    memory: Memory
    heads: int
    _counts: Integers = field(init=False)
    _codes: Array | None = None
    _filled: int = 0
    _less: list[tuple[Integers, Integers]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._counts = np.zeros((self.heads, HISTOGRAM_BINS), dtype=np.int64)

    def add(
        self, numbers: Array, *, less: Integers | None = None, at: Integers | None = None
    ) -> None:
        """Count (num_heads, rows, keys) numbers, of which so many of each row do not count.

        Those that do not are among the row's numbers whose whole part is ``at``.
        """
        many = int(numbers.shape[1] * numbers.shape[2])
        if self._codes is None or self._filled + many > self._codes.shape[1]:
            self._count()
            room = max(_TOGETHER // max(self.heads, 1), many)
            if self._codes is None or self._codes.shape[1] < many:
                self._codes = self.memory.codes(self.heads, room, numbers)
        here = self._codes[:, self._filled : self._filled + many]
        self.memory.kernels.codes(numbers, here.reshape(numbers.shape))
        self._filled += many
        if less is not None and at is not None:
            self._less.append((less, at))

    def counts(self) -> Integers:
        """Return how often each occurred, (num_heads, HISTOGRAM_BINS)."""
        self._count()
        if self._less:
            less, at = (np.concatenate(each, axis=1) for each in zip(*self._less, strict=True))
            head = np.arange(self.heads)[:, None]
            np.subtract.at(self._counts, (head, at), less)
            self._less.clear()
        return self._counts

    def _count(self) -> None:
        if self._codes is not None and self._filled:
            self._counts += self.memory.kernels.count_codes(self._codes[:, : self._filled])
        self._filled = 0
