"""A datasheet as what JSON holds."""

from __future__ import annotations

from typing import Any

from rootdk.records import Datasheet, Finding
from rootdk.report._datasheet import verdict_of

__all__ = ["DATASHEET_SCHEMA_VERSION", "datasheet_document"]

DATASHEET_SCHEMA_VERSION = 1


def datasheet_document(sheet: Datasheet) -> dict[str, Any]:
    """Return a datasheet as a document: what was said first, every measured number last."""
    return {
        "schema": DATASHEET_SCHEMA_VERSION,
        "function": sheet.function,
        "verdict": verdict_of(sheet).lower(),
        "formula": sheet.formula,
        "properties": [
            {"key": p.key, "label": p.label, "value": p.value, "note": p.note}
            for p in sheet.properties
        ],
        "findings": [_finding(sheet, finding) for finding in sheet.findings],
        "against": sheet.against,
        "differences": sheet.differences,
        "skipped": sheet.skipped,
        "remarks": sheet.remarks,
        "environment": sheet.environment,
        "behaviour": sheet.behaviour,
    }


def _finding(sheet: Datasheet, finding: Finding) -> dict[str, Any]:
    fact = finding.evidence.get("fact")
    shown = fact in sheet.behaviour.witnesses
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity,
        "message": finding.message,
        "excuse": finding.excuse,
        "remedy": finding.remedy,
        "source": finding.source,
        "evidence": finding.evidence,
        "reproduce": sheet.reproduce(finding.code) if shown else None,
    }
