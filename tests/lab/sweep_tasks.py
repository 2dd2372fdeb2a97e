"""Functions that a worker process can import, for the tests of sweeps."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np


def drawn(rng: np.random.Generator, *, size: int, wait: float = 0.0) -> Iterator[dict[str, Any]]:
    """A record that depends on the seed; later when told to wait."""
    time.sleep(wait)
    matrix = rng.standard_normal((size, size))
    product = np.einsum("ij,jk->ik", matrix, matrix)
    yield {"size": size, "sum": product.sum(), "values": matrix[0].tolist(), "none": np.nan}
    yield {"size": size, "second": True}


def killed_once(rng: np.random.Generator, *, size: int, mark: str) -> Iterator[dict[str, Any]]:
    """The same; but the process that comes here first is killed, as if memory had run out."""
    if mark and not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    yield from drawn(rng, size=size)


def failing(rng: np.random.Generator, *, size: int) -> Iterator[dict[str, Any]]:
    """Fails on the second task."""
    if size == 2:
        raise ZeroDivisionError("two")
    yield from drawn(rng, size=size)
