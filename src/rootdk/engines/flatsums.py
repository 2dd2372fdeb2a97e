"""Where sums of flat rows are kept: with the library of the scores until many are there."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from rootdk._lib.arrays import Array
from rootdk.engines.hiding import Edges
from rootdk.engines.hostarrays import host
from rootdk.engines.kernels import Kernels
from rootdk.stats.block import Floats, Integers

SCORES = ("squares", "greatest", "least")
EXPONENTIALS = ("largest", "first", "weighted_scores", "others", "other_squares", "other_cubes")
_SHAPES = 64
"""Shapes that views of the pieces are remembered in: other heads have the same ones."""

_PLACES = {name: place for place, name in enumerate(SCORES + EXPONENTIALS)}


class Memory(threading.local):
    """Two pieces of memory for scores in each thread, and what else its heads may share.

    Parameters
    ----------
    kernels : Kernels
        The library of the scores.
    room : int
        Scores that each piece has room for, or as many as are asked for at once. Where rows see
        ever more keys, memory that grew with them would be fetched from the system time and again.
    """

    def __init__(self, kernels: Kernels, room: int) -> None:
        self.kernels = kernels
        self.edges = Edges(kernels)
        self._room = room
        self._whole: Array | None = None
        self._shaped: dict[tuple[int, int, int], tuple[Array, Array]] = {}
        self._codes: Array | None = None

    def pieces(self, shape: tuple[int, int, int], like: Array) -> tuple[Array, Array]:
        """Return both, of a shape."""
        size = shape[0] * shape[1] * shape[2]
        if self._whole is None or self._whole.shape[1] < size or self._whole.dtype != like.dtype:
            room = max(size, self._room)
            self._whole, self._shaped = self.kernels.empty((2, room), like), {}
        if shape not in self._shaped:
            if len(self._shaped) >= _SHAPES:
                self._shaped.clear()
            first, second = (self._whole[at, :size].reshape(shape) for at in (0, 1))
            self._shaped[shape] = first, second
        return self._shaped[shape]

    def codes(self, heads: int, most: int, like: Array) -> Array:
        """Return memory for so many bytes of each head, at least, where an array is."""
        size = heads * most
        if self._codes is None or self._codes.shape[0] < size:
            self._codes = self.kernels.bytes_for((size,), like)
        return self._codes[:size].reshape((heads, most))


class Sums:
    """Sums of a few rows by name, to be written where the scores are, and read on the host.

    Parameters
    ----------
    sums : array, shape (len(names), num_heads, rows)
        Where they are.
    kernels : Kernels
        Their library.
    base : float
        That of the exponentials: scores are in units of its logarithm.
    """

    def __init__(self, sums: Array, kernels: Kernels, base: float) -> None:
        self._sums = sums
        self._shared = kernels.shared(sums)
        self.base = base

    def __getitem__(self, name: str) -> Array:
        return self._sums[_PLACES[name]]

    def host(self, name: str) -> npt.NDArray[Any]:
        """Return what has been written by now."""
        return host(self[name]) if self._shared is None else self._shared[_PLACES[name]]


@dataclass(eq=False)
class Found:
    """What is known of rows: sums where the scores are, the rest on the host.

    Attributes
    ----------
    base : float
        That of the exponentials: scores are in units of its logarithm.
    sums : array, shape (len(names), num_heads, rows)
        Of scores, and of exponentials times any number of the row, ``largest``.
    mean, taken : array of float64, shape (num_heads, rows)
        The mean of the scores, and how much was taken off them before they were summed.
    top : array of float64, shape (num_heads, rows)
        The largest number of which an exponential was taken.
    error : array of float64, shape (num_heads, rows)
        By how much a row's scores may be off.
    seen : array of int64, shape (num_heads, rows)
        Visible keys.
    exact : list of (indices, dict of str to array)
        Sums of exponentials, without a largest one, that take the place of others.
    """

    base: float
    sums: Array
    mean: Floats
    taken: Floats
    top: Floats
    error: Floats
    seen: Integers
    kernels: Kernels
    exact: list[tuple[tuple[Any, ...], dict[str, Floats]]] = field(default_factory=list)

    def some(self, rows: slice) -> Sums:
        """Return the sums of some rows."""
        return Sums(self.sums[:, :, rows], self.kernels, self.base)

    @cached_property
    def columns(self) -> dict[str, Floats]:
        """Numbers of all rows, the scores without what centring took from them."""
        sums = dict(zip(_PLACES, host(self.sums), strict=False))
        seen, top = self.seen > 0, sums["greatest"] + self.taken
        left, unit = self.seen * (self.mean - self.taken) ** 2, math.log(self.base)
        found = {
            "score_mean": np.where(seen, self.mean * unit, 0.0),
            "score_m2": np.maximum(sums["squares"] - left, 0.0) * unit**2,
            "score_min": np.where(seen, (sums["least"] + self.taken) * unit, np.inf),
            "score_max": np.where(seen, top * unit, -np.inf),
            "peak": top * unit,
        }
        if "largest" in sums:
            found |= {name: np.where(seen, each, 0.0) for name, each in self._relative(sums)}
        return found

    def _relative(self, sums: dict[str, Floats]) -> list[tuple[str, Floats]]:
        one, unit = sums["largest"], math.log(self.base)
        gaps = (sums["weighted_scores"] - self.top * sums["others"]) / one
        found = {
            "first": sums["first"] / one,
            "weighted_gaps": np.minimum(gaps, 0.0) * unit,
            "others": np.maximum(sums["others"] / one - 1.0, 0.0),
            "other_squares": np.maximum(sums["other_squares"] / one**2 - 1.0, 0.0),
            "other_cubes": np.maximum(sums["other_cubes"] / one**3 - 1.0, 0.0),
        }
        for where, better in self.exact:
            powers = zip(better.items(), (1, 1, 2, 3), strict=True)
            for (name, values), power in powers:
                found[name][where] = values / one[where] ** power
            found["weighted_gaps"][where] *= unit
        return list(found.items())
