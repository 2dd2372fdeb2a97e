"""What is the same of all blocks whose visible scores are known to be finite."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Booleans, Integers


class FiniteRows:
    """Counts of rows that have no score to leave out, by their visible keys alone."""

    _visible_keys: Integers

    @property
    def visible_keys(self) -> Integers:
        """Visible keys of each row."""
        return self._visible_keys

    @property
    def finite(self) -> Booleans:
        """All rows."""
        return np.ones(self._visible_keys.shape, dtype=np.bool_)

    @property
    def finite_scores(self) -> Integers:
        """Visible scores of each row: all are finite."""
        return self._visible_keys
