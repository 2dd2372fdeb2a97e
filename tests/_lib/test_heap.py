"""Holes in the heap are given back to the system."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

import pytest

from rootdk._lib import heap

MIB = 1 << 20


def resident() -> int:
    """Bytes of this process in main memory."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or not hasattr(ctypes.CDLL(None), "malloc_trim"),
    reason="the C library has no such call",
)
def test_pages_between_pieces_in_use_are_given_back() -> None:
    # Small enough for the heap itself; large enough for whole pages between those that stay.
    pieces = [b"\x01" * (100 << 10) for _ in range(1000)]
    kept = pieces[::2]
    pieces.clear()
    before = resident()
    assert heap.give_back()
    assert before - resident() > 30 * MIB
    assert all(piece[-1] == 1 for piece in kept)


def test_nothing_happens_where_the_library_has_no_such_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heap, "_malloc_trim", lambda: None)
    assert not heap.give_back()
