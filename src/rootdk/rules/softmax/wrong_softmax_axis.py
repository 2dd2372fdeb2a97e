"""RDK301."""

from __future__ import annotations

from collections.abc import Iterable

from rootdk.records import AttentionSite, Behaviour, Normalisation, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._behaviour_examples import behaving, fires_of, silent_of, skips_of, softened
from rootdk.rules._examples import Example, fires, healthy_site, silent


class WrongSoftmaxAxis(Rule):
    """The softmax runs over an axis that is not the keys.

    What it does
    ------------
    Finds attention whose weights sum to 1 over the queries, the heads, the batch or another
    axis, and not over the keys.

    Why it matters
    --------------
    Over the queries, a query's output depends on what the other queries ask, and in a causal
    model on queries that come later. Over heads or batch, the samples of a batch change each
    other's output. The shapes fit in every case, and the loss falls a little.

    How it is measured
    ------------------
    Read off the graph: the axis of the last normalisation, followed back through transposes to
    the axis of the scores that came from the keys.

    Of a function alone: which weights move when one score moves, and over which of them the sum
    stays the same.

    Remedy
    ------
    Take the softmax over the axis that the product with the values sums over, the last one of
    scores that are (batch, heads, queries, keys): softmax(dim=-1).

    When it stays silent
    --------------------
    Over the queries with a second normalisation over the keys it is a note: that is slot
    attention, in which queries compete for keys on purpose. An axis that is none of the four
    named ones is a warning, since it may hold the keys in another form; so is one over the keys
    together with another axis, since weights of all pairs may be meant. Keys in several pieces,
    which each query meets all of, are keys.

    References
    ----------
    Vaswani et al., 2017, equation 1 (arXiv:1706.03762). Locatello et al., Object-Centric
    Learning with Slot Attention, 2020 (arXiv:2006.15055), algorithm 1. Kim, Jun and
    Zhang, Bilinear Attention Networks, 2018 (arXiv:1805.07932), a softmax over all pairs.
    """

    code = "RDK301"
    name = "wrong-softmax-axis"
    since = "0.1"
    severities = (Severity.ERROR, Severity.WARNING, Severity.NOTE)
    supersedes = ("RDK303", "RDK601", "RDK602", "RDK605")

    def judge_axis(self, site: AttentionSite) -> Findings:
        """Yield one finding if the axis is not the keys."""
        axis = site.normalisation.axis
        if axis == "keys":
            return
        slots = axis == "queries" and site.normalisation.second_normalisation
        severity = Severity.NOTE if slots else _SEVERITY.get(axis, Severity.WARNING)
        together = axis.endswith("-and-keys")
        over = "an axis that is neither queries nor heads"
        if axis != "other":
            over = " and ".join(f"the {one}" for one in axis.split("-and-"))
        over += " together" if together else ""
        yield self.finding(
            site,
            severity,
            f"softmax runs over {over}{_size(site)}, not over "
            + ("the keys of each query" if together else "the keys")
            + f" ({site.keys})"
            + (f"; {_SLOTS}" if slots else ""),
            source=site.normalisation.axis_source or site.source,
            excuse=_SLOTS if slots else None,
            evidence={"axis": axis, "second_normalisation": slots},
        )

    def judge_function(self, behaviour: Behaviour) -> Findings:
        """Yield one finding if the weights of a function compete along another axis."""
        softmax = behaviour.softmax
        if softmax is None or softmax.axis in (None, "unknown"):
            self.skip("the axis of the softmax was not measured")
        axis = softmax.axis
        if axis == "keys" or behaviour.expected.get("axis") == axis:
            return
        slots = axis == "queries" and softmax.renormalised
        over = " and ".join(f"the {one}" for one in str(axis).split("-and-"))
        yield self.finding(
            behaviour,
            Severity.NOTE if slots else Severity.ERROR,
            f"the softmax runs over {over} and not over the keys: weights of one row sum to "
            f"between {softmax.row_sum_min or 0.0:.4g} and {softmax.row_sum_max or 0.0:.4g}",
            excuse=_SLOTS if slots else None,
            evidence={"fact": "softmax.axis", "axis": axis, "renormalised": softmax.renormalised},
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        for axis, size in (("queries", 20), ("heads", 6), ("batch", 2)):
            yield fires(
                f"over the {axis}",
                Severity.ERROR,
                site=healthy_site(normalisation=Normalisation(axis=axis)),  # type: ignore[arg-type]
                state="trained",
                says=(f"over the {axis} ({size}), not over the keys (24)",),
                line=13,
            )
        yield fires(
            "over something else",
            Severity.WARNING,
            site=healthy_site(normalisation=Normalisation(axis="other")),
        )
        yield fires(
            "over all pairs",
            Severity.WARNING,
            site=healthy_site(normalisation=Normalisation(axis="queries-and-keys")),
            says=("over the queries and the keys together, not over the keys of each query (24)",),
        )
        slots = Normalisation(axis="queries", second_normalisation=True)
        yield fires(
            "slot attention",
            Severity.NOTE,
            site=healthy_site(normalisation=slots),
            says=("slot attention",),
        )
        yield silent("over the keys")
        yield fires_of(
            "a function that normalises over the queries",
            Severity.ERROR,
            softened(axis="queries", row_sum_min=0.3, row_sum_max=2.0),
            says=("over the queries and not over the keys", "between 0.3 and 2"),
        )
        both = softened(axis="queries-and-keys", row_sum_min=0.1, row_sum_max=0.2)
        yield fires_of(
            "a function that normalises over all scores",
            Severity.ERROR,
            both,
            says=("over the queries and the keys",),
        )
        yield fires_of(
            "a function that normalises twice",
            Severity.NOTE,
            softened(axis="queries", renormalised=True),
            says=("slot attention",),
        )
        yield silent_of("a function that normalises over the keys")
        yield skips_of("a function whose axis was not seen", behaving(softmax=None))


_SEVERITY = dict.fromkeys(("queries", "heads", "batch"), Severity.ERROR)


def _size(site: AttentionSite) -> str:
    sizes = {"queries": site.queries, "heads": site.num_heads, "batch": site.batch}
    size = sizes.get(site.normalisation.axis)
    return f" ({size})" if size is not None else ""


_SLOTS = (
    "the weights are normalised once more, over the keys: queries compete for keys, as in slot "
    "attention"
)
