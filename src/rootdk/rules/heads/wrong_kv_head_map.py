"""RDK501."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rootdk.records import Behaviour, HeadFacts, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._behaviour_examples import behaving, fires_of, silent_of, skips_of
from rootdk.rules._examples import Example


class WrongKvHeadMap(Rule):
    """Query heads read key-value heads that are not theirs.

    What it does
    ------------
    Finds a function with fewer key-value heads than query heads in which head h does not read
    key-value head h // (num_heads / num_kv_heads).

    Why it matters
    --------------
    Weights that were trained with one map mean nothing under another. Tiling (h % num_kv_heads)
    has the right shapes, agrees for a single key-value head and for as many as there are query
    heads, and gives fluent nonsense in between.

    How it is measured
    ------------------
    Each key-value head is given values of its own number, and the output of every query head
    says which it read.

    Remedy
    ------
    Repeat each key-value head in place: repeat_interleave(times, dim=heads) in torch, jnp.repeat
    in JAX; never repeat, tile or concatenate.

    When it stays silent
    --------------------
    Where the heads are repeated in place, where the function refuses fewer key-value heads, and
    where the map was declared with ``expect={"kv_map": "tiled"}``.

    References
    ----------
    Ainslie et al., GQA, 2023 (arXiv:2305.13245), section 2.2. A case seen in public:
    onnx/onnx#7274 (heads are tiled).
    """

    code = "RDK501"
    name = "wrong-kv-head-map"
    since = "0.1"
    severities = (Severity.ERROR,)

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


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join("a mixture" if n < 0 else str(n) for n in numbers)


_WORDS = {"tiled": "tiled", "stuck": "all the same", "other": "in no order"}
