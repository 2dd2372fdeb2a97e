"""Moments of the entries of the query."""

from __future__ import annotations

from dataclasses import dataclass

from rootdk.stats.statistics._moments import EntryMoments


@dataclass(frozen=True, eq=False)
class QueryEntries(EntryMoments):
    """Count, mean and squared deviations of the entries of the query."""

    name = "query_entries"
