"""One architecture, one row: build it, feed it, check it, and compare with what it declares."""

from __future__ import annotations

import math
import re
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook

import rootdk
from zoo.build import NotBuilt, build, classes_of, levels
from zoo.inputs import feed_model

_DECLARED = re.compile(
    r"^_?(softmax_|attention_|attn_|sm_|query_|qk_)?(scale|scaling|scale_attn|scaling_factor)$"
    r"|^(inv_)?norm_factor$|^inv_sqrt"
)
_ATTENTION = re.compile(r"atte?n|attention", re.IGNORECASE)
_ATTENTION_ITSELF = re.compile(r"(attention|attn|att)(\d*d|v\d)?$", re.IGNORECASE)
_CLOSE = 2e-3
LONGEST_SEARCH_SECONDS = 25.0


def make_row(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The row of one architecture, and the whole diagnoses by implementation."""
    start = time.perf_counter()
    row: dict[str, Any] = {"name": name, "status": "ran"}
    diagnoses: dict[str, Any] = {}
    try:
        model, kwargs = _running(name, row)
    except NotBuilt as why:
        row |= {"status": why.kind, "why": why.why}
        return row | {"seconds": round(time.perf_counter() - start, 2)}, {}
    row["inputs"] = {k: list(v.shape) for k, v in kwargs.items() if hasattr(v, "shape")}
    row["forward_seconds"] = round(_seconds(lambda: _forward(model, kwargs)), 3)
    row["eager"], diagnoses["eager"] = checked(model, kwargs)
    if getattr(type(model), "_supports_sdpa", False):
        level = next(lv for lv in levels() if lv.name == row["level"])
        try:
            other = build(name, type(model), level, "sdpa")
        except Exception as error:  # noqa: BLE001 - said in the row
            row["sdpa"] = {"not_built": _said(error)}
        else:
            row["sdpa"], diagnoses["sdpa"] = checked(other, kwargs)
            row["agreement"] = _agreement(diagnoses["eager"], diagnoses["sdpa"])
            if row["agreement"] is not None:
                row["agreement"]["outputs"] = _output_gap(model, other, kwargs)
                row["agreement"]["weights"] = _same_weights(model, other)
    row["seconds"] = round(time.perf_counter() - start, 2)
    return row, diagnoses


def _running(name: str, row: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The smallest model of this name that runs, and its input."""
    reasons: list[NotBuilt] = []
    start = time.process_time()  # whatever else the machine does, the same inputs are tried
    for kind in classes_of(name)[:3]:
        for level in levels():
            if reasons and time.process_time() - start > LONGEST_SEARCH_SECONDS:
                break
            try:
                model = build(name, kind, level, "eager")
                kwargs, tries = feed_model(model)
            except NotBuilt as why:
                reasons.append(why)
                if why.kind == "dependency missing":
                    raise
                continue
            except ImportError as error:
                raise NotBuilt("dependency missing", _said(error)) from error
            except Exception as error:  # noqa: BLE001 - the next level may build
                reasons.append(NotBuilt("constructor failed", _said(error)))
                continue
            row |= {"class": kind.__name__, "level": level.name, "tries": tries}
            row["parameters"] = sum(p.numel() for p in model.parameters())
            return model, kwargs
    row["reasons"] = list(dict.fromkeys(f"{r.kind}: {r.why}" for r in reasons))[:6]
    order = ("no input fitted", "too big", "constructor failed")
    raise min(reasons, key=lambda r: order.index(r.kind) if r.kind in order else 9)


def _forward(model: Any, kwargs: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    with torch.no_grad():
        return model(**kwargs)


def _output_gap(one: Any, two: Any, kwargs: dict[str, Any]) -> float | None:
    """The largest difference of the outputs over the largest output, None if not comparable."""
    first, second = (next(_tensors(_forward(model, kwargs)), None) for model in (one, two))
    if first is None or second is None or first.shape != second.shape:
        return None
    return float((first - second).abs().max() / first.abs().max().clamp_min(1e-12))


def _same_weights(one: Any, two: Any) -> bool:
    """Whether two builds hold the same numbers; some leave memory as it was."""
    second = two.state_dict()
    return all(torch.equal(v, second[k]) for k, v in one.state_dict().items() if k in second)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        if value.is_floating_point() and value.numel():
            yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _tensors(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _tensors(inner)


def _seconds(call: Any) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def checked(
    model: Any, kwargs: dict[str, Any], args: tuple[Any, ...] = ()
) -> tuple[dict[str, Any], Any]:
    """What a check says of a model, as a row keeps it, and the diagnosis itself."""
    start = time.perf_counter()
    with _called(model) as attention:
        try:
            diagnosis = rootdk.check(model, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - this is what the zoo is for
            return {"crashed": _said(error), "traceback": traceback.format_exc()[-3000:]}, None
    sites = diagnosis.sites
    resolved = [s for s in sites if s.resolved]
    summary: dict[str, Any] = {
        "sites": len(sites),
        "resolved": len(resolved),
        "verified": sum(s.verification.mismatch is not None for s in resolved),
        "operands": dict(Counter(s.verification.operands for s in resolved)),
        "spellings": dict(Counter(s.spelling for s in sites)),
        "scales": _compressed(resolved),
        "unresolved": [[s.name, s.spelling, str(s.source), s.unresolved] for s in sites
                       if not s.resolved],
        "findings": [
            [f.code, str(f.severity), f.site, f.message, f.excuse, str(f.source)]
            for f in diagnosis.findings
        ],
        "unhandled": [[u.operation, u.count, u.where, u.why] for u in diagnosis.unhandled],
        "remarks": list(diagnosis.remarks),
        "state": diagnosis.state,
        "declared": _declared(model, resolved),
        "without_site": _without_site(attention, sites),
        "seconds": round(time.perf_counter() - start, 2),
    }  # fmt: skip
    return summary, diagnosis


def _compressed(sites: Any) -> list[list[Any]]:
    """``[scale, ratio to 1/√head_dim, head_dim, sites]``, one entry for each distinct triple."""
    alike: Counter[tuple[float, float, int]] = Counter()
    for site in sites:
        alike[_round(site.effective_scale), _round(site.scale_ratio), site.head_dim] += 1
    return [[*key, count] for key, count in alike.items()]


def _round(value: float | None) -> float:
    return float("nan") if value is None else float(f"{value:.4g}")


def _declared(model: Any, sites: Any) -> dict[str, Any]:
    """What the attention modules themselves call their scale, beside what was traced."""
    modules = dict(model.named_modules())
    agree, differ = 0, []
    for site in sites:
        for owner in (site.module_path, site.module_path.rpartition(".")[0]):
            stated = _stated(modules.get(owner)) if owner else {}
            if stated and _ATTENTION.search(type(modules[owner]).__name__):
                traced = site.effective_scale
                if any(_same(traced, value) for value in stated.values()):
                    agree += 1
                else:
                    differ.append([site.name, stated, traced])
                break
    return {"agree": agree, "differ": differ}


def _stated(module: Any) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in (vars(module) if module is not None else {}).items()
        if _DECLARED.search(name) and isinstance(value, (int, float))
        and not isinstance(value, bool) and value
    }  # fmt: skip


def _same(traced: float, stated: float) -> bool:
    readings = (stated, 1 / stated, stated**2, abs(stated) ** -0.5)
    return any(math.isclose(traced, reading, rel_tol=_CLOSE) for reading in readings)


@contextmanager
def _called(model: Any) -> Iterator[set[str]]:
    """Collect the paths of the modules that run and are called attention."""
    paths = {id(m): n for n, m in model.named_modules()}
    called: set[str] = set()

    def note(module: Any, _: Any) -> None:
        if id(module) in paths and _ATTENTION_ITSELF.search(type(module).__name__):
            called.add(f"{paths[id(module)]}:{type(module).__name__}")

    handle = register_module_forward_pre_hook(note)
    try:
        yield called
    finally:
        handle.remove()


def _without_site(attention: set[str], sites: Any) -> list[str]:
    """The innermost attention modules in which no site was found."""
    found = {s.module_path for s in sites}
    paths = {entry.partition(":")[0]: entry for entry in attention}
    inner = [p for p in paths if not any(o != p and o.startswith(f"{p}.") for o in paths)]
    missing = []
    for path in inner:
        parent = path.rpartition(".")[0]
        if not any(f == path or f.startswith(f"{path}.") or (parent and f == parent
                   and f in paths) for f in found):  # fmt: skip
            missing.append(paths[path])
    return sorted(missing)


def _agreement(eager: Any, sdpa: Any) -> dict[str, Any] | None:
    """Where the two implementations of one model differ, by module path and call."""
    if eager is None or sdpa is None:
        return None
    one, two = _by_place(eager), _by_place(sdpa)
    scale, statistics = [], []
    for place in one.keys() & two.keys():
        a, b = one[place], two[place]
        if not (a.resolved and b.resolved):
            continue
        if not math.isclose(a.effective_scale, b.effective_scale, rel_tol=_CLOSE):
            scale.append([a.name, a.effective_scale, b.effective_scale, a.score_terms])
        statistics += _different(a, eager.summaries.get(a.name), sdpa.summaries.get(b.name))
    return {
        "common": len(one.keys() & two.keys()),
        "only_eager": len(one.keys() - two.keys()),
        "only_sdpa": len(two.keys() - one.keys()),
        "scale": scale,
        "statistics": statistics[:4],
    }


def _by_place(diagnosis: Any) -> dict[tuple[str, int], Any]:
    return {(s.module_path, s.call_index): s for s in diagnosis.sites}


def _different(site: Any, one: Any, two: Any) -> list[list[Any]]:
    if one is None or two is None:
        return []
    found = []
    for name in ("row_spread", "entropy_nats", "max_weight", "max_score"):
        try:
            a, b = (torch.as_tensor(s[name], dtype=torch.float64) for s in (one, two))
        except Exception:  # noqa: BLE001 - a quantity that one of them lacks
            continue
        if a.shape != b.shape or not torch.allclose(a, b, rtol=2e-3, atol=2e-4, equal_nan=True):
            found.append([site.name, name, a.flatten()[:2].tolist(), b.flatten()[:2].tolist()])
    return found


def _said(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:2])[:300]}"
