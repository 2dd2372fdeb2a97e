"""Read saved tensors site by site, and turn them into records."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import rootdk
from rootdk._lib.errors import ArgumentError, ShapeError, TargetError
from rootdk.frontends._arrays.document import Document, decode
from rootdk.frontends._arrays.naming import DOCUMENT, STATE, grouped
from rootdk.frontends._arrays.npz import NpzStore
from rootdk.frontends._arrays.reading import read_call
from rootdk.frontends._arrays.site import Judged, judge_call
from rootdk.frontends._arrays.store import Given, Store
from rootdk.frontends._arrays.tensors import SafetensorsStore
from rootdk.frontends._base import Trace
from rootdk.records import AttentionSite, Environment
from rootdk.stats import Summary

__all__ = ["run"]

_STORES: dict[str, Callable[[Path], Store]] = {
    ".npz": NpzStore,
    ".safetensors": SafetensorsStore,
}
_CODE = (
    "saved tensors show numbers, not code: what only the code tells (how the exponentials are "
    "taken, a dropout, several factors, norms before the product) is not judged"
)


def run(
    model: str | Path | Mapping[str, Any],
    *,
    rows: int,
    seed: int | None,
    statistics: bool,
    progress: Callable[[str], None] | None,
) -> Trace:
    """Read every site of a file or a mapping; see ``rootdk.frontends.trace``."""
    store = _opened(model)
    document = _document(store)
    names = dict.fromkeys((*store.names(), *store.words))
    groups, strangers = grouped(names, store.name)
    records = {} if document is None else {site.name: site for site in document.sites}
    layout = store.text("layout") or "bhsd"
    judged: dict[str, Judged] = {}
    for group in groups:
        if progress is not None:
            progress(group.site)
        call = read_call(store, group, layout)
        try:
            judged[group.site] = judge_call(
                call,
                records.get(group.site),
                rows=rows,
                seed=0 if seed is None else seed,
                statistics=statistics,
            )
        except (ArgumentError, ShapeError) as error:
            raise TargetError(f"{store.name}: {group.site}: {error}") from None
    sites = _in_order(judged, records)
    state, reason = _state(store, document)
    return Trace(
        sites=sites,
        summaries=_summaries(judged),
        unhandled=() if document is None else document.unhandled,
        remarks=_remarks(document, judged, sites, strangers),
        environment=_environment(document, sites, seed),
        state=state,
        state_reason=reason,
        operations=len(names) if document is None else document.operations,
    )


def _opened(model: str | Path | Mapping[str, Any]) -> Store:
    if isinstance(model, Mapping):
        return Given(_flat(model))
    path = Path(model)
    if not path.is_file():
        raise TargetError(f"{path} is no file; expected a .npz or .safetensors file")
    try:
        return _STORES[path.suffix.lower()](path)
    except OSError as error:
        raise TargetError(f"{path} cannot be read: {error}") from None


def _flat(given: Mapping[str, Any]) -> dict[str, Any]:
    """``{"attn": {"query": …}}`` is ``{"attn.query": …}``."""
    flat: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, Mapping):
            flat.update({f"{name}.{field}": item for field, item in value.items()})
        else:
            flat[str(name)] = value
    return flat


def _document(store: Store) -> Document | None:
    text = store.text(DOCUMENT)
    if text is None:
        if DOCUMENT in store.names():
            raise TargetError(f"{store.name}: {DOCUMENT} is no text; expected a JSON document")
        return None
    return decode(text, f"{store.name}: {DOCUMENT}")


def _state(store: Store, document: Document | None) -> tuple[Any, str]:
    word = store.text(STATE)
    if word is not None:
        if word not in ("init", "trained"):
            raise TargetError.unexpected(f"{store.name}: {STATE}", word, "init or trained")
        return word, f"stored in {store.name}"
    if document is not None:
        return document.state, document.state_reason
    return "unknown", "saved tensors do not say whether the weights are at initialisation"


def _in_order(
    judged: Mapping[str, Judged], records: Mapping[str, AttentionSite]
) -> tuple[AttentionSite, ...]:
    """The sites in the order of the document, then those that it does not name."""
    names = dict.fromkeys((*records, *judged))
    return tuple(judged[name].site if name in judged else records[name] for name in names)


def _summaries(judged: Mapping[str, Judged]) -> dict[str, Summary]:
    return {name: one.summary for name, one in judged.items() if one.summary is not None}


def _remarks(
    document: Document | None,
    judged: Mapping[str, Judged],
    sites: tuple[AttentionSite, ...],
    strangers: tuple[str, ...],
) -> tuple[str, ...]:
    said = [] if document is None else list(document.remarks)
    how = Counter(one.how for one in judged.values())
    if document is None:
        said.append(_CODE)
    if how["recorded"]:
        said.append(
            f"the scale of {how['recorded']} site(s) was verified where the tensors were "
            "captured, and cannot be verified again from what is stored"
        )
    if how["stated"]:
        said.append(
            f"the scale of {how['stated']} site(s) is as stored: no weights, scores or output "
            "are there to verify it by"
        )
    said.extend(_open_scales(judged))
    bare = [site.name for site in sites if site.name not in judged]
    if bare:
        said.append(f"{len(bare)} site(s) are as recorded, without arrays: {', '.join(bare[:3])}")
    if strangers:
        more = f" and {len(strangers) - 3} more" if len(strangers) > 3 else ""
        said.append(
            f"{len(strangers)} name(s) belong to no site and were not read: "
            f"{', '.join(strangers[:3])}{more}"
        )
    return tuple(said)


def _open_scales(judged: Mapping[str, Judged]) -> list[str]:
    spreads = [
        float(np.nanmedian(one.summary["spread"]))
        for one in judged.values()
        if one.how == "open"
        and one.summary is not None
        and np.isfinite(one.summary["spread"]).any()
    ]
    if not spreads:
        return []
    ends = " to ".join(dict.fromkeys(f"{end(spreads):.3g}" for end in (min, max)))
    known = "their entries are measured, and at 1/√head_dim their scores would spread by"
    unjudged = "scale, softmax and health are not judged there"
    return [f"the scale of {len(spreads)} site(s) is not known: {known} {ends}; {unjudged}"]


def _environment(
    document: Document | None, sites: tuple[AttentionSite, ...], seed: int | None
) -> Environment:
    if document is not None:
        return document.environment
    dtype = sites[0].score_dtype if sites else "float32"
    versions = {
        "rootdk": rootdk.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
    return Environment(versions=versions, device="", dtype=dtype, training=None, seed=seed)
