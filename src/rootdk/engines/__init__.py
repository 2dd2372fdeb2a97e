"""Engines: how the statistics of one attention call are computed without an n × n matrix."""

from __future__ import annotations

from rootdk.engines.measurement import measure
from rootdk.engines.spread_parts import SpreadParts, spread_parts

__all__ = ["SpreadParts", "measure", "spread_parts"]
