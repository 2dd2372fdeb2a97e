"""Statistics of attention: sufficient statistics that merge, and quantities made of them.

A new quantity is one file in ``rootdk.stats.quantities``, a new statistic one file in
``rootdk.stats.statistics``; ``rootdk.stats.quantity`` and ``rootdk.stats.statistic`` say what
such a file holds, and list what there is.
"""

from __future__ import annotations

from rootdk.stats.block import Block
from rootdk.stats.definition import Head
from rootdk.stats.quantity import AbsentQuantityError, Quantity
from rootdk.stats.statistic import BlockStatistic, Statistic
from rootdk.stats.summary import Summary

__all__ = [
    "AbsentQuantityError",
    "Block",
    "BlockStatistic",
    "Head",
    "Quantity",
    "Statistic",
    "Summary",
]
