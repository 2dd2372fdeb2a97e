"""From a saved call to a site: what is stored, what the numbers confirm, and what stays open."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass

import numpy as np

from rootdk._lib.errors import TargetError
from rootdk.engines import measure
from rootdk.frontends._arrays.call import Kept, SavedCall
from rootdk.frontends._arrays.fit import Fit, fitted_scale
from rootdk.frontends._arrays.sample import Mismatch, Rows, compare, draw
from rootdk.frontends._arrays.seen import observe
from rootdk.frontends._sites.diagonal import diagonal_of
from rootdk.frontends._sites.recompute import NOTHING_SEEN
from rootdk.records import Addend, AttentionSite, Factor, OperandPath, Verification
from rootdk.stats import Summary

__all__ = ["SPELLING", "Judged", "judge_call"]

SPELLING = "saved tensors"

_SAME = 1e-6
_OPEN = 1e-2
"""A scale that what was kept leaves open by more than this is not taken for known."""

_WITHOUT_A_SCALE = (
    "query_mean",
    "query_std",
    "query_rms",
    "key_mean",
    "key_std",
    "key_rms",
    "value_std",
    "input_rms",
    "projection_gain",
    "spread",
    "row_spread",
    "predicted_spread",
)
"""What is measured where no scale is known: entries, and how far scores spread at 1/√head_dim."""

_AS_AT_STANDARD = "the scale is not known; scores are measured as at 1/√head_dim"


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A site with its statistics, and how its scale is known.

    ``how``: ``verified`` by recomputing what was kept, ``found`` from it, ``recorded`` as
    verified where the tensors were captured, ``stated`` with nothing to verify it by, ``open``
    where it is not known.
    """

    site: AttentionSite
    summary: Summary | None
    how: str


@dataclass(frozen=True, kw_only=True)
class _Scale:
    value: float | None
    how: str
    origin: str = ""
    precision: float = 0.0
    mismatch: Mismatch | None = None
    unresolved: str | None = None


def judge_call(
    call: SavedCall, record: AttentionSite | None, *, rows: int, seed: int, statistics: bool
) -> Judged:
    """Return the site of a saved call, verified as far as what was kept allows."""
    scale = _scale(call, record, rows=rows, seed=seed)
    site = _site(call, record, scale)
    summary = _measured(call, scale) if statistics else None
    return Judged(site=site, summary=summary, how=scale.how)


def _scale(call: SavedCall, record: AttentionSite | None, *, rows: int, seed: int) -> _Scale:
    stated = call.scale
    if stated is None and record is not None:
        stated = record.effective_scale
    known = None if record is None else record.effective_scale
    if None not in (stated, known) and not _same(stated, known):
        why = f"the stored scale is {stated:.6g} and the record beside it says {known:.6g}"
        return _Scale(value=None, how="open", unresolved=why)
    kept = call.kept
    if kept is not None and kept.kind == "output" and call.value is None:
        kept = None
    drawn = draw(call, kept, rows, seed) if kept is not None else ()
    if kept is None or not drawn:
        some = bool(call.query.size and call.key.size)
        unseen = some and (kept.rows.size if kept is not None else not _sees(call))
        if unseen and (record is None or not record.verification.rows):
            return _Scale(value=None, how="open", unresolved=NOTHING_SEEN)
        if record is not None and known is not None:
            return _Scale(value=stated, how="recorded", origin=_STATED)
        return _stated(call, stated)
    if stated is None:
        return _found(call, kept, drawn)
    mismatch = compare(drawn, kept, call, stated)
    if not mismatch.rows:
        # All of what was kept is NaN or infinite: that is said of the scores, and verifies nothing.
        return _stated(call, stated)
    if mismatch.within:
        return _Scale(value=stated, how="verified", origin=_STATED, mismatch=mismatch)
    why = _differs(kept, stated, mismatch, _reproduces(call, kept, drawn), call)
    return _Scale(value=None, how="open", mismatch=mismatch, unresolved=why)


_STATED = "stored with the tensors"


