"""Engines: how the statistics of one attention call are computed without an n × n matrix."""

from __future__ import annotations

from rootdk.engines.measurement import measure

__all__ = ["measure"]
