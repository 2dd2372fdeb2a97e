"""Which keys causal order shows, on shapes that are not square, and in decoding."""

from __future__ import annotations

from typing import Any

import numpy as np

from rootdk.identify.bench import Bench
from rootdk.identify.masks import expected_weights, moderate
from rootdk.identify.probes._base import Probe
from rootdk.identify.subject import Floats, Refused
from rootdk.records import ArgumentFact, CausalAt

__all__ = ["CausalFlag", "aligned", "shown_at"]

_NAMED = ("bottom_right", "top_left")


class CausalFlag(Probe):
    """Weights at query 0 are equal over what is visible, and 0 elsewhere."""

    name = "causal"
    order = 68
    fills = (
        "mask.causal_argument",
        "mask.causal",
        "mask.alignment",
        "mask.alignment_offset",
        "mask.decode",
        "mask.empty_rows",
        "mask.after_softmax",
        "mask.masked_sum_min",
    )

    def run(self, bench: Bench) -> None:
        """Read the last visible key of every query at every shape."""
        note, subject = bench.notebook, bench.subject
        always = bool(note.get("mask.always_causal"))
        if not (subject.takes("causal") or always) or note.get("softmax.axis") == "heads":
            return
        note.write(mask__causal_argument=subject.own_name("causal"))
        asked = {} if always and not subject.takes("causal") else self._value(bench)
        if asked is None:
            return
        bench.causal_value = asked
        shapes = [shown_at(bench, q, k, asked, self.name) for q, k in _shapes(bench)]
        found = tuple(shape for shape in shapes if shape is not None)
        decode = shown_at(bench, 1, bench.sizes.keys, asked, self.name)
        word, offset = aligned(found)
        note.write(mask__causal=found)
        if word is not None:
            note.write(mask__alignment=word)
        if offset is not None:
            note.write(mask__alignment_offset=offset)
        if decode is not None:
            note.write(mask__decode=decode)
        self._after_softmax(bench, asked, word)
        self._witness(bench, asked)

    def _after_softmax(self, bench: Bench, asked: dict[str, Any], word: str | None) -> None:
        """See whether the weights were normalised before causal order took some away."""
        if word not in ("top_left", "bottom_right") or not asked:
            return
        sizes = bench.sizes
        query, key = moderate(bench)
        shift = sizes.keys - sizes.queries if word == "bottom_right" else 0
        mask = np.tri(sizes.queries, sizes.keys, shift, dtype=bool)[None, None]
        try:
            seen = bench.weights(query, key, **asked)
        except Refused as refusal:
            bench.refused(self.name, "causal order with scores", refusal)
            return
        cut = expected_weights(bench, query, key) * mask
        if float(np.max(np.abs(seen - cut))) < 2e-3:
            bench.notebook.write(
                mask__after_softmax=True, mask__masked_sum_min=float(seen.sum(axis=-1).min())
            )

    def _value(self, bench: Bench) -> dict[str, Any] | None:
        """Return the value that switches causal order on: True, or one of two words."""
        query, key = bench.query_key(bench.sizes)
        first: Refused | None = None
        for value in (True, *_NAMED):
            try:
                bench.weights(np.zeros_like(query), key, causal=value)
            except Refused as refusal:
                first = first or refusal
                continue
            if value is not True:
                self._named(bench)
            return {"causal": value}
        if first is not None:
            bench.refused(self.name, "causal order", first)
        return None

    def _named(self, bench: Bench) -> None:
        """See whether an alignment that is asked for by name is the one that is given."""
        own = bench.subject.own_name("causal") or "causal"
        for value in _NAMED:
            shapes = [
                shown_at(bench, q, k, {"causal": value}, self.name) for q, k in _shapes(bench)
            ]
            word, _ = aligned(tuple(s for s in shapes if s is not None))
            effect = "as-asked" if word == value else "none" if word == "none" else "wrong"
            bench.notebook.arguments[f"{own}={value}"] = ArgumentFact(
                name=own,
                meaning="causal",
                tried=repr(value),
                effect=effect,  # type: ignore[arg-type]
                detail=str(word),
            )

    def _witness(self, bench: Bench, asked: dict[str, Any]) -> None:
        sizes = bench.sizes
        query = np.zeros((sizes.batch, sizes.heads, sizes.queries, sizes.head_dim))
        key = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, sizes.head_dim))
        value = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, sizes.value_dim))
        value[..., : sizes.keys] = np.eye(sizes.keys)[:, : sizes.value_dim]
        try:
            for fact in ("mask.causal", "mask.alignment", "mask.decode", "mask.always_causal"):
                bench.witness(
                    fact,
                    "query and key are 0 and the values are one-hot: an output is 1/n at each of "
                    "the n keys that its query sees (1 is shown for those)",
                    query,
                    key,
                    value,
                    seen=f"(output[0, 0, :, :{min(sizes.keys, sizes.value_dim)}] > 0).astype(int)",
                    expected=f"np.tri({sizes.queries}, {min(sizes.keys, sizes.value_dim)}, "
                    f"{sizes.keys - sizes.queries}, dtype=int)",
                    asked=asked,
                )
        except ValueError:
            return


