"""Memory that the C library holds for later, handed back to the system."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any


def give_back() -> bool:
    """Hand free pages of the heap back, also those between pieces in use; tell whether any were.

    Where many large pieces come and go among some that stay, the holes add up: the C library
    gives back by itself only what is free at the end of its heap. Does nothing where that
    library has no such call (it is glibc's ``malloc_trim``). The pages are fetched anew when
    they are next written to.
    """
    trim = _malloc_trim()
    return trim is not None and bool(trim(0))


@cache
def _malloc_trim() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
