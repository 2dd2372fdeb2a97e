r"""How far an engine may be from the reference: one bound per quantity, from the dtype's eps.

Everything follows from the error of a single score. A product of head_dim terms in
precision eps is off by at most about √head_dim · eps · |q||k| (Higham and Mary 2019,
theorem 3.1, probabilistic), so with c the scale and k' the centred key

    δ = (4 + √d) · (eps_engine · c max|q| max|k'| + eps_64 · (c max|q| max|k| + |s_top|)),

the second part for the reference and for the offsets, which are float64. Exponentials and
sums over n keys add a relative error ρ = eps_engine · (8 + log₂ n); together they move each
weight by a relative θ = exp(2δ + ρ) − 1. The rest is calculus on one row:

    |∂H/∂s|₁ ≤ 2H,  |∂w/∂s|₁ ≤ 2w(1 − w),  |∂Σw²/∂s|₁ ≤ 4(1 − Σw²),

and a mean over rows is off by at most the mean of what its rows are off by.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from engines.cases import Case

from rootdk.engines import reference
from rootdk.engines.call import Call, isolated, prepare
from rootdk.stats import Summary

EPS_64 = float(np.finfo(np.float64).eps)


def call_of(case: Case, **more: object) -> Call:
    """The prepared call of a case."""
    arguments = dict.fromkeys(
        "value scale mask bias causal window softcap segments rows inputs".split()
    )
    arguments |= {"score_dtype": None, **case.arguments, **more}
    return prepare(case.query, case.key, arguments.pop("value"), **arguments)


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Bounds for one case, measured in arithmetic of precision ``eps``."""

    case: Case
    eps: float
    oracle: Summary

    def __getitem__(self, name: str) -> np.ndarray:
        """The largest difference allowed, per head."""
        return _BOUNDS.get(name, _exactly)(self)

    @cached_property
    def _call(self) -> Call:
        return call_of(self.case)

    @cached_property
    def blocks(self) -> list[reference.WholeBlock]:
        """The rows of the reference."""
        with isolated(self._call):
            return list(reference.blocks(self._call))

    def rows(self, name: str) -> np.ndarray:
        """A number of every row, (num_heads, batch · queries)."""
        with np.errstate(all="ignore"):
            parts = [getattr(block, name) for block in self.blocks]
        return np.concatenate(parts, axis=1)

    @cached_property
    def delta(self) -> np.ndarray:
        """Error of a final score near the largest of its row, per row."""
        top = np.where(self.rows("settled"), np.abs(self.rows("logsumexp")), 0.0)
        # A cap is of the whole score, in the arithmetic of the engine.
        eps = EPS_64 if self._call.softcap is None else self.eps
        return self.delta_scaled + (4 + np.sqrt(self._call.head_dim)) * eps * top

    @cached_property
    def delta_scaled(self) -> np.ndarray:
        """Error of a scaled score, per row."""
        call = self._call
        if not call.keys or not len(call.rows):
            return np.zeros((call.num_heads, call.batch * len(call.rows)))
        key = np.repeat(call.key, call.queries_per_kv_head, axis=1)
        largest = np.max(_norm(call.query), axis=-1), np.max(_norm(key), axis=-1)
        centred = np.max(_norm(key - np.mean(key, axis=2, keepdims=True)), axis=-1)
        engine = self.eps * abs(call.scale) * largest[0] * centred
        oracle = EPS_64 * abs(call.scale) * largest[0] * largest[1]
        per_element = np.repeat((engine + oracle).T, len(call.rows), axis=1)
        return (4 + np.sqrt(call.head_dim)) * per_element

    @cached_property
    def rho(self) -> float:
        """Relative error of exponentials and their sums."""
        return self.eps * (8 + np.log2(max(self._call.keys, 1)))

    @cached_property
    def theta(self) -> np.ndarray:
        """Relative error of a weight, per row."""
        return np.expm1(np.minimum(2 * self.delta + self.rho, 700.0))

    def mean(self, of_rows: np.ndarray, *, over: str = "plural") -> np.ndarray:
        """Mean over the rows that a quantity averages, with room for float64's own rounding."""
        chosen = self.rows(over)
        count = np.maximum(np.sum(chosen, axis=1), 1)
        return np.sum(np.where(chosen, of_rows, 0.0), axis=1) / count

    @cached_property
    def largest_delta(self) -> np.ndarray:
        """Largest error of any score of the head."""
        return np.max(self.delta_scaled, axis=1, initial=0.0)

    def own(self, name: str) -> np.ndarray:
        """Rounding of float64 in the number itself."""
        return 64 * EPS_64 * np.abs(np.nan_to_num(self.oracle[name], posinf=0.0, neginf=0.0))


def _norm(array: np.ndarray) -> np.ndarray:
    return np.sqrt(np.sum(np.square(array, dtype=np.float64), axis=-1))


def _exactly(bounds: Bounds) -> np.ndarray:
    return np.zeros(bounds.oracle.num_heads)


def _entries(name: str) -> Callable[[Bounds], np.ndarray]:
    def bound(bounds: Bounds) -> np.ndarray:
        source = name.partition("_")[0]
        return 64 * EPS_64 * np.nan_to_num(bounds.oracle[f"{source}_rms"])

    return bound


def _score(bounds: Bounds) -> np.ndarray:
    return bounds.largest_delta


def _spread(name: str) -> Callable[[Bounds], np.ndarray]:
    return lambda bounds: bounds.largest_delta + bounds.rho * np.nan_to_num(bounds.oracle[name])


