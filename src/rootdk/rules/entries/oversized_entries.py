"""RDK201."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import sqrt

from rootdk.records import AttentionSite, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._evidence import NotJudged, State, SummaryLike, median_over_heads
from rootdk.rules._examples import (
    Example,
    Numbers,
    expecting,
    fires,
    healthy_site,
    numbers,
    scaled_site,
    silent,
    skips,
)
from rootdk.rules.scale._laws import follows_standard


class OversizedEntries(Rule):
    """Query and key have entries so large that the right scale cannot keep the scores small.

    What it does
    ------------
    Finds layers whose scale is 1/√head_dim, as it should be, and whose scores are nevertheless
    expected to spread by more than 3, because of the size of the entries.

    Why it matters
    --------------
    1/√head_dim is right for entries of size 1. Entries of size 2 in query and key make scores
    of standard deviation 4, and at 4 a softmax over a hundred keys gives more than half of its
    weight to one of them. The code of the attention is not at fault, which makes this hard to
    find by reading it.

    How it is measured
    ------------------
    predicted_spread, √head_dim·scale·query_std·key_std, which is the spread that entries of that
    size give, is compared with 3 at the median head. Which side is off is told by two further
    numbers: the size of what enters the projections (input_rms) and how much they enlarge it
    (projection_gain), both about 1 or less in an ordinary layer.

    Remedy
    ------
    Normalise what enters the projections where input_rms is large, or initialise the query and
    key projections smaller where projection_gain is.

    When it stays silent
    --------------------
    Where the scale is not 1/√head_dim, which is the scale family's to say. In a trained model
    it is a note, since training grows entries where it needs sharp weights. So is it in an
    untrained one whose config declares the standard deviation σ of its initial weights, if that
    accounts for the entries: an input of size at most 1.2, a gain within 20 % of σ·√width, where
    width is that of the input, and keys no larger than that.

    References
    ----------
    Vaswani et al., 2017, footnote 4 (arXiv:1706.03762): entries of variance 1 are assumed.
    Glorot and Bengio, 2010, on initial sizes. Wortsman et al., 2023 (arXiv:2309.14322) on the
    growth of scores in training.
    """

    code = "RDK201"
    name = "oversized-entries"
    since = "0.1"
    severities = (Severity.WARNING, Severity.NOTE)
    supersedes = ("RDK601", "RDK605")

    def judge_entries(self, site: AttentionSite, summary: SummaryLike, state: State) -> Findings:
        """Yield one finding if the expected spread is above 3 at the right scale."""
        if not follows_standard(site):
            return
        query = median_over_heads(summary, "query_std")
        key = median_over_heads(summary, "key_std")
        expected = median_over_heads(summary, "predicted_spread")
        if not expected > _LARGEST_SPREAD:
            return
        known = _known(summary)
        excuse = _declared(site, known, key) if state == "init" else None
        yield self.finding(
            site,
            Severity.NOTE if state != "init" or excuse else Severity.WARNING,
            f"entries of query and key have standard deviations of {query:.3g} and {key:.3g}, "
            f"so that the scores spread by {expected:.3g} at the right scale, 1/√{site.head_dim}"
            f" (entries of size 1 give 1); {_what_is_off(known)}",
            source=site.product_source,
            excuse=excuse,
            evidence={"query_std": query, "key_std": key, "expected_spread": expected, **known},
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        yield fires(
            "entries of size 2 out of an input of size 2",
            Severity.WARNING,
            summary=numbers(query_std=2.0, key_std=2.0, predicted_spread=4.0, input_rms=2.0),
            says=("2 and 2", "spread by 4", "input of the projections, of size 2"),
            line=11,
        )
        yield fires(
            "entries of size 2 out of large projections",
            Severity.WARNING,
            summary=numbers(query_std=2.0, key_std=2.0, predicted_spread=4.0, projection_gain=2.0),
            says=("the projections' gain of 2",),
        )
        yield fires(
            "a trained model, and no word on the input",
            Severity.NOTE,
            summary=numbers(query_std=2.0, key_std=2.0, predicted_spread=4.0, input_rms=None),
            state="trained",
            says=("not known",),
        )
        declared = healthy_site(hidden=400, initial_std=expecting(0.1, "initializer_range = 0.1"))
        yield fires(
            "the config declares the initial weights that make them so",
            Severity.NOTE,
            site=declared,
            summary=_large(),
            says=("the config declares it: initializer_range = 0.1", "0.1·√400 = 2"),
        )
        for title, site, changes in (
            ("smaller initial weights are declared", _DECLARED_SMALL, {}),
            ("the initial weights are declared, and the input is large", declared, _BOTH_LARGE),
            ("the initial weights are declared, and keys are larger", declared, _KEYS_LARGE),
        ):
            yield fires(title, Severity.WARNING, site=site, summary=_large(**changes))
        yield silent("entries of size 1")
        yield silent(
            "another scale is not this rule's",
            site=scaled_site(),
            summary=numbers(query_std=2.0, key_std=2.0, predicted_spread=4.0),
        )
        yield skips("no entries measured", summary=numbers(query_std=None), says=("query_std",))


def _large(**changes: float) -> Numbers:
    """The statistics of entries of size 2 out of large projections, with changes."""
    large = {"query_std": 2.0, "key_std": 2.0, "predicted_spread": 4.0, "projection_gain": 2.0}
    return numbers(heads=6, **{**large, **changes})


def _known(summary: SummaryLike) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for name in ("input_rms", "projection_gain"):
        try:
            found[name] = median_over_heads(summary, name)
        except NotJudged:
            return {}
    return found


def _declared(site: AttentionSite, known: Mapping[str, float], key: float) -> str | None:
    """Why the size of the entries is what the config asks for, if it is."""
    initial = site.initial_std
    if initial is None or initial.value is None or not site.hidden or not known:
        return None
    gain = initial.value * sqrt(site.hidden)
    as_declared = abs(known["projection_gain"] - gain) <= _SAMPLING * gain
    if not as_declared or known["input_rms"] > _CLOSE or key > (1.0 + _SAMPLING) * gain:
        return None
    return (
        f"the config declares it: {initial.where}, and projections of that standard deviation "
        f"enlarge an input of width {site.hidden} {initial.value:.3g}·√{site.hidden} = {gain:.3g} "
        "times"
    )


def _what_is_off(known: Mapping[str, float]) -> str:
    if not known:
        return "the size of the projections' input is not known"
    size, gain = known["input_rms"], known["projection_gain"]
    large_input = f"the input of the projections, of size {size:.3g}"
    large_gain = f"the projections' gain of {gain:.3g}"
    if max(size, gain) < _CLOSE * min(size, gain):
        return f"{large_input}, and {large_gain} make them so"
    return f"{large_input if size > gain else large_gain} makes them so"


_DECLARED_SMALL = healthy_site(hidden=400, initial_std=expecting(0.02, "initializer_range = 0.02"))
_BOTH_LARGE = {"input_rms": 1.5, "query_std": 3.0, "predicted_spread": 6.0, "spread": 6.0}
_KEYS_LARGE = {"key_std": 3.0, "predicted_spread": 6.0, "spread": 6.0}

_LARGEST_SPREAD = 3.0
_CLOSE = 1.2
# How far the gain of a drawn projection may be off its expectation, at the narrowest heads.
_SAMPLING = 0.2
