"""The worst difference from the reference, by engine and dtype.

    python bench/errors.py [--calls 3]

Random calls of 192 queries and keys, with entries of mean 0 and of mean 300 and scores up to 10,
200 and 10 000, in turn whole, causal and padded. A spread is compared as a ratio; others as
they are. Where Numba is installed, everything is done before compiled code is loaded, and after.
Then the linear engine alone, at a million keys: against centred keys in float64.
"""

from __future__ import annotations

import argparse
import itertools
from collections import defaultdict
from typing import Any

import numpy as np
import torch
from engines_timing import load_compiled

from rootdk import measure
from rootdk._lib.errors import ArgumentError
from rootdk.engines import compiled, workers

RATIOS = ("spread", "row_spread", "effective_keys_2")
LINEAR = ("spread", "row_spread", "score_mean")
FUSED = ("entropy_nats", "effective_keys_2", "jacobian_trace", "logsumexp")
BLOCKED = (*LINEAR, *FUSED, "max_score", "max_weight", "jacobian_norm")
ENGINES = {"linear": LINEAR, "blocked": BLOCKED, "fused": FUSED}


def call(rng: np.random.Generator, dtype: torch.dtype, mean: float, size: float) -> Any:
    query, key = (torch.from_numpy(rng.normal(size=(1, 4, 192, 64)) + mean) for _ in range(2))
    query, key = query.to(dtype), key.to(dtype)
    norms = [float(torch.linalg.vector_norm(each.double(), dim=-1).max()) for each in (query, key)]
    return query, key, size / (norms[0] * norms[1])


def errors(calls: int) -> dict[tuple[str, str], dict[str, float]]:
    worst: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    rng = np.random.default_rng(0)
    hiding: list[dict[str, Any]] = [{}, {"causal": "top_left"}, {"mask": torch.arange(192) < 150}]
    dtypes = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
    for dtype, mean, size in itertools.product(dtypes, (0.0, 300.0), (10.0, 200.0, 1e4)):
        for more in itertools.islice(itertools.cycle(hiding), calls):
            query, key, scale = call(rng, dtype, mean, size)
            given = {"scale": scale, **more}
            exact = measure(query, key, quantities=BLOCKED, engine="reference", **given)
            for engine, names in ENGINES.items():
                try:
                    found = measure(query, key, quantities=names, engine=engine, **given)
                except ArgumentError:
                    continue
                ran = found.engine.split("(", 1)[1].rstrip(")").split(", ")
                place = (f"{engine}, {ran[0]}, {ran[1]}", str(dtype)[6:])
                for name in names:
                    apart = np.abs(found[name] - exact[name])
                    apart = apart / np.abs(exact[name]) if name in RATIOS else apart
                    worst[place][name] = max(worst[place][name], float(np.max(apart)))
    return worst


def of_a_million() -> None:
    rng = np.random.default_rng(0)
    for mean in (0.0, 300.0):
        query = (rng.normal(size=(1, 16, 64)) + mean).astype(np.float32)
        key = (rng.normal(size=(1, 1_000_000, 64)) + mean).astype(np.float32)
        found = measure(query, key, quantities=LINEAR, engine="linear")
        # Centred first, so that float64 holds what is compared.
        centre = np.mean(key[0], axis=0, dtype=np.float64)
        whole = query[0].astype(np.float64) @ (key[0] - centre).T / 8
        whole += (query[0] @ centre / 8)[:, None] - np.mean(query[0] @ centre / 8)
        row = np.sqrt(np.mean(np.var(whole, axis=1)))
        print(
            f"a million keys, entries of mean {mean:.0f}: spread {found['spread'][0]:.7f}, off by "
            f"{float(abs(found['spread'][0] / np.std(whole) - 1)):.1e} of itself; within rows by "
            f"{float(abs(found['row_spread'][0] / row - 1)):.1e} ({found.engine})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=3)
    options = parser.parse_args()
    assert not compiled.is_loaded()
    worst, names = errors(options.calls), BLOCKED
    of_a_million()
    if workers.is_installed():
        load_compiled()
        of_a_million()
        for place, found in errors(options.calls).items():
            for name, apart in found.items():
                worst[place][name] = max(worst[place][name], apart)
    heads = ("engine, library, arithmetic", "inputs", *names)
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for (engine, dtype), found in sorted(worst.items()):
        shown = (f"{found[name]:.0e}" if name in found else "" for name in names)
        print(f"| {engine} | {dtype} | {' | '.join(shown)} |")


if __name__ == "__main__":
    main()
