"""RDK501."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from rootdk.records import AttentionSite, Behaviour, HeadFacts, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._behaviour_examples import behaving, fires_of, silent_of, skips_of
from rootdk.rules._examples import Example, fires, healthy_site, line, silent, skips


class WrongKvHeadMap(Rule):
    """Query heads read key-value heads that are not theirs.

    What it does
    ------------
    Finds a function with fewer key-value heads than query heads in which head h does not read
    key-value head h // (num_heads / num_kv_heads); and the same in a model, or one in which the
    heads that share keys are not those that share values.

    Why it matters
    --------------
    Weights that were trained with one map mean nothing under another. Tiling (h % num_kv_heads)
    has the right shapes, agrees for a single key-value head and for as many as there are query
    heads, and gives fluent nonsense in between. A model that is trained as it stands learns
    either map as well: what the other one breaks is weights that come from elsewhere.

    How it is measured
    ------------------
    Of a function, each key-value head is given values of its own number, and the output of every
    query head says which it read. In a model, the entries of the keys that each query head met
    are compared: those that are equal at all of the first 64 positions are one head. It is a
    note, since weights do not say which map they were made for; it is a warning where keys and
    values are shared in different ways.

    Remedy
    ------
    Repeat each key-value head in place: repeat_interleave(times, dim=heads) in torch, jnp.repeat
    in JAX; never repeat, tile or concatenate.

    When it stays silent
    --------------------
    Where the heads are repeated in place, where the function refuses fewer key-value heads, and
    where the map was declared with ``expect={"kv_map": "tiled"}``. In a model, with one key-value
    head or as many as query heads, and where the query's heads are written as two axes, the heads
    that share a key head and the key heads: that order is meant.

    References
    ----------
    Ainslie et al., GQA, 2023 (arXiv:2305.13245), section 2.2. A case seen in public:
    onnx/onnx#7274 (heads are tiled).
    """

    code = "RDK501"
    name = "wrong-kv-head-map"
    since = "0.1"
    severities = (Severity.ERROR, Severity.WARNING, Severity.NOTE)

    def judge_site(self, site: AttentionSite) -> Findings:
        """Yield one finding if the heads of a site are not shared in place."""
        keys, values = site.kv_map, site.value_map
        if keys is None:
            if 1 < site.num_kv_heads < site.num_heads:
                self.skip("which query heads share a key-value head was not seen")
            return
        evidence = {"kv_map": keys, "value_map": values, "kv_heads": site.num_kv_heads}
        where = site.repeat_source or site.product_source or site.source
        if values is not None and values != keys:
            yield self.finding(
                site,
                Severity.WARNING,
                f"query heads 0 to {len(keys) - 1} read key heads {_listed(keys)}, and value heads "
                f"{_listed(values)}: heads that share keys do not share values",
                source=where,
                evidence=evidence,
            )
        elif list(keys) != sorted(keys):
            right = tuple(sorted(keys))
            yield self.finding(
                site,
                Severity.NOTE,
                f"query heads 0 to {len(keys) - 1} read key-value heads {_listed(keys)} "
                f"({_WORDS['tiled' if _tiled(keys) else 'other']}), where the usual order is "
                f"{_listed(right)}",
                source=where,
                excuse="a model that was trained so is consistent; weights that were made for the "
                "usual order do not fit",
                evidence=evidence,
            )

    def judge_function(self, behaviour: Behaviour) -> Findings:
        """Yield one finding if the map is not the repeated one."""
        heads = behaviour.heads
        if heads is None or heads.pattern is None or heads.kv_map is None:
            self.skip("the function was not seen with fewer key-value heads")
        if heads.pattern == "repeated" or behaviour.expected.get("kv_map") == heads.pattern:
            return
        number = max(heads.kv_heads or 1, 1)
        right = tuple(h * number // len(heads.kv_map) for h in range(len(heads.kv_map)))
        if heads.kv_map == right:
            return
        yield self.finding(
            behaviour,
            Severity.ERROR,
            f"query heads 0 to {len(right) - 1} read key-value heads {_listed(heads.kv_map)} "
            f"({_WORDS[heads.pattern]}), not {_listed(right)}",
            evidence={
                "fact": "heads.kv_map",
                "kv_map": heads.kv_map,
                "expected": right,
                "pattern": heads.pattern,
            },
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        healthy = behaving().heads
        assert healthy is not None

        def reading(
            kv_map: tuple[int, ...] | None, pattern: str | None, **more: object
        ) -> Behaviour:
            facts: HeadFacts = replace(healthy, kv_map=kv_map, pattern=pattern)  # type: ignore[arg-type]
            return behaving(heads=facts, **more)

        yield fires_of(
            "tiled",
            Severity.ERROR,
            reading((0, 1, 0, 1, 0, 1), "tiled"),
            says=("read key-value heads 0, 1, 0, 1, 0, 1 (tiled), not 0, 0, 0, 1, 1, 1",),
        )
        yield fires_of(
            "stuck on the first",
            Severity.ERROR,
            reading((0, 0, 0, 0, 0, 0), "stuck"),
            says=("all the same",),
        )
        yield fires_of("a mixture", Severity.ERROR, reading((-1, -1, -1, -1, -1, -1), "other"))
        yield silent_of("repeated in place")
        declared = reading((0, 1, 0, 1, 0, 1), "tiled", expected={"kv_map": "tiled"})
        yield silent_of("tiled on purpose", declared)
        yield skips_of("as many heads on both sides", reading(None, None))
        yield from _examples_of_sites()


def _examples_of_sites() -> Iterable[Example]:
    def reading(
        keys: tuple[int, ...] | None, values: tuple[int, ...] | None = None, **more: Any
    ) -> AttentionSite:
        return healthy_site(kv_map=keys, value_map=values or keys, repeat_source=line(9), **more)

    tiled, usual = (0, 1, 2, 0, 1, 2), (0, 0, 1, 1, 2, 2)
    yield fires(
        "a model that tiles its heads",
        Severity.NOTE,
        site=reading(tiled),
        says=("read key-value heads 0, 1, 2, 0, 1, 2 (tiled)", "trained so is consistent"),
        line=9,
    )
    yield fires(
        "a model that tiles its values alone",
        Severity.WARNING,
        site=reading(usual, tiled),
        state="trained",
        says=("value heads 0, 1, 2, 0, 1, 2: heads that share keys do not",),
    )
    yield fires(
        "a model without an order",
        Severity.NOTE,
        site=reading((0, 1, 1, 2, 0, 2)),
        says=("in no order",),
    )
    yield silent("a model that repeats its heads in place", site=reading(usual))
    yield silent("one key-value head", site=healthy_site(num_kv_heads=1))
    yield silent("as many key-value heads as heads", site=healthy_site(num_kv_heads=6))
    yield skips("nobody saw which heads are shared", site=healthy_site())


def _tiled(numbers: tuple[int, ...]) -> bool:
    count = max(numbers) + 1
    return all(number == head % count for head, number in enumerate(numbers))


def _listed(numbers: tuple[int, ...]) -> str:
    shown = ["a mixture" if n < 0 else str(n) for n in numbers]
    if len(shown) > _SHOWN:
        shown[_SHOWN - 2 : -1] = ["…"]
    return ", ".join(shown)


# Heads that are listed before their middle is left out.
_SHOWN = 32

_WORDS = {"tiled": "tiled", "stuck": "all the same", "other": "in no order"}