def _same(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and abs(one - other) <= _SAME * abs(other)


def _sees(call: SavedCall) -> bool:
    """Whether any query sees a key."""
    batch, heads, queries, _ = call.query.shape
    rows = np.arange(queries)
    places = ((b, h) for b in range(batch) for h in range(heads))
    return any(call.visible(b, h, rows).any() for b, h in places)


def _stated(call: SavedCall, stated: float | None) -> _Scale:
    if stated is not None:
        return _Scale(value=stated, how="stated", origin=f"{_STATED}, not verified")
    return _Scale(
        value=None,
        how="open",
        unresolved="no scale is stored, and no weights, scores or output to find it from",
    )


def _found(call: SavedCall, kept: Kept, drawn: tuple[Rows, ...]) -> _Scale:
    fit = fitted_scale(drawn, kept, call)
    if fit is None or not fit.uncertainty <= _OPEN:
        off = ""
        if fit is not None and fit.uncertainty < 1.0:
            off = f" ({fit.scale:.4g}, give or take {100 * fit.uncertainty:.2g} %)"
        return _Scale(
            value=None,
            how="open",
            unresolved=f"no scale is stored, and the stored {kept.kind} leave it open{off}",
        )
    mismatch = compare(drawn, kept, call, fit.scale)
    if mismatch.within:
        origin = f"found from the stored {kept.kind}"
        return _Scale(
            value=fit.scale,
            how="found",
            origin=origin,
            precision=fit.uncertainty,
            mismatch=mismatch,
        )
    why = (
        f"no scale is stored, and none gives the stored {kept.kind}: the closest, "
        f"{fit.scale:.4g}, differs by {mismatch.difference:.3g} (the dtype allows "
        f"{mismatch.bound:.3g})"
    )
    return _Scale(value=None, how="open", mismatch=mismatch, unresolved=why)


def _reproduces(call: SavedCall, kept: Kept, drawn: tuple[Rows, ...]) -> Fit | None:
    fit = fitted_scale(drawn, kept, call)
    if fit is None or not fit.uncertainty <= _OPEN:
        return None
    return fit if compare(drawn, kept, call, fit.scale).within else None


def _differs(
    kept: Kept, stated: float, mismatch: Mismatch, other: Fit | None, call: SavedCall
) -> str:
    end = f"; a scale of {other.scale:.6g} reproduces them" if other is not None else ""
    return (
        f"{kept.kind} recomputed with the stored scale of {stated:.6g} differ from the stored "
        f"ones by {mismatch.difference:.3g} ({call.score_dtype} allows {mismatch.bound:.3g}){end}"
    )


def _measured(call: SavedCall, scale: _Scale) -> Summary:
    known = scale.value is not None
    summary = measure(
        call.query,
        call.key,
        call.value,
        scale=scale.value,
        mask=call.mask,
        bias=call.bias,
        causal=call.causal,
        window=call.window,
        softcap=call.softcap if known else None,
        inputs=call.inputs,
        score_dtype=call.score_dtype,
        quantities=None if known else _WITHOUT_A_SCALE,
    )
    if known:
        return summary
    return dataclasses.replace(summary, notes=(*summary.notes, _AS_AT_STANDARD))


def _site(call: SavedCall, record: AttentionSite | None, scale: _Scale) -> AttentionSite:
    batch, heads, queries, head_dim = (int(n) for n in call.query.shape)
    sizes = {"batch": batch, "num_heads": heads, "queries": queries, "keys": call.key.shape[2]}
    mismatch = scale.mismatch
    verification = Verification(
        rows=mismatch.rows if mismatch else 0,
        mismatch=mismatch.difference if mismatch else None,
        bound=mismatch.bound if mismatch else None,
    )
    if record is not None:
        _require_sizes(record, sizes)
        again = dataclasses.replace(verification, operands=record.verification.operands)
        return dataclasses.replace(
            record,
            verification=again if mismatch else record.verification,
            unresolved=record.unresolved or scale.unresolved,
            effective_scale=scale.value,
        )
    factors: tuple[Factor, ...] = ()
    if scale.value is not None:
        factors = (Factor(value=scale.value, place="scores", origin=scale.origin),)
    path, numbers = _path(call.site)
    diagonal = diagonal_of(call.mask, queries, int(call.key.shape[2]))
    return AttentionSite(
        name=call.site,
        spelling=SPELLING,
        **sizes,
        num_kv_heads=int(call.key.shape[1]),
        head_dim=head_dim,
        value_dim=None if call.value is None else int(call.value.shape[3]),
        hidden=call.hidden or (None if call.inputs is None else int(call.inputs.shape[-1])),
        layer=call.layer if call.layer is not None else numbers,
        module_path=path,
        call_index=_call_index(call.site),
        layout=call.layout,
        factors=factors,
        effective_scale=scale.value,
        scale_precision=scale.precision,
        query_path=OperandPath(terminal="input"),
        key_path=OperandPath(terminal="input"),
        softcap=call.softcap,
        addends=_addends(call),
        causal=call.causal,
        diagonal=diagonal.offset if diagonal is not None else None,
        only_later=diagonal is not None and diagonal.inverted,
        window=call.window,
        observed=observe(call),
        score_dtype=call.score_dtype,
        verification=verification,
        unresolved=scale.unresolved,
    )


def _require_sizes(record: AttentionSite, sizes: dict[str, int]) -> None:
    for name, size in sizes.items():
        known = getattr(record, name)
        # Positions of padding are in the record, and were not measured.
        if known != size and not (name in {"queries", "keys"} and size < known):
            raise TargetError(
                f"{record.name}: the record beside the arrays says {name} = "
                f"{known}, the arrays {size}"
            )


def _addends(call: SavedCall) -> tuple[Addend, ...]:
    found = []
    for kind, fill in call.masked_by:
        if kind == "position":
            found.append(Addend(kind="bias"))
        else:
            found.append(Addend(kind="mask", fill=fill, replaces=kind == "mask"))
    return tuple(found)


def _path(site: str) -> tuple[str, int | None]:
    path = site.rpartition("#")[0] if re.search(r"#\d+$", site) else site
    numbers = re.findall(r"(?:^|[._/])(\d+)(?=[._/]|$)", path)
    return path, int(numbers[0]) if numbers else None


def _call_index(site: str) -> int:
    found = re.search(r"#(\d+)$", site)
    return max(int(found[1]) - 1, 0) if found and len(found[1]) < 10 else 0
