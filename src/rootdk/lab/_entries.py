"""Entries of queries and keys: which law they follow, how large they are, how they go together."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from rootdk._lib.errors import ArgumentError

__all__ = ["EXPECTED", "LAWS", "Entries", "Law", "check_law"]

Floats = npt.NDArray[np.float64]

LAWS = ("normal", "uniform", "rademacher", "student-t(DF)")
EXPECTED = "normal, uniform, rademacher, or student-t(DF) with DF above 2"
_STUDENT = re.compile(r"student-t\(([0-9.]+)\)")


@dataclass(frozen=True, kw_only=True)
class Law:
    """A distribution of entries, of mean 0 and standard deviation 1.

    Attributes
    ----------
    name : str
        ``"normal"``, ``"uniform"``, ``"rademacher"`` or ``"student-t"``.
    freedom : float
        Degrees of freedom of Student's t; infinite for the others.
    """

    name: str
    freedom: float = math.inf

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the law that a text names, such as ``"student-t(5)"``.

        Raises
        ------
        ArgumentError
            If it names none, or one whose variance is not finite.
        """
        if text in LAWS[:3]:
            return cls(name=text)
        match = _STUDENT.fullmatch(text)
        try:
            freedom = float(match[1]) if match else math.nan
        except ValueError:
            freedom = math.nan
        if not freedom > 2.0:
            raise ArgumentError.unexpected("distribution", text, EXPECTED)
        return cls(name="student-t", freedom=freedom)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Return independent entries; normal ones are ``rng.standard_normal(shape)``."""
        if self.name == "normal":
            return rng.standard_normal(shape)
        if self.name == "uniform":
            return rng.uniform(-math.sqrt(3.0), math.sqrt(3.0), shape)
        if self.name == "rademacher":
            return 2.0 * rng.integers(0, 2, shape).astype(np.float64) - 1.0
        size = math.sqrt((self.freedom - 2.0) / self.freedom)
        drawn: Floats = size * rng.standard_t(self.freedom, shape)
        return drawn


@dataclass(frozen=True, kw_only=True)
class Entries:
    r"""Entries of a query and of its keys.

    .. math:: q = \mu + \sigma_q u, \qquad k = \mu + \sigma_k (\rho u + \sqrt{1 - \rho^2}\, v)

    with u and v independent entries of the law, the same u in a query and in all its keys.

    Attributes
    ----------
    law : Law
        Of u and v.
    query_std, key_std : float
        Standard deviations σ.
    mean : float
        The mean μ of both.
    correlation : float
        The correlation ρ of an entry of a query with the same entry of each of its keys.
    """

    law: Law
    query_std: float = 1.0
    key_std: float = 1.0
    mean: float = 0.0
    correlation: float = 0.0

    def pair(
        self, rng: np.random.Generator, queries: int, keys: int, head_dim: int
    ) -> tuple[Floats, Floats]:
        """Return queries ``(queries, head_dim)``, then keys ``(queries, keys, head_dim)``."""
        u = self.law.draw(rng, (queries, head_dim))
        v = self.law.draw(rng, (queries, keys, head_dim))
        if self.correlation:
            v = self.correlation * u[:, None] + math.sqrt(1.0 - self.correlation**2) * v
        return self.query_std * u + self.mean, self.key_std * v + self.mean

    def scores(
        self, rng: np.random.Generator, queries: int, keys: int, head_dim: int, *, batch: int
    ) -> Floats:
        """Return raw scores ``(queries, keys)`` of entries that are all drawn, batch by batch."""
        found = []
        for start in range(0, queries, batch):
            query, key = self.pair(rng, min(batch, queries - start), keys, head_dim)
            found.append(np.einsum("qd,qkd->qk", query, key))
        return np.concatenate(found)


def check_law(text: Any) -> None:
    """Raise ArgumentError if a text names no law."""
    Law.read(text)
