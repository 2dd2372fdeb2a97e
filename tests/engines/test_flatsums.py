"""Where flat rows are measured: memory that is asked for once."""

from __future__ import annotations

import numpy as np
import pytest

from rootdk.engines.flatsums import Memory
from rootdk.engines.numpykernels import NumpyKernels


def test_shapes_that_grow_lie_in_the_same_memory() -> None:
    memory, like = Memory(NumpyKernels(), room=96), np.zeros(1, dtype=np.float32)
    first = memory.pieces((1, 4, 8), like)
    later = memory.pieces((2, 4, 12), like)
    assert all(np.shares_memory(*both) for both in zip(first, later, strict=True))
    assert not np.shares_memory(*later)


def test_more_than_there_is_room_for_gets_it() -> None:
    memory, like = Memory(NumpyKernels(), room=8), np.zeros(1, dtype=np.float64)
    scores, work = memory.pieces((3, 5, 7), like)
    assert scores.shape == work.shape == (3, 5, 7)
    assert scores.dtype == work.dtype == np.float64


def test_memory_of_another_dtype_is_another() -> None:
    memory = Memory(NumpyKernels(), room=64)
    narrow, _ = memory.pieces((1, 8, 8), np.zeros(1, dtype=np.float32))
    wide, _ = memory.pieces((1, 8, 8), np.zeros(1, dtype=np.float64))
    assert wide.dtype == np.float64
    assert not np.shares_memory(narrow, wide)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_thread_memory_begins_at_a_line_of_the_cache(dtype: str) -> None:
    pytest.importorskip("torch")
    from rootdk.engines.onethread import OneThreadKernels

    for size in (1, 3, 17):
        found = OneThreadKernels().empty((2, size), np.zeros(1, dtype=dtype))
        assert found.shape == (2, size)
        assert found.dtype == dtype
        assert found.ctypes.data % 64 == 0
        assert found.flags.c_contiguous
        assert found.flags.writeable