def _headroom(bounds: Bounds) -> np.ndarray:
    oracle = bounds.oracle
    magnitude = np.maximum(np.abs(oracle["min_score"]), np.abs(oracle["max_score"]))
    off = np.divide(
        bounds.largest_delta, magnitude, out=np.zeros_like(magnitude), where=magnitude > 0
    )
    return np.nan_to_num(oracle["headroom"], posinf=0.0) * (np.expm1(2 * off) + 4 * EPS_64)


def _logsumexp(bounds: Bounds) -> np.ndarray:
    return bounds.mean(bounds.delta + bounds.rho, over="settled") + bounds.own("logsumexp")


def _entropy(bounds: Bounds) -> np.ndarray:
    return bounds.mean(_row_entropy(bounds)) + bounds.own("entropy_nats")


def _row_entropy(bounds: Bounds) -> np.ndarray:
    # The last term is the reference's own: w log w of the largest weight, rounded to 1.
    largest = np.log(np.maximum(bounds.rows("visible_keys"), 1))
    error = 3 * bounds.theta * bounds.rows("entropy") + 8 * EPS_64 * (1 + largest)
    return np.minimum(error, largest)


def _entropy_share(bounds: Bounds) -> np.ndarray:
    largest = np.log(np.maximum(bounds.rows("visible_keys"), 2))
    return bounds.mean(_row_entropy(bounds) / largest) + bounds.own("entropy_share")


def _effective_keys(bounds: Bounds) -> np.ndarray:
    keys, entropy = bounds.rows("visible_keys"), bounds.rows("entropy")
    error = np.exp(entropy) * np.expm1(_row_entropy(bounds))
    return bounds.mean(np.minimum(error, keys)) + bounds.own("effective_keys")


def _effective_keys_2(bounds: Bounds) -> np.ndarray:
    squares, keys = bounds.rows("sum_squares"), bounds.rows("visible_keys")
    error = np.minimum(3 * bounds.theta / np.where(squares > 0, squares, 1), keys)
    return bounds.mean(error) + bounds.own("effective_keys_2")


def _row_max_weight(bounds: Bounds) -> np.ndarray:
    slope = bounds.rows("max_weight") * bounds.rows("max_weight_complement")
    return np.minimum(bounds.theta * slope + 8 * EPS_64, 1.0)


def _max_weight(bounds: Bounds) -> np.ndarray:
    return bounds.mean(_row_max_weight(bounds)) + bounds.own("max_weight")


def _rows_over(share: float) -> Callable[[Bounds], np.ndarray]:
    def bound(bounds: Bounds) -> np.ndarray:
        undecided = np.abs(bounds.rows("max_weight") - share) <= _row_max_weight(bounds)
        return bounds.mean(undecided.astype(np.float64)) + EPS_64

    return bound


def _first_key_weight(bounds: Bounds) -> np.ndarray:
    error = 2 * bounds.theta * bounds.rows("first_key_weight") + 8 * EPS_64
    return bounds.mean(np.minimum(error, 1.0))


def _jacobian_max(bounds: Bounds) -> np.ndarray:
    return bounds.mean(_row_max_weight(bounds))


def _jacobian_trace(bounds: Bounds) -> np.ndarray:
    error = 4 * bounds.theta * bounds.rows("sum_squares_complement") + 8 * EPS_64
    return bounds.mean(np.minimum(error, 1.0))


def _jacobian_norm(bounds: Bounds) -> np.ndarray:
    error = 6 * bounds.theta * bounds.rows("jacobian_norm") + 8 * EPS_64
    return bounds.mean(np.minimum(error, 1.0))


def _predicted_spread(bounds: Bounds) -> np.ndarray:
    oracle = bounds.oracle
    size = np.nan_to_num(oracle["query_rms"] * oracle["key_rms"])
    return 256 * EPS_64 * abs(oracle.scale) * np.sqrt(oracle.head_dim) * size


def _implied_scale(bounds: Bounds) -> np.ndarray:
    oracle = bounds.oracle
    unscaled = np.sqrt(oracle.head_dim) * oracle["query_std"] * oracle["key_std"]
    size = np.sqrt(oracle.head_dim) * oracle["query_rms"] * oracle["key_rms"]
    scale = np.nan_to_num(oracle["implied_scale"])
    with np.errstate(all="ignore"):
        relative = 512 * EPS_64 * size / unscaled
        bound = _spread("spread")(bounds) / unscaled + scale * relative
    return np.nan_to_num(bound, posinf=0.0)


_BOUNDS: dict[str, Callable[[Bounds], np.ndarray]] = {
    "score_mean": _score,
    "min_score": _score,
    "max_score": _score,
    "spread": _spread("spread"),
    "row_spread": _spread("row_spread"),
    "headroom": _headroom,
    "logsumexp": _logsumexp,
    "entropy_nats": _entropy,
    "entropy_share": _entropy_share,
    "effective_keys": _effective_keys,
    "effective_keys_2": _effective_keys_2,
    "max_weight": _max_weight,
    "rows_over_50": _rows_over(0.50),
    "rows_over_90": _rows_over(0.90),
    "rows_over_99": _rows_over(0.99),
    "first_key_weight": _first_key_weight,
    "jacobian_max": _jacobian_max,
    "jacobian_trace": _jacobian_trace,
    "jacobian_norm": _jacobian_norm,
    "predicted_spread": _predicted_spread,
    "implied_scale": _implied_scale,
    "projection_gain": lambda bounds: bounds.own("projection_gain"),
    "input_rms": lambda bounds: bounds.own("input_rms"),
    "value_std": lambda bounds: bounds.own("value_std"),
    **{name: _entries(name) for name in ("query_std", "query_mean", "query_rms")},
    **{name: _entries(name) for name in ("key_std", "key_mean", "key_rms")},
}
"""Bound by quantity. What is not here is counted, and must agree exactly."""
