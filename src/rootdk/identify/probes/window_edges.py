"""How many keys a window shows before and after the diagonal."""

from __future__ import annotations

from typing import Any

import numpy as np

from rootdk.identify.bench import Bench
from rootdk.identify.probes._base import Probe
from rootdk.identify.subject import Refused
from rootdk.records import ArgumentFact, WindowAt

__all__ = ["WindowEdges"]

_LENGTH = 13
_PAIRS = ((2, 1), (3, 0))
_COUNTS = (3, 4)


class WindowEdges(Probe):
    """Weights at query 0 in the middle rows of a square: what is seen on either side."""

    name = "window"
    order = 70
    fills = ("mask.window",)

    def run(self, bench: Bench) -> None:
        """Try a window as a pair, and as one number, with and without causal order."""
        own = bench.subject.own_name("window")
        if own is None:
            built_in = self._seen(bench, {})
            if built_in is not None and built_in != (None, None):
                declared = bench.expected.get("window")
                if isinstance(declared, tuple) and len(declared) == 2:
                    window = _at("window", repr(declared), declared, built_in)
                else:
                    window = _at("", "", (None, None), built_in)
                bench.notebook.write(mask__window=(window,))
            return
        found: list[WindowAt] = []
        refusal: Refused | None = None
        for asked in (*_PAIRS, *_COUNTS):
            if found and isinstance(asked, int):
                break
            for causal in self._with_causal(bench):
                if any(w.asked == repr(asked) for w in found):
                    break
                try:
                    seen = self._reach(bench, {"window": asked, **causal})
                except Refused as error:
                    refusal = refusal or error
                    continue
                if seen is not None:
                    found.append(_at(own, repr(asked), _asked(asked, bool(causal), seen), seen))
        if not found and refusal is not None:
            bench.refused(self.name, "a window", refusal)
        if not found:
            return
        bench.notebook.write(mask__window=tuple(found))
        open_ended = all(w.seen_reach in ((None, None), (None, 0)) for w in found)
        right = all(w.asked_reach == w.seen_reach for w in found)
        effect = "none" if open_ended else "as-asked" if right else "wrong"
        bench.notebook.arguments.setdefault(
            own,
            ArgumentFact(
                name=own,
                meaning="window",
                tried=f"{own}={found[0].asked}",
                effect=effect,  # type: ignore[arg-type]
                detail="; ".join(f"{w.asked} shows {_text(w.seen_reach)}" for w in found),
            ),
        )
        self._witness(bench, found[0])

    def _with_causal(self, bench: Bench) -> list[dict[str, Any]]:
        """Return the plain call, and the causal one where there is a flag for it."""
        return [{}, bench.causal_value] if bench.causal_value else [{}]

    def _seen(self, bench: Bench, asked: dict[str, Any]) -> tuple[int | None, int | None] | None:
        try:
            return self._reach(bench, asked)
        except Refused as refusal:
            bench.refused(self.name, f"{_LENGTH} queries and keys", refusal)
            return None

    def _reach(self, bench: Bench, asked: dict[str, Any]) -> tuple[int | None, int | None] | None:
        """Return how many keys are seen before and after the middle query's own."""
        sizes = bench.with_sizes(queries=_LENGTH, keys=_LENGTH)
        query, key = bench.query_key(sizes)
        weights = bench.weights(np.zeros_like(query), key, **asked)
        seen = np.nan_to_num(weights[0, 0]) > 1e-6
        middle = range(4, _LENGTH - 4)
        lows, highs = set(), set()
        for i in middle:
            visible = np.flatnonzero(seen[i])
            if len(visible) == 0:
                return None
            lows.add(None if visible[0] == 0 else int(i - visible[0]))
            highs.add(None if visible[-1] == _LENGTH - 1 else int(visible[-1] - i))
        if len(lows) > 1 or len(highs) > 1:
            return None
        return lows.pop(), highs.pop()

    def _witness(self, bench: Bench, found: WindowAt) -> None:
        sizes = bench.with_sizes(queries=_LENGTH, keys=_LENGTH)
        query = np.zeros((sizes.batch, sizes.heads, sizes.queries, sizes.head_dim))
        key = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, sizes.head_dim))
        width = max(sizes.value_dim, _LENGTH)
        value = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, width))
        value[..., :_LENGTH] = np.eye(_LENGTH)
        before, after = found.asked_reach
        i = _LENGTH // 2
        low = 0 if before is None else i - before
        high = _LENGTH if after is None else i + after + 1
        bench.witness(
            "mask.window",
            f"query and key are 0 and the values one-hot: what query {i} of {_LENGTH} sees",
            query,
            key,
            value,
            seen=f"np.flatnonzero(output[0, 0, {i}, :{_LENGTH}])",
            expected=f"np.arange({low}, {high})",
            asked={"window": eval_window(found.asked)},
        )


def eval_window(text: str) -> Any:
    """Return the window that a text of this module shows."""
    numbers = tuple(int(part) for part in text.strip("()").split(",") if part.strip())
    return numbers if text.startswith("(") else numbers[0]


def _asked(
    asked: Any, causal: bool, seen: tuple[int | None, int | None]
) -> tuple[int | None, int | None]:
    """Return the reach that is asked for.

    One number counts the keys, the query's own included, and says nothing of what follows; on
    both sides alike it is a distance, and both readings of that are in use.
    """
    if isinstance(asked, tuple):
        return asked[0], 0 if causal else asked[1]
    if seen == (asked, asked):
        return seen
    return asked - 1, seen[1]


def _at(
    own: str, asked: str, reach: tuple[int | None, int | None], seen: tuple[int | None, int | None]
) -> WindowAt:
    return WindowAt(
        argument=own,
        asked=asked,
        asked_reach=reach,
        seen_reach=seen,
        queries=_LENGTH,
        keys=_LENGTH,
    )


def _text(reach: tuple[int | None, int | None]) -> str:
    before, after = ("all" if n is None else str(n) for n in reach)
    return f"{before} before and {after} after"
