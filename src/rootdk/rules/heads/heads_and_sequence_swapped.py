"""RDK502."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rootdk.records import AttentionSite, Behaviour, CallFacts, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._behaviour_examples import behaving, fires_of, silent_of, skips_of
from rootdk.rules._examples import Example, fires, healthy_site, silent


class HeadsAndSequenceSwapped(Rule):
    """Heads attend to heads: the sequence axis is taken for the heads.

    What it does
    ------------
    Finds a function that, given arrays in the declared layout, runs its attention over the axis
    of the heads, at each position alone; and the same in a model, or one that cuts its heads out
    of runs of positions, because it reshaped where it should have transposed.

    Why it matters
    --------------
    Two layouts are in use, (batch, heads, sequence, head_dim) and (batch, sequence, heads,
    head_dim), and an array of one is a valid array of the other. No token then sees another,
    and the output has the right shape.

    How it is measured
    ------------------
    Of a function, one key of one head is changed, and the outputs that move say which axis is
    attended over. In a model, the axes of the query and key projections' outputs are followed
    through reshapes and transposes to the product.

    Remedy
    ------
    Transpose the axes of heads and sequence before the call and after it, or declare the layout
    that the function takes (layout="bshd").

    When it stays silent
    --------------------
    Where another token's key moves an output, and where the function refuses the shapes. In a
    model, where one of the two operands has its positions in place, where scores are between
    channels that are compared over the positions, and where the axes cannot be followed.

    References
    ----------
    PyTorch's scaled_dot_product_attention (2.0, 2023) has heads first, flash-attn and JAX the
    sequence. A case seen in public: facebookresearch/xformers#922.
    """

    code = "RDK502"
    name = "heads-and-sequence-swapped"
    since = "0.1"
    severities = (Severity.ERROR, Severity.WARNING)
    supersedes_when = (Severity.ERROR,)
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

    def judge_site(self, site: AttentionSite) -> Findings:
        """Yield one finding if the queries and keys of a site are no positions."""
        if site.attends_over == "positions":
            return
        message = (
            f"the {site.queries} queries and {site.keys} keys are parts of the features of one "
            "position each: heads attend to heads, and no position sees another"
            if site.attends_over == "features"
            else "the output of the query and key projections, (positions, features), was reshaped "
            "across both axes without a transpose: each head holds a run of positions, with parts "
            f"of their features as its {site.queries} queries and {site.keys} keys"
        )
        yield self.finding(
            site,
            Severity.WARNING,
            message,
            source=site.product_source or site.source,
            evidence={"attends_over": site.attends_over},
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
        yield fires(
            "a model that forgot to transpose",
            Severity.WARNING,
            site=healthy_site(attends_over="features"),
            says=("heads attend to heads",),
        )
        yield fires(
            "a model that reshaped instead",
            Severity.WARNING,
            site=healthy_site(attends_over="mixture"),
            says=("without a transpose", "a run of positions"),
        )
        yield silent("positions attend to positions", site=healthy_site())
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