def shown_at(
    bench: Bench, queries: int, keys: int, asked: dict[str, Any], probe: str
) -> CausalAt | None:
    """Return which keys a causal call shows at one shape, None if it is refused."""
    sizes = bench.with_sizes(queries=queries, keys=keys)
    query, key = bench.query_key(sizes)
    try:
        weights = bench.weights(np.zeros_like(query), key, **asked)
    except Refused as refusal:
        bench.refused(probe, f"causal order at {queries} queries and {keys} keys", refusal)
        return None
    _note_empty(bench, weights)
    seen = np.nan_to_num(weights[0, 0]) > 1e-6
    last = tuple(int(np.flatnonzero(row)[-1]) if row.any() else -1 for row in seen)
    whole = all(row[: end + 1].all() for row, end in zip(seen, last, strict=True))
    return CausalAt(
        queries=queries,
        keys=keys,
        last_visible=last,
        contiguous=bool(whole),
        reversed=queries > 1 and _is_reversed(seen),
    )


def _is_reversed(seen: Any) -> bool:
    """Whether later keys are seen and earlier ones are not, from either corner."""
    queries, keys = seen.shape
    ahead = np.arange(keys)[None, :] - np.arange(queries)[:, None]
    for shift in (0, keys - queries):
        for off in (0, 1):
            asked = ahead >= shift + off
            # A row without a key shows what the function does with empty rows.
            rows = asked.any(axis=-1)
            if rows.any() and bool((seen == asked)[rows].all()):
                return True
    return False


def _note_empty(bench: Bench, weights: Floats) -> None:
    """Write down what a row gives that causal order leaves without a key."""
    rows = weights[0, 0]
    word = None
    if np.isnan(rows).all(axis=-1).any():
        word = "nan"
    elif (np.abs(rows).max(axis=-1) == 0.0).any():
        word = "zero"
    if word is not None:
        known = dict(bench.notebook.get("mask.empty_rows", {}))
        bench.notebook.write(mask__empty_rows={**known, "causal": word})


def _shapes(bench: Bench) -> list[tuple[int, int]]:
    sizes = bench.sizes
    if sizes.queries == sizes.keys:
        return [(sizes.queries, sizes.keys)]
    low, high = sorted((sizes.queries, sizes.keys))
    return [(low, high), (high, low), (high, high)]


def aligned(found: tuple[CausalAt, ...]) -> tuple[str | None, int | None]:
    """Return in one word where the diagonal starts, None if that cannot be told, and how far off.

    Examples
    --------
    >>> aligned((CausalAt(queries=2, keys=4, last_visible=(2, 3)),))
    ('bottom_right', None)
    >>> aligned((CausalAt(queries=2, keys=2, last_visible=(1, 1)),))
    ('none', None)
    """
    if not found:
        return None, None
    every = [_words(shape) for shape in found]
    common = set.intersection(*every)
    if all(shape.queries == shape.keys for shape in found) and "top_left" in common:
        return None, None  # square scores alone cannot tell one corner from the other
    for word in ("top_left", "bottom_right", "inverted", "none"):
        if word in common:
            return word, None
    for off in (1, -1):
        if f"off{off}" in common:
            return "off-by-one", off
    known = {"top_left", "bottom_right", "none"}
    return ("mixed" if all(words & known for words in every) else "other"), None


def _words(shape: CausalAt) -> set[str]:
    """Return everything that one shape fits; a square one fits both corners.

    What a row shows that should see no key says nothing: some functions give it all keys.
    """
    if shape.reversed:
        return {"inverted"}
    i = np.arange(shape.queries)
    last = np.asarray(shape.last_visible)
    found = set()
    corners = {"top_left": 0, "bottom_right": shape.keys - shape.queries}
    for word, shift in corners.items():
        for off in (0, 1, -1):
            asked = np.minimum(i + shift + off, shape.keys - 1)
            rows = asked >= 0
            if rows.any() and bool((last[rows] == asked[rows]).all()):
                found.add(f"off{off}" if off else word)
    if shape.queries > 1 and bool((last == shape.keys - 1).all()):
        # A corner that shows everything at this shape is as good as none.
        found.add("none")
    return found
