"""RDK410."""

from __future__ import annotations

from collections.abc import Iterable

from rootdk.records import AttentionSite, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._examples import Example, fires, healthy_site, silent


class OneSidedRotation(Rule):
    """Query or key is rotated by its position, and the other is not.

    What it does
    ------------
    Finds rotary position embedding on one side of the query-key product only, where both sides
    are projections of the same tokens.

    Why it matters
    --------------
    Two rotations make a score depend on the distance of two tokens. One alone makes it depend on
    the absolute position of one of them: a key looks alike to a query at position 3 and at 4 only
    if nothing was rotated, and the model has to learn every position by itself.

    How it is measured
    ------------------
    Read off the graph: on the way from the projection to the product, halves of one tensor are
    multiplied by tables whose squares sum to one number, and added; or complex entries are
    multiplied by numbers of one size. Both projections read the same tensor.

    Remedy
    ------
    Rotate both, query and key, by the angles of their own positions.

    When it stays silent
    --------------------
    Where both are rotated or neither is; in cross-attention; where keys come from a cache or a
    module that may have rotated them; at a single position; and where further score terms are
    added to the product.

    References
    ----------
    Su et al., RoFormer: Enhanced Transformer with Rotary Position Embedding, 2021
    (arXiv:2104.09864), equation 16.
    """

    code = "RDK410"
    name = "one-sided-rotation"
    since = "0.1"
    severities = (Severity.WARNING,)

    def judge_site(self, site: AttentionSite) -> Findings:
        """Yield one finding if one side alone is rotated."""
        if site.rotated not in ("query", "key") or site.score_terms > 1:
            return
        if site.queries != site.keys or site.keys < 2:
            return
        other = "key" if site.rotated == "query" else "query"
        yield self.finding(
            site,
            Severity.WARNING,
            f"the {site.rotated} is rotated by its position and the {other}, a projection of the "
            f"same {site.keys} tokens, is not: scores depend on one absolute position, and on no "
            "distance",
            source=site.product_source or site.source,
            evidence={"rotated": site.rotated},
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        square = {"queries": 16, "keys": 16}
        for side, other in (("query", "key"), ("key", "query")):
            yield fires(
                f"the {side} alone",
                Severity.WARNING,
                site=healthy_site(rotated=side, **square),
                says=(f"the {side} is rotated", f"the {other}, a projection of the same 16"),
            )
        yield silent("both", site=healthy_site(rotated="both", **square))
        yield silent("none", site=healthy_site(**square))
        yield silent("another length", site=healthy_site(rotated="query"))
        terms = healthy_site(rotated="query", score_terms=2, **square)
        yield silent("a further term", site=terms)
