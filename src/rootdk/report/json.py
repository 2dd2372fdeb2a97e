"""A diagnosis as JSON, version 1 of a published schema, with no bare NaN."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from enum import Enum
from importlib import resources
from typing import Any

import numpy as np

from rootdk.records import AttentionSite, Datasheet, Diagnosis, Factor, Finding, Source
from rootdk.report._json_datasheet import datasheet_document
from rootdk.report._renderer import Renderer, require_diagnosis
from rootdk.report._verdict import tally, verdict
from rootdk.stats import Summary

__all__ = ["RENDERER", "SCHEMA_VERSION", "json_schema", "render", "to_plain"]

SCHEMA_VERSION = 1


def render(record: object, **_: Any) -> str:
    """Return a diagnosis or a datasheet as JSON.

    Non-finite numbers are the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``. A source
    is ``file:line`` of the innermost frame; all frames stand beside it.
    """
    document = (
        datasheet_document(record)
        if isinstance(record, Datasheet)
        else _document(require_diagnosis(record, "json"))
    )
    return _written(to_plain(document), "\n") + "\n"


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) that every document satisfies."""
    file = resources.files("rootdk.report") / "schema" / f"diagnosis-{SCHEMA_VERSION}.json"
    schema: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return schema


def to_plain(value: object) -> Any:
    """Return a value of only what JSON holds.

    Examples
    --------
    >>> to_plain({"a": (1.0, float("nan")), "b": -math.inf})
    {'a': [1.0, 'NaN'], 'b': '-Infinity'}
    """
    match value:
        case Enum():
            return value.value
        case None | bool() | int() | str():
            return value
        case float() if math.isfinite(value):
            return value
        case float():
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case np.generic() | np.ndarray():
            return to_plain(value.tolist())
        case Source():
            return value.location
        case Mapping():
            return {str(key): to_plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [to_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return str(value)


def _written(value: Any, newline: str) -> str:
    """Write one member a line, and a list of numbers on one."""
    inner = newline + "  "
    match value:
        case dict() if value:
            members = (f"{json.dumps(k)}: {_written(v, inner)}" for k, v in value.items())
            return "{" + inner + f",{inner}".join(members) + newline + "}"
        case list() if any(isinstance(item, dict | list) for item in value):
            return "[" + inner + f",{inner}".join(_written(v, inner) for v in value) + newline + "]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _document(diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "schema": SCHEMA_VERSION,
        "target": diagnosis.target,
        "state": diagnosis.state,
        "state_reason": diagnosis.state_reason,
        "verdict": verdict(diagnosis).lower(),
        "summary": tally(diagnosis),
        "sites": [_site(site, diagnosis.summaries.get(site.name)) for site in diagnosis.sites],
        "findings": [_finding(finding) for finding in diagnosis.findings],
        "skipped": diagnosis.skipped,
        "unhandled": diagnosis.unhandled,
        "remarks": diagnosis.remarks,
        "environment": diagnosis.environment,
    }


def _site(site: AttentionSite, summary: Summary | None) -> dict[str, Any]:
    shown = {f.name: getattr(site, f.name) for f in dataclasses.fields(site)}
    return {
        "name": shown.pop("name"),
        **_placed(shown.pop("source")),
        **shown,
        "product_source": site.product_source,
        "dropout_source": site.dropout_source,
        "factors": [_factor(factor) for factor in site.factors],
        "resolved": site.resolved,
        "scale_ratio": site.scale_ratio,
        "statistics": _statistics(summary),
        "measured": _measured(summary),
    }


def _placed(source: Source | None) -> dict[str, Any]:
    return {
        "source": source,
        "frames": [f"{f.location} {f.function}" for f in source.frames] if source else [],
    }


def _factor(factor: Factor) -> dict[str, Any]:
    shown = {f.name: getattr(factor, f.name) for f in dataclasses.fields(factor)}
    return {**shown, **_placed(factor.source)}


def _finding(finding: Finding) -> dict[str, Any]:
    shown = {f.name: getattr(finding, f.name) for f in dataclasses.fields(finding)}
    return {**shown, **_placed(finding.source), "source_text": _text(finding.source)}


def _text(source: Source | None) -> str:
    return source.text if source else ""


def _statistics(summary: Summary | None) -> dict[str, Any]:
    """Return every quantity that is numbers per head; sampled rows, which are ragged, are not."""
    if summary is None:
        return {}
    values = {name: summary[name] for name in summary.quantities}
    return {name: array for name, array in values.items() if isinstance(array, np.ndarray)}


def _measured(summary: Summary | None) -> dict[str, Any] | None:
    if summary is None:
        return None
    return {
        "engine": summary.engine,
        "rows": summary.rows,
        "visible_scores": summary.visible_scores,
        "notes": summary.notes,
        "absent": summary.absent,
    }


RENDERER = Renderer(name="json", suffixes=(".json",), render=render)
