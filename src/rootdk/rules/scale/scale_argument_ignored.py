"""RDK110."""

from __future__ import annotations

from collections.abc import Iterable

from rootdk.records import Behaviour, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._behaviour_examples import argument, behaving, fires_of, silent_of, skips_of
from rootdk.rules._examples import Example


class ScaleArgumentIgnored(Rule):
    """A scale that is passed to the function changes nothing.

    What it does
    ------------
    Finds a function that takes a scale and computes the same whatever its value.

    Why it matters
    --------------
    The caller believes that the model's own factor is in force: a model without a factor, one
    with a multiplier in its configuration, one that has scaled its query already. All of them
    get 1/√head_dim instead, and a model whose factor is 1/√head_dim shows nothing.

    How it is measured
    ------------------
    The function is called with and without the argument on inputs whose scores are of size 1,
    with a scale several times the one that it uses on its own.

    Remedy
    ------
    Use the argument where the scores are scaled, and hand it on to every call further down.

    When it stays silent
    --------------------
    Where the function takes no scale, refuses the one that was given, or acts on it. A scale
    that acts as another number than the one given is judged by the rules on that number.

    References
    ----------
    Vaswani et al., 2017, section 3.2.1 (arXiv:1706.03762). Cases seen in public:
    vllm-project/vllm#32149 and lucidrains/x-transformers#244 (2024), a scale that is not handed on.
    """

    code = "RDK110"
    name = "scale-argument-ignored"
    since = "0.1"
    severities = (Severity.ERROR,)

    def judge_function(self, behaviour: Behaviour) -> Findings:
        """Yield one finding if the scale argument has no effect."""
        given = behaviour.argument("scale")
        if given is None:
            self.skip("the function takes no scale")
        if given.effect == "refused":
            self.skip(f"the function refused {given.tried}: {given.detail}")
        if given.effect != "none":
            return
        own = "" if behaviour.scale is None else f"; scores stay multiplied by {_own(behaviour)}"
        yield self.finding(
            behaviour,
            Severity.ERROR,
            f"{given.tried} changes nothing{own}",
            evidence={
                "fact": f"arguments.{given.name}",
                "tried": given.tried,
                "difference": given.difference,
            },
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        yield fires_of(
            "a function that has a scale of its own",
            Severity.ERROR,
            argument("scale", "none", name="sm_scale", tried="sm_scale=0.3"),
            says=("sm_scale=0.3 changes nothing", "multiplied by 0.125"),
        )
        yield silent_of("a scale that is used", argument("scale", "as-asked"))
        yield silent_of("a scale that is used otherwise", argument("scale", "wrong"))
        yield skips_of("a function without the argument", behaving())
        refused = argument("scale", "refused", detail="no kernel for this scale")
        yield skips_of("a scale that is refused", refused, says=("no kernel",))


def _own(behaviour: Behaviour) -> str:
    return "" if behaviour.scale is None else f"{behaviour.scale.value:.6g}"
