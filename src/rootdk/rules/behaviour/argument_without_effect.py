"""RDK708."""

from __future__ import annotations

from collections.abc import Iterable

from rootdk.records import ArgumentFact, Behaviour, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._behaviour_examples import argument, behaving, fires_of, silent_of, skips_of
from rootdk.rules._examples import Example
from rootdk.rules.mask.mask_without_effect import is_mask

_JUDGED = {
    "bias": "adds nothing to the scores",
    "dropout": "drops nothing",
    "training": "does not switch dropout off",
    "sink": "takes no share of the weights",
    "other": "changes nothing",
}
"""What an argument of each meaning fails to do. Others have rules of their own, or no effect on
the output to be judged by (a request for weights, a flag for grouped heads)."""


class ArgumentWithoutEffect(Rule):
    """An argument is accepted and changes nothing.

    What it does
    ------------
    Finds a bias, a dropout rate, a training flag, a sink or another argument that a function
    takes and computes the same without.

    Why it matters
    --------------
    Keyword arguments that a wrapper swallows are the quietest faults there are. The call looks
    right, the model was trained with what the argument asks for, and the function leaves it out.

    How it is measured
    ------------------
    The function is called with and without the argument where it must show: a sink of 20, which
    takes nearly all weight from scores of size 1; a bias of several nats; a dropout rate of a
    half; dropout in a call that says that it does not train.

    Remedy
    ------
    Use the argument, hand it on to every call further down, or refuse it with an error.

    When it stays silent
    --------------------
    Where the argument acts, where it is refused, and for a scale (RDK110), a softcap (RDK306)
    and masks (RDK407), which have codes of their own.

    References
    ----------
    Cases seen in public (2024 to 2026): vllm-project/vllm#52156 (a sink that further keyword
    arguments swallow), karpathy/nanoGPT#240 (dropout that does not ask whether it trains).
    """

    code = "RDK708"
    name = "argument-without-effect"
    since = "0.1"
    severities = (Severity.ERROR,)

    def judge_function(self, behaviour: Behaviour) -> Findings:
        """Yield one finding for all arguments that change nothing."""
        judged = [
            fact
            for fact in behaviour.arguments.values()
            if fact.meaning in _JUDGED and not is_mask(fact)
        ]
        if not judged:
            self.skip("the function takes none of the arguments that this rule reads")
        idle = [fact for fact in judged if fact.effect == "none"]
        if not idle:
            return
        yield self.finding(
            behaviour,
            Severity.ERROR,
            "; ".join(_sentence(fact) for fact in idle),
            evidence={
                "fact": f"arguments.{idle[0].name}",
                "arguments": tuple(fact.name for fact in idle),
                "differences": tuple(fact.difference for fact in idle),
            },
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        yield fires_of(
            "a sink that is swallowed",
            Severity.ERROR,
            argument("sink", "none", name="s_aux", tried="s_aux=20"),
            says=("s_aux=20 takes no share of the weights", "moves by 0"),
        )
        for meaning in ("bias", "dropout", "training", "other"):
            yield fires_of(f"a {meaning}", Severity.ERROR, argument(meaning, "none"))
        yield silent_of("a sink that is used", argument("sink", "as-asked"))
        yield silent_of("a dropout that is refused", argument("dropout", "refused"))
        for meaning in ("scale", "softcap", "mask", "weights"):
            yield skips_of(f"a {meaning} is another rule's", argument(meaning, "none"))
        yield skips_of("a function without arguments", behaving())


def _sentence(fact: ArgumentFact) -> str:
    moved = 0.0 if fact.difference is None else fact.difference
    detail = f" ({fact.detail})" if fact.detail else ""
    return f"{fact.tried} {_JUDGED[fact.meaning]}{detail}: the output moves by {moved:.3g}"
