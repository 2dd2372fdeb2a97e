"""torch's own threads, for work that is not torch's.

After an operation that torch has shared among threads, they wait for the next in a loop for
some ten milliseconds, each on a core. Threads of our own would have to share those cores with
them; the same threads are there at once. Inside, torch's operations run on one thread each.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from rootdk._lib.extras import is_loaded

_BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def team() -> Callable[[int, Callable[[], None]], None] | None:
    """Return what runs work on so many of torch's threads at once; None if they are out of reach.

    The thread that asks is one of them. There may be fewer of them, where the environment
    says so. The first exception that work raises is raised when all have ended. A process
    that was forked from another has none: threads do not come along, and the library would
    wait for them.
    """
    return _of_torch() if is_loaded("torch") and os.getpid() == _BORN else None


_BORN = os.getpid()


@cache
def _of_torch() -> Callable[[int, Callable[[], None]], None] | None:
    import torch

    # A library answers for those that it is linked with, so this is the one whose threads it uses.
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        parallel = ctypes.CDLL(str(library)).GOMP_parallel
    except (OSError, AttributeError):
        return None
    # Stable since GCC 4.9; LLVM's and Intel's libraries have it too.
    parallel.argtypes = (_BODY, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
    parallel.restype = None

    def run(threads: int, work: Callable[[], None]) -> None:
        failures: list[BaseException] = []

        def body(_: Any) -> None:
            try:
                work()
            except BaseException as failure:  # noqa: BLE001 - C has no way to pass it on
                failures.append(failure)

        parallel(_BODY(body), None, threads, 0)
        if failures:
            raise failures[0]

    return run
