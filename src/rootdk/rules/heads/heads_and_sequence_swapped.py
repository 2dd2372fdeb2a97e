"""RDK502."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rootdk.records import Behaviour, CallFacts, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._behaviour_examples import behaving, fires_of, silent_of, skips_of
from rootdk.rules._examples import Example


class HeadsAndSequenceSwapped(Rule):
    """Heads attend to heads: the sequence axis is taken for the heads.

    What it does
    ------------
    Finds a function that, given arrays in the declared layout, runs its attention over the axis
    of the heads, at each position alone.

    Why it matters
    --------------
    Two layouts are in use, (batch, heads, sequence, head_dim) and (batch, sequence, heads,
    head_dim), and an array of one is a valid array of the other. No token then sees another,
    and the output has the right shape.

    How it is measured
    ------------------
    One key of one head is changed, and the outputs that move say which axis is attended over.

    Remedy
    ------
    Transpose the axes of heads and sequence before the call and after it, or declare the layout
    that the function takes (layout="bshd").

    When it stays silent
    --------------------
    Where another token's key moves an output, and where the function refuses the shapes.

    References
    ----------
    PyTorch's scaled_dot_product_attention (2.0, 2023) has heads first, flash-attn and JAX the
    sequence. A case seen in public: facebookresearch/xformers#922.
    """

    code = "RDK502"
    name = "heads-and-sequence-swapped"
    since = "0.1"
    severities = (Severity.ERROR,)
    supersedes = (
        "RDK101",
        "RDK103",
        "RDK104",
        "RDK105",
        "RDK106",
        "RDK107",
        "RDK108",
        "RDK109",
        "RDK110",
        "RDK111",
        "RDK301",
        "RDK302",
        "RDK303",
        "RDK305",
        "RDK306",
        "RDK307",
        "RDK401",
        "RDK402",
        "RDK403",
        "RDK404",
        "RDK405",
        "RDK406",
        "RDK407",
        "RDK408",
        "RDK409",
        "RDK501",
        "RDK708",
    )

    def judge_function(self, behaviour: Behaviour) -> Findings:
        """Yield one finding if the function attends over heads."""
        swapped = behaviour.heads.swapped if behaviour.heads is not None else None
        if swapped is None:
            self.skip("which axis is attended over was not measured")
        if not swapped:
            return
        yield self.finding(
            behaviour,
            Severity.ERROR,
            f"in the layout {behaviour.layout} the function attends over the heads, at each "
            f"position alone{_shape(behaviour.call)}",
            evidence={"fact": "heads.swapped", "layout": behaviour.layout},
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        healthy = behaving().heads
        assert healthy is not None
        yield fires_of(
            "heads attend to heads",
            Severity.ERROR,
            behaving(heads=replace(healthy, swapped=True), layout="bshd"),
            says=("layout bshd", "over the heads", "(2, 6, 9, 20)"),
        )
        yield silent_of("tokens attend to tokens")
        yield skips_of("nobody looked", behaving(heads=None))


def _shape(call: CallFacts) -> str:
    return "" if call.shape is None else f"; the output has shape {call.shape} all the same"
