"""Sums and scatters of entries, accumulated in float64 over chunks of products.

Everything is taken about a *pilot*, a mean of a few rows, so that entries with a large mean
lose no digits: with x = a − p, the scatter about the mean is Σxxᵀ − (Σx)(Σx)ᵀ/n, and what
is subtracted is small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rootdk._lib.arrays import Array, compute_dtype, float_info
from rootdk.engines import compiledsums
from rootdk.engines.call import UnfitError
from rootdk.engines.hostarrays import host
from rootdk.engines.kernels import Kernels
from rootdk.stats.block import Floats, Integers

ROUNDING = 7.0 * 2.0**-23
"""Relative error of an entry of a scatter whose chunks are float32 products of CHUNK rows.

Half of eps times √(CHUNK/3), the standard deviation of so many roundings that add up at random
(Higham and Mary 2019, section 3), if all chunks erred alike.
"""

ALLOWED = 2.0**-19
"""Relative error of a sum of squared deviations up to which float32 products are taken."""

CHUNK = 512
"""Rows whose products are summed in the arithmetic of the products, at most."""

_PILOT_ROWS = 256
_ENTRIES = 2**20
"""Entries that are taken about the pilot at once, of all heads."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Scatter:
    """Sums over rows of entries less a pilot, each with leading dimensions (batch, heads).

    Attributes
    ----------
    count : int
        Rows.
    pilot : array of float64, shape (batch, heads, head_dim)
        What the entries are taken about.
    total : array of float64, shape (batch, heads, head_dim)
        Sum of the entries less the pilot.
    products : array of float64, shape (batch, heads, head_dim, head_dim)
        Sum of their outer products.
    """

    count: int
    pilot: Floats
    total: Floats
    products: Floats

    @property
    def mean(self) -> Floats:
        """Mean of the entries, (batch, heads, head_dim)."""
        return self.pilot + self.total / max(self.count, 1)

    @property
    def about_mean(self) -> Floats:
        """Scatter about the mean, (batch, heads, head_dim, head_dim)."""
        outer = self.total[..., :, None] * self.total[..., None, :]
        return np.asarray(self.products - outer / max(self.count, 1))

    @property
    def sizes(self) -> Floats:
        """Root of the diagonal: what the rounding of an entry is relative to."""
        return np.sqrt(np.maximum(np.diagonal(self.products, axis1=-2, axis2=-1), 0.0))

    def per_head(self, heads: int) -> Scatter:
        """Return the scatter with each key-value head repeated for the heads that share it."""
        group = heads // max(self.total.shape[1], 1)
        return Scatter(
            count=self.count,
            pilot=np.repeat(self.pilot, group, axis=1),
            total=np.repeat(self.total, group, axis=1),
            products=np.repeat(self.products, group, axis=1),
        )


def pilot_of(array: Array, kernels: Kernels) -> Array:
    """Return the mean of some rows of a (batch, heads, rows, head_dim) array, in float32.

    Raises
    ------
    UnfitError
        If it is not finite.
    """
    xp = kernels.namespace
    step = max(int(array.shape[2]) // _PILOT_ROWS, 1)
    some = xp.astype(array[:, :, ::step], compute_dtype(array), copy=False)
    pilot = xp.sum(some, axis=2, keepdims=True) / max(int(some.shape[2]), 1)
    # Rounded, so that it is the same number in either arithmetic.
    pilot = xp.astype(xp.astype(pilot, xp.float32), xp.float64)
    if not bool(xp.all(xp.isfinite(pilot))):
        raise UnfitError("an entry is not finite")
    return pilot


def scatter_of(
    array: Array, rows: Integers, pilot: Array, arithmetic: str, kernels: Kernels
) -> Scatter:
    """Return the scatter of some rows of a (batch, heads, rows, head_dim) array.

    Raises
    ------
    UnfitError
        If an entry, or in this arithmetic a product, is not finite.
    """
    if arithmetic == "float32" and compiledsums.takes(array):
        sums = compiledsums.scatters(array, rows, pilot)
        check_finite(*sums)
        return Scatter(count=len(rows), pilot=host(pilot)[:, :, 0], total=sums[0], products=sums[1])
    xp, dtype = kernels.namespace, kernels.dtype(arithmetic)
    batch, heads, _, depth = (int(size) for size in array.shape)
    products = xp.zeros((batch, heads, depth, depth), dtype=xp.float64, device=array.device)
    total = xp.zeros((batch, heads, 1, depth), dtype=xp.float64, device=array.device)
    about = xp.astype(pilot, dtype)
    step = max(_ENTRIES // max(batch * heads * depth, 1), 16)
    buffer = xp.empty((batch, heads, min(step, len(rows)), depth), dtype=dtype, device=array.device)
    start = 0
    while start < len(rows):
        many = min(step, len(rows) - start)
        many -= many % CHUNK if many > CHUNK else 0
        some = kernels.select(array, rows[start : start + many], 2)
        centred = kernels.subtract(some, about, buffer[:, :, :many])
        chunks = centred.reshape((batch, heads, -1, min(many, CHUNK), depth))
        of_chunks = xp.matmul(xp.matrix_transpose(chunks), chunks)
        products += xp.sum(of_chunks, axis=2, dtype=xp.float64)
        total += xp.sum(xp.sum(chunks, axis=3), axis=2, keepdims=True, dtype=xp.float64)
        start += many
    found = Scatter(
        count=len(rows),
        pilot=host(pilot)[:, :, 0],
        total=host(total)[:, :, 0],
        products=host(products),
    )
    check_finite(found.products, found.total)
    return found


def check_finite(*sums: Floats) -> None:
    """Raise UnfitError unless all sums are finite: NaN and infinity pass through sums."""
    if not all(np.all(np.isfinite(each)) for each in sums):
        raise UnfitError("an entry is not finite")


def contract(left: Floats, right: Floats) -> Floats:
    """Return ⟨A, B⟩ of matrices in the last two dimensions."""
    return np.asarray(np.sum(left * right, axis=(-2, -1)))


def form(matrix: Floats, vector: Floats) -> Floats:
    """Return vᵀAv."""
    return np.asarray(np.sum(vector * np.vecdot(matrix, vector[..., None, :]), axis=-1))


def rounding_of(matrix: Floats, sizes: Floats) -> Floats:
    """Return what errs if each entry of the other factor of ⟨·, ·⟩ does, at random."""
    return np.asarray(ROUNDING * np.sqrt(form(matrix * matrix, sizes * sizes)))


def is_exact_enough(error: Floats, of: Floats) -> bool:
    """Tell whether float32 products will do: so small an error, and nothing lost to underflow."""
    tiny = float_info("float32").smallest_normal * 2.0**30
    return bool(np.all((error <= ALLOWED * of) & (of > tiny)))
