"""RDK409."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rootdk.records import Behaviour, Severity, WindowAt
from rootdk.rules._base import Findings, Rule
from rootdk.rules._behaviour_examples import behaving, fires_of, masking, silent_of, skips_of
from rootdk.rules._examples import Example

Reach = tuple[int | None, int | None]


class WindowOffByOne(Rule):
    """A sliding window reaches further, or less far, than it should.

    What it does
    ------------
    Finds a window whose reach before or after the diagonal is not the one that was asked for,
    or that was declared.

    Why it matters
    --------------
    A window of w keys, the own one included, reaches w - 1 back; flash kernels count the reach
    and not the keys. A model that is trained with one and run with the other sees a key more or
    less at every layer, and the error grows with depth while every output looks plausible.

    How it is measured
    ------------------
    Which keys a query in the middle sees is read off the weights. A pair (left, right) counts
    keys before and after the diagonal; a number called sliding_window counts keys, the own one
    included.

    Remedy
    ------
    For w keys with their own, hide what is w or more behind: query - key >= window, or
    ones.triu(-(window - 1)).

    When it stays silent
    --------------------
    Where the reach is the one asked for; where the function takes no window and none was
    declared; and for a number whose meaning its name does not tell.

    References
    ----------
    Jiang et al., Mistral 7B, 2023 (arXiv:2310.06825), section 2. Cases seen in public:
    huggingface/transformers#26792 and #39408, sgl-project/sglang#34273.
    """

    code = "RDK409"
    name = "window-off-by-one"
    since = "0.1"
    severities = (Severity.ERROR,)

    def judge_function(self, behaviour: Behaviour) -> Findings:
        """Yield one finding for the first window that reaches elsewhere than asked."""
        if behaviour.mask is None or not behaviour.mask.window:
            self.skip("the function takes no window, and none was declared")
        for window in behaviour.mask.window:
            if _as_asked(window):
                continue
            yield self.finding(
                behaviour,
                Severity.ERROR,
                f"{window.argument}={window.asked} shows {_reach(window.seen_reach)}, not "
                f"{_reach(window.asked_reach)}{_edges(window)}",
                evidence={
                    "fact": "mask.window",
                    "asked": window.asked_reach,
                    "seen": window.seen_reach,
                    "queries": window.queries,
                    "keys": window.keys,
                },
            )
            return

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""

        def reaching(asked: Reach, seen: Reach, name: str = "window") -> Behaviour:
            one = WindowAt(
                argument=name,
                asked=str(tuple(-1 if side is None else side for side in asked)),
                asked_reach=asked,
                seen_reach=seen,
                queries=20,
                keys=20,
            )
            return masking(window=(one,))

        def counting(asked: Reach, seen: Reach) -> Behaviour:
            behaviour = reaching(asked, seen, "sliding_window")
            assert behaviour.mask is not None
            one = replace(behaviour.mask.window[0], asked="3")
            return masking(window=(one,))

        yield fires_of(
            "a key too many",
            Severity.ERROR,
            reaching((3, 0), (4, 0)),
            says=("shows 4 keys before and 0 after", "not 3 keys before", "1 too many before"),
        )
        yield fires_of(
            "a key too few ahead",
            Severity.ERROR,
            reaching((3, 2), (3, 1)),
            says=("1 too few after",),
        )
        yield fires_of(
            "open where it should end",
            Severity.ERROR,
            reaching((3, 0), (None, 0)),
            says=("every key before",),
        )
        yield silent_of("the reach that was asked for", reaching((3, 0), (3, 0)))
        yield silent_of("open on one side", reaching((3, None), (3, None)))
        yield silent_of("a count of keys behind, in a causal window", counting((2, None), (2, 0)))
        yield fires_of(
            "closed where it should be open",
            Severity.ERROR,
            reaching((3, None), (3, 0)),
            says=("0 after the diagonal, not 3 keys before and every key after",),
        )
        yield skips_of("a function without a window", behaving())


def _as_asked(window: WindowAt) -> bool:
    """Tell whether the reach is the one asked for; a count says nothing of the side after."""
    is_pair = window.asked.strip().startswith(("(", "["))
    sides = zip(window.asked_reach, window.seen_reach, strict=True)
    return all(asked == seen or (asked is None and not is_pair) for asked, seen in sides)


def _reach(reach: Reach) -> str:
    sides = zip(reach, ("before", "after"), strict=True)
    parts = [f"every key {side}" if n is None else f"{n} keys {side}" for n, side in sides]
    return " and ".join(parts).replace(" keys after", " after") + " the diagonal"


def _edges(window: WindowAt) -> str:
    """Return by how many keys each edge is off."""
    found = []
    sides = zip(window.asked_reach, window.seen_reach, ("before", "after"), strict=True)
    for asked, seen, side in sides:
        if asked is not None and seen is not None and seen != asked:
            word = "many" if seen > asked else "few"
            found.append(f"{abs(seen - asked)} too {word} {side}")
    return f": {' and '.join(found)}" if found else ""
