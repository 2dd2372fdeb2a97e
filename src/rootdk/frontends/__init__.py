"""Frontends lower a model, or saved arrays, to records; one file each, found by the folder."""

from __future__ import annotations

from rootdk.frontends._base import Frontend, Trace, trace

__all__ = ["Frontend", "Trace", "trace"]
