"""Moments of the entries of the key."""

from __future__ import annotations

from dataclasses import dataclass

from rootdk.stats.statistics._moments import EntryMoments


@dataclass(frozen=True, eq=False)
class KeyEntries(EntryMoments):
    """Count, mean and squared deviations of the entries of the key."""

    name = "key_entries"
