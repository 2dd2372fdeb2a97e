"""RDK407."""

from __future__ import annotations

from collections.abc import Iterable

from rootdk.records import ArgumentFact, Behaviour, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._behaviour_examples import argument, behaving, fires_of, silent_of, skips_of
from rootdk.rules._examples import Example

MASKS = ("mask", "causal", "window")


class MaskWithoutEffect(Rule):
    """A mask, a causal flag or a window is passed to the function and hides nothing.

    What it does
    ------------
    Finds a function that takes a mask, a causal flag or a window, and computes the same with it
    as without it.

    Why it matters
    --------------
    Every query reads padding, or its own future. A language model then trains to a loss that it
    can never reach in use, and a batch gives other answers than its samples one by one.

    How it is measured
    ------------------
    The function is called with and without the argument, which forbids some of the keys, on
    values that differ from key to key.

    Remedy
    ------
    Use the result of masked_fill and where, which change nothing in place, and hand the mask on
    to every call further down.

    When it stays silent
    --------------------
    Where the argument hides keys, if not the right ones; where the function refuses it; and for
    a bias that its name does not call a mask, which is RDK708.

    References
    ----------
    Vaswani et al., 2017, section 3.2.3 (arXiv:1706.03762). Cases seen in public:
    pytorch/pytorch#117939 (the result of masked_fill is not used), proger/hippogriff#7 (a
    window with a minus sign is open).
    """

    code = "RDK407"
    name = "mask-without-effect"
    since = "0.1"
    severities = (Severity.ERROR,)
    supersedes = ("RDK402", "RDK403", "RDK405", "RDK408", "RDK409")

    def judge_function(self, behaviour: Behaviour) -> Findings:
        """Yield one finding for the first argument that should hide keys and hides none."""
        given = [fact for fact in behaviour.arguments.values() if is_mask(fact)]
        if not given:
            self.skip("the function takes no mask, no causal flag and no window")
        idle = [fact for fact in given if fact.effect == "none"]
        if not idle:
            return
        named = ", ".join(fact.tried for fact in idle)
        yield self.finding(
            behaviour,
            Severity.ERROR,
            f"{named} {'hides' if len(idle) == 1 else 'hide'} nothing: the output moves by "
            f"{max(fact.difference or 0.0 for fact in idle):.3g}",
            evidence={
                "fact": f"arguments.{idle[0].name}",
                "arguments": tuple(fact.name for fact in idle),
                "difference": idle[0].difference,
            },
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        yield fires_of(
            "a mask that is not used",
            Severity.ERROR,
            argument("mask", "none", tried="attn_mask=(boolean)"),
            says=("attn_mask=(boolean) hides nothing", "moves by 0"),
        )
        yield fires_of("a causal flag", Severity.ERROR, argument("causal", "none"))
        yield fires_of("a window", Severity.ERROR, argument("window", "none"))
        yield fires_of(
            "a bias that is called a mask",
            Severity.ERROR,
            argument("bias", "none", name="attention_mask", tried="attention_mask=(bias)"),
        )
        yield silent_of("a mask that hides", argument("mask", "as-asked"))
        yield silent_of("a mask that hides other keys", argument("mask", "wrong"))
        yield skips_of("a bias", argument("bias", "none"))
        yield skips_of("a function without a mask", behaving())


def is_mask(fact: ArgumentFact) -> bool:
    """Tell whether an argument should hide keys."""
    return fact.meaning in MASKS or (fact.meaning == "bias" and "mask" in fact.name.lower())
