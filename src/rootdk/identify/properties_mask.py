"""Masks, causal order and windows in words."""

from __future__ import annotations

from collections.abc import Iterator

from rootdk.identify.wording import number
from rootdk.records import Behaviour, MaskFacts, Property

__all__ = ["mask_properties"]

_BOOLEAN = {
    "true_attends": "True may attend",
    "true_forbids": "True hides",
    "none": "changes nothing",
    "added": "True and False are added as 1 and 0",
    "other": "acts in no known way",
}
_EMPTY = {
    "zero": "0",
    "nan": "NaN",
    "uniform": "the mean of all values",
    "as-unmasked": "what it gives unmasked",
    "uniform-over-visible-to-causal": "the mean of what causal order shows",
    "other": "something else",
    "refused": "refused",
}
_ALIGNED = {
    "top_left": "from the top left",
    "bottom_right": "from the bottom right",
    "none": "no effect",
    "inverted": "the past is hidden and the future shown",
    "mixed": "corner depends on the shape",
    "other": "follows no diagonal",
}


def mask_properties(behaviour: Behaviour) -> Iterator[Property]:
    """Yield what is known of masks."""
    mask = behaviour.mask
    if mask is None:
        return
    yield from _boolean(mask)
    yield from _bias(mask)
    yield from _causal(mask)
    for window in mask.window:
        if window.argument:
            yield Property(
                key=f"window.{window.asked}.{window.asked_reach[1]}",
                label=f"{window.argument}={window.asked}",
                value=_reach(window.seen_reach),
            )
        else:
            yield Property(key="window", label="window", value=_reach(window.seen_reach))
    if mask.empty_rows:
        ways = "; ".join(f"by {how}: {_EMPTY[what]}" for how, what in mask.empty_rows.items())
        yield Property(key="empty_rows", label="empty rows", value=ways)


def _boolean(mask: MaskFacts) -> Iterator[Property]:
    if mask.argument is None or mask.boolean is None:
        return
    value = _BOOLEAN[mask.boolean]
    if mask.after_softmax:
        value += ", applied after the softmax"
    yield Property(key="mask", label=f"{mask.argument}", value=value)
    if mask.leak is not None and mask.boolean != "none":
        held = "holds" if mask.leak <= 1e-6 else f"leaks a weight of {number(mask.leak, 3)}"
        at = "" if mask.leak_shift is None else f"scores at {mask.leak_shift:g}"
        if mask.leak_gap:
            at += f", forbidden ones {mask.leak_gap:g} above"
        yield Property(key="mask.leak", label="forbidden keys", value=held, note=at)
    if mask.forbidden_values is not None and mask.forbidden_bound is not None:
        moved = mask.forbidden_values > mask.forbidden_bound
        value = (
            f"move the output by {number(mask.forbidden_values, 3)}" if moved else "move nothing"
        )
        yield Property(key="mask.forbidden", label="±1e30 behind the mask", value=value)
    if mask.nonfinite_values is not None:
        words = {"passes": "reaches the output (0·NaN)", "stopped": "is stopped"}
        yield Property(
            key="mask.nonfinite",
            label="NaN behind the mask",
            value=words[mask.nonfinite_values],
        )
    if mask.broadcasts:
        for word in ("ok", "wrong", "refused"):
            shapes = [shape for shape, what in mask.broadcasts.items() if what == word]
            if shapes:
                label = {
                    "ok": "mask shapes",
                    "wrong": "misread shapes",
                    "refused": "refused shapes",
                }
                yield Property(
                    key=f"mask.shapes.{word}", label=label[word], value=", ".join(shapes)
                )
    for fact, what in ((mask.per_sample, "sample"), (mask.per_head, "head")):
        if fact is False:
            yield Property(
                key=f"mask.per_{what}", label=f"mask by {what}", value=f"acts on another {what}"
            )


def _bias(mask: MaskFacts) -> Iterator[Property]:
    if mask.bias_argument is None or mask.bias_factor is None:
        return
    law = mask.bias_factor_law
    if law == "1":
        value = "added as it is"
    else:
        value = f"acts as {number(mask.bias_factor)} times itself"
        value += f" ({law})" if law else ""
    label = f"{mask.bias_argument} (float)" if mask.bias_argument == mask.argument else (
        mask.bias_argument
    )  # fmt: skip
    yield Property(key="bias_factor", label=label, value=value)
    if mask.bias_leak is not None:
        held = "hides" if mask.bias_leak == 0.0 else f"leaves a weight of {number(mask.bias_leak)}"
        yield Property(key="bias_infinite", label="a bias of −inf", value=held)


def _causal(mask: MaskFacts) -> Iterator[Property]:
    if mask.alignment is not None:
        if mask.alignment == "off-by-one":
            off = mask.alignment_offset or 0
            value = f"off by one: {abs(off)} key {'past' if off > 0 else 'before'} the diagonal"
        else:
            value = _ALIGNED[mask.alignment]
        if mask.always_causal:
            value += ", always"
        yield Property(key="causal", label=mask.causal_argument or "causal", value=value)
    if mask.decode is not None and mask.alignment in ("top_left", "bottom_right"):
        last = mask.decode.last_visible[0]
        whole = last == mask.decode.keys - 1
        value = "sees all keys" if whole else f"sees {last + 1} of {mask.decode.keys} keys"
        yield Property(key="decode", label="one causal query", value=value)


def _reach(reach: tuple[int | None, int | None]) -> str:
    before, after = ("all" if n is None else str(n) for n in reach)
    return f"{before} before, {after} after"
