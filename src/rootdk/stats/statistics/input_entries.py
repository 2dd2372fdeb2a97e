"""Moments of what enters the projections, the same for each head."""

from __future__ import annotations

from dataclasses import dataclass

from rootdk.stats.statistics._moments import EntryMoments


@dataclass(frozen=True, eq=False)
class InputEntries(EntryMoments):
    """Count, mean and squared deviations of what enters the projections."""

    name = "input_entries"
