"""RDK404."""

from __future__ import annotations

from collections.abc import Iterable

from rootdk.records import AttentionSite, Behaviour, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._behaviour_examples import behaving, fires_of, masking, silent_of, skips_of
from rootdk.rules._examples import Example, fires, healthy_site, silent
from rootdk.rules.mask._fills import masks


class InvertedMask(Rule):
    """The mask hides what it should show, and shows what it should hide.

    What it does
    ------------
    Finds a boolean mask whose True forbids where its name says that it allows, or the other way
    round; and a causal flag that hides the past and shows the future. In a model: a mask that is
    the complement of a causal one.

    Why it matters
    --------------
    Every query reads padding, or the future, and nothing of what it should. Training still
    works a little, since residual connections carry the token past the layer.

    How it is measured
    ------------------
    A mask with some True and some False entries is given, and the weights say which of them
    are visible. A name that holds "pad" is taken to mean that True is hidden, as in torch's
    key_padding_mask; every other mask, that True may attend. In a model the mask itself is
    compared with the complement of a causal mask.

    Remedy
    ------
    Let True mean "may attend", as torch, JAX and ONNX do, or invert the mask once where it is
    passed on: attn_mask=~mask.

    When it stays silent
    --------------------
    In a model, at every other mask, and where a query sees its own position and those after it,
    as one that reads backwards does. Of a function, where the mask does what its name says, and
    where the meaning was declared with ``expect={"mask": "true_forbids"}``.

    References
    ----------
    PyTorch's documentation of scaled_dot_product_attention (2.0, 2023), attn_mask. Cases seen in
    public: InseeFrLab/torchTextClassifiers#92, pytorch/examples#649 (the past is masked).
    """

    code = "RDK404"
    name = "inverted-mask"
    since = "0.1"
    severities = (Severity.ERROR, Severity.WARNING)
    supersedes = ("RDK401", "RDK402", "RDK403", "RDK406", "RDK408")

    def judge_site(self, site: AttentionSite) -> Findings:
        """Yield one finding if a site's mask is the complement of a causal one."""
        if not site.only_later or site.diagonal != 0 or site.queries != site.keys:
            return
        yield self.finding(
            site,
            Severity.WARNING,
            f"every query sees the keys after its own position alone, and the last of the "
            f"{site.queries} sees none: the complement of a causal mask",
            source=next((a.source for a in masks(site) if a.source is not None), site.source),
            evidence={"diagonal": site.diagonal, "only_later": True},
        )

    def judge_function(self, behaviour: Behaviour) -> Findings:
        """Yield one finding if a mask or a causal flag is the wrong way round."""
        mask = behaviour.mask
        if mask is None or (mask.boolean is None and mask.alignment is None):
            self.skip("the function takes no boolean mask and no causal flag")
        if mask.alignment == "inverted":
            flag = mask.causal_argument or "the causal mask"
            yield self.finding(
                behaviour,
                Severity.ERROR,
                f"{flag} hides the keys before the diagonal and shows the {_ahead(behaviour)} "
                "after it",
                evidence={"fact": "mask.causal", "alignment": mask.alignment},
            )
            return
        means = behaviour.expected.get("mask", mask.documented or "true_attends")
        if mask.boolean not in ("true_attends", "true_forbids") or mask.boolean == means:
            return
        does = "forbids" if mask.boolean == "true_forbids" else "allows"
        should = "allow" if means == "true_attends" else "forbid"
        yield self.finding(
            behaviour,
            Severity.ERROR,
            f"{mask.argument}: True {does} a key, and should {should} it: the weight on keys "
            "marked for hiding is 1 in all",
            evidence={"fact": "mask.boolean", "measured": mask.boolean, "meant": means},
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        square = {"queries": 16, "keys": 16}
        yield fires(
            "a model that sees the future alone",
            Severity.WARNING,
            site=healthy_site(diagonal=0, only_later=True, **square),
            says=("the last of the 16 sees none",),
        )
        backwards = healthy_site(diagonal=-1, only_later=True, **square)
        yield silent("a model that reads backwards", site=backwards)
        yield silent("a causal model", site=healthy_site(diagonal=0, **square))
        yield fires_of(
            "True hides",
            Severity.ERROR,
            masking(boolean="true_forbids"),
            says=("mask: True forbids a key, and should allow it",),
        )
        yield fires_of(
            "a padding mask that shows the padding",
            Severity.ERROR,
            masking(documented="true_forbids"),
            says=("True allows a key, and should forbid it",),
        )
        yield fires_of(
            "the past is hidden",
            Severity.ERROR,
            masking(alignment="inverted", causal_argument="causal"),
            says=("causal hides the keys before the diagonal",),
        )
        yield silent_of("True allows")
        yield silent_of("a causal flag that hides the future", masking(alignment="bottom_right"))
        yield silent_of(
            "a declared convention", masking({"mask": "true_forbids"}, boolean="true_forbids")
        )
        yield skips_of("a function without a mask", behaving(mask=None))


def _ahead(behaviour: Behaviour) -> str:
    keys = max((at.keys for at in behaviour.mask.causal), default=0) if behaviour.mask else 0
    return f"up to {keys - 1} keys" if keys > 1 else "keys"
