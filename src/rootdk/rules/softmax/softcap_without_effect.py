"""RDK306."""

from __future__ import annotations

from collections.abc import Iterable

from rootdk.records import ArgumentFact, Behaviour, Severity, SoftcapFacts
from rootdk.rules._base import Findings, Rule
from rootdk.rules._behaviour_examples import argument, behaving, fires_of, silent_of, skips_of
from rootdk.rules._examples import Example


class SoftcapWithoutEffect(Rule):
    """A softcap is asked for, and the scores are not bounded by it.

    What it does
    ------------
    Finds a function that takes a softcap and leaves the scores uncapped, or bounds them by
    another number than the one given; and one whose declared softcap is not there.

    Why it matters
    --------------
    A model that was trained with a cap has scores far above it. Without the cap, or with one
    that is applied before the scale or never multiplied back, its weights are another model's.
    On short and easy inputs the scores stay below the cap, and nothing shows.

    How it is measured
    ------------------
    Scores are driven to several times the cap, and the score behind the weights is compared
    with cap·tanh(score/cap).

    Remedy
    ------
    Scale the product, then cap it, then mask it: softcap * tanh(q·k·scale / softcap).

    When it stays silent
    --------------------
    Where the function takes no softcap and none is declared, and where it refuses the one that
    was given.

    References
    ----------
    Gemma Team, Gemma 2, 2024 (arXiv:2408.00118), section 2. Cases seen in public:
    sgl-project/sglang#33915, ml-explore/mlx-swift-examples#99.
    """

    code = "RDK306"
    name = "softcap-without-effect"
    since = "0.1"
    severities = (Severity.ERROR,)

    def judge_function(self, behaviour: Behaviour) -> Findings:
        """Yield one finding if a softcap, given or declared, is not the bound of the scores."""
        given = behaviour.argument("softcap")
        declared = behaviour.expected.get("softcap")
        if given is None and declared is None:
            self.skip("the function takes no softcap")
        if isinstance(declared, int | float) and not _holds(behaviour.softcap, float(declared)):
            found = behaviour.softcap
            seen = "no bound was found" if found is None else f"the bound is {found.value:.6g}"
            yield self.finding(
                behaviour,
                Severity.ERROR,
                f"a softcap of {declared:.6g} is declared, and {seen}",
                evidence={"fact": "softcap", "declared": declared},
            )
            return
        if given is None or given.effect == "as-asked":
            return
        if given.effect == "refused":
            self.skip(f"the function refused {given.tried}: {given.detail}")
        yield self.finding(
            behaviour,
            Severity.ERROR,
            f"{given.tried} {_what(given)}",
            evidence={
                "fact": f"arguments.{given.name}",
                "tried": given.tried,
                "asked": given.asked,
                "acted": given.acted,
                "difference": given.difference,
            },
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        yield fires_of(
            "a function that never caps",
            Severity.ERROR,
            argument("softcap", "none", tried="softcap=5"),
            says=("softcap=5 changes nothing",),
        )
        yield fires_of(
            "a function that caps before the scale",
            Severity.ERROR,
            argument("softcap", "wrong", tried="softcap=5", asked=5.0, acted=0.625),
            says=("softcap=5 bounds the scores by 0.625",),
        )
        yield fires_of(
            "a function that moves elsewhere",
            Severity.ERROR,
            argument("softcap", "wrong", tried="softcap=5", detail="scores follow no tanh"),
            says=("does not cap the scores: scores follow no tanh",),
        )
        yield fires_of(
            "a declared cap that is not there",
            Severity.ERROR,
            behaving(expected={"softcap": 30.0}),
            says=("a softcap of 30 is declared, and no bound",),
        )
        yield silent_of("a softcap that is used", argument("softcap", "as-asked"))
        cap = SoftcapFacts(value=30.001, form="tanh", residual=1e-6)
        yield silent_of("a declared cap", behaving(softcap=cap, expected={"softcap": 30.0}))
        yield skips_of("a function without the argument", behaving())
        yield skips_of("a softcap that is refused", argument("softcap", "refused", detail="no"))


def _holds(found: SoftcapFacts | None, declared: float) -> bool:
    return found is not None and abs(found.value - declared) <= _TOLERANCE * declared


def _what(given: ArgumentFact) -> str:
    if given.effect == "none":
        return "changes nothing, however large the scores"
    if given.acted is not None and given.asked is not None:
        same = abs(given.acted - given.asked) <= _TOLERANCE * abs(given.asked)
        if not same:
            return f"bounds the scores by {given.acted:.6g} and not by {given.asked:.6g}"
    return f"does not cap the scores: {given.detail or 'they follow no cap·tanh(score/cap)'}"


_TOLERANCE = 0.01
