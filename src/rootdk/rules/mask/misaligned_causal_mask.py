"""RDK403."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rootdk.records import AttentionSite, Behaviour, CausalAt, MaskFacts, Observed, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._behaviour_examples import behaving, fires_of, masking, silent_of, skips_of
from rootdk.rules._examples import Example, fires, healthy_site, silent
from rootdk.rules.mask._fills import masks


class MisalignedCausalMask(Rule):
    """The causal mask stands on another diagonal than it should.

    What it does
    ------------
    Finds a causal call whose diagonal is off by some keys, changes its corner with the shape,
    or is not the one that was declared. In a model: a mask that shows every query one key beyond
    its own position, and one that starts at the first key although a cache stands before the
    queries; a note where the query's own position is hidden.

    Why it matters
    --------------
    One key too many is the token that is to be predicted: the loss falls to nothing and the
    model has learned to copy. One key too few hides the token itself. Where there are more keys
    than queries, as with a cache, the two corners differ by the whole prefix: top left shows
    the last token only the first key, and bottom right shows a first chunk everything.

    How it is measured
    ------------------
    Of a function, which keys each query sees is read off the weights, for as many queries as
    keys, for fewer and for more, and for a single query. In a model the mask itself is compared
    with the diagonal that its first row gives, and keys that no query sees are counted.

    Remedy
    ------
    Let query i see keys up to i + keys - queries (bottom right), or up to i (top left), at every
    shape, and say which it is.

    When it stays silent
    --------------------
    At both corners, where none was declared: both are in use, and equal for square scores. A
    flag without any effect is RDK407, one that shows the future and hides the past RDK404.
    In a model, at two keys or more beyond the diagonal (a model that looks ahead on purpose), and
    where the keys that no query sees are zeros, the room that a cache still has.

    References
    ----------
    Vaswani et al., 2017, section 3.2.3 (arXiv:1706.03762). Cases seen in public:
    Dao-AILab/flash-attention#282, ml-explore/mlx#2967 (the corner depends on the longer side).
    """

    code = "RDK403"
    name = "misaligned-causal-mask"
    since = "0.1"
    severities = (Severity.ERROR, Severity.WARNING, Severity.NOTE)
    supersedes = ("RDK402", "RDK408", "RDK409")
    supersedes_when = (Severity.ERROR,)

    def judge_site(self, site: AttentionSite) -> Findings:
        """Yield one finding if the mask of a site stands one key off, or at the wrong corner."""
        offset, unseen = site.diagonal, site.observed.unseen_keys or 0
        if offset is None or site.only_later:
            return
        square = site.queries == site.keys > 2
        if square and offset == 1:
            severity, fact = Severity.WARNING, "every query sees 1 key beyond its own position"
        elif square and offset == -1:
            severity, fact = (
                Severity.NOTE,
                "no query sees its own position, and the first sees none",
            )
        elif offset == 0 and site.queries < site.keys and unseen:
            plural = "query" if site.queries == 1 else "queries"
            severity = Severity.WARNING
            fact = (
                f"the causal mask starts at the first key: of {site.keys} keys the {site.queries} "
                f"{plural} can see the first {site.queries}, and nothing sees the last {unseen}"
            )
        else:
            return
        yield self.finding(
            site,
            severity,
            f"{fact} (query i sees the keys up to i{offset:+d})" if offset else fact,
            source=next((a.source for a in masks(site) if a.source is not None), site.source),
            evidence={"diagonal": offset, "unseen_keys": unseen},
        )

    def judge_function(self, behaviour: Behaviour) -> Findings:
        """Yield one finding if the diagonal is none of the two, or not the declared one."""
        mask = behaviour.mask
        declared = behaviour.expected.get("causal")
        if mask is None or mask.alignment is None:
            self.skip("the function has no causal flag, and is not causal without one")
        if mask.alignment in ("none", "inverted") and declared is None:
            return
        wrong = mask.alignment in ("mixed", "off-by-one", "other")
        if not wrong and declared in (None, mask.alignment):
            return
        yield self.finding(
            behaviour,
            Severity.ERROR,
            f"{_fact(mask)}{_shown(mask)}{_expected(mask, declared)}",
            evidence={
                "fact": "mask.causal",
                "alignment": mask.alignment,
                "offset": mask.alignment_offset,
                "declared": declared,
                "last_visible": tuple((c.queries, c.keys, c.last_visible) for c in mask.causal),
            },
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        square = {"queries": 16, "keys": 16}
        yield fires(
            "a model that sees the next token",
            Severity.WARNING,
            site=healthy_site(diagonal=1, **square),
            says=("1 key beyond its own position", "up to i+1"),
        )
        yield fires(
            "a model that hides the token itself",
            Severity.NOTE,
            site=healthy_site(diagonal=-1, **square),
        )
        step: dict[str, Any] = {"queries": 1, "keys": 9, "diagonal": 0, "causal": "top_left"}
        cached = healthy_site(**step, observed=Observed(unseen_keys=8))
        yield fires(
            "a decode step that sees the first key of its cache",
            Severity.WARNING,
            site=cached,
            says=("of 9 keys the 1 query can see the first 1", "the last 8"),
        )
        room = healthy_site(**step, observed=Observed(unseen_keys=0))
        yield silent("room that a cache still has", site=room)
        yield silent("a causal model", site=healthy_site(diagonal=0, **square))
        yield silent("a model that looks ahead", site=healthy_site(diagonal=4, **square))
        ahead = CausalAt(queries=4, keys=4, last_visible=(1, 2, 3, 3))
        yield fires_of(
            "one key ahead",
            Severity.ERROR,
            masking(alignment="off-by-one", alignment_offset=1, causal=(ahead,)),
            says=("1 key past the diagonal", "of 4 queries and 4 keys the last visible are 1, 2"),
        )
        behind = CausalAt(queries=4, keys=4, last_visible=(-1, 0, 1, 2))
        yield fires_of(
            "the diagonal is hidden",
            Severity.ERROR,
            masking(alignment="off-by-one", alignment_offset=-1, causal=(behind,)),
            says=("1 key before the diagonal",),
        )
        yield fires_of(
            "a corner that changes with the shape",
            Severity.ERROR,
            masking(alignment="mixed"),
            says=("corner depends on the shape",),
        )
        yield fires_of("no diagonal at all", Severity.ERROR, masking(alignment="other"))
        decode = CausalAt(queries=1, keys=9, last_visible=(0,))
        yield fires_of(
            "not the declared corner",
            Severity.ERROR,
            masking({"causal": "bottom_right"}, alignment="top_left", causal=(decode,)),
            says=("at the top left", "1 query and 9 keys", "bottom_right is declared"),
        )
        yield silent_of("top left", masking(alignment="top_left"))
        yield silent_of("bottom right", masking(alignment="bottom_right"))
        yield silent_of(
            "the declared corner", masking({"causal": "top_left"}, alignment="top_left")
        )
        yield silent_of("without effect", masking(alignment="none"))
        yield skips_of("a function without a causal flag", behaving())


def _fact(mask: MaskFacts) -> str:
    flag = mask.causal_argument or "the causal mask"
    offset = mask.alignment_offset
    if mask.alignment == "off-by-one" and offset:
        count, side = abs(offset), "past" if offset > 0 else "before"
        return f"{flag} ends {count} key{'s' if count > 1 else ''} {side} the diagonal"
    words = {
        "mixed": "starts from a corner, and which corner depends on the shape",
        "top_left": "starts at the top left",
        "bottom_right": "ends at the bottom right",
        "none": "hides nothing",
        "inverted": "hides the past and shows the future",
    }
    return f"{flag} {words.get(str(mask.alignment), 'follows no diagonal')}"


def _shown(mask: MaskFacts) -> str:
    """Return which keys were visible at the smallest shape."""
    if not mask.causal:
        return ""
    seen = min(mask.causal, key=lambda at: at.queries * at.keys)
    plural = "query" if seen.queries == 1 else "queries"
    last = ", ".join(str(key) for key in seen.last_visible[:6])
    more = ", …" if len(seen.last_visible) > 6 else ""
    return f": of {seen.queries} {plural} and {seen.keys} keys the last visible are {last}{more}"


def _expected(mask: MaskFacts, declared: object) -> str:
    return "" if declared is None else f"; {declared} is declared"
