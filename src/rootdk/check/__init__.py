"""One forward pass of an unchanged model, and what the rules say of its attention."""

from rootdk.check.expectations import Expectation
from rootdk.check.options import CheckOptions
from rootdk.check.run import check
from rootdk.check.settings import Settings, find_pyproject, read_settings

__all__ = [
    "CheckOptions",
    "Expectation",
    "Settings",
    "check",
    "find_pyproject",
    "read_settings",
]
