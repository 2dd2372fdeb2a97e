"""Moments of the entries of the value."""

from __future__ import annotations

from dataclasses import dataclass

from rootdk.stats.statistics._moments import EntryMoments


@dataclass(frozen=True, eq=False)
class ValueEntries(EntryMoments):
    """Count, mean and squared deviations of the entries of the value."""

    name = "value_entries"
