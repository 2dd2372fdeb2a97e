"""An earlier report, so that only what is new since then fails."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from rootdk._lib.errors import ArgumentError
from rootdk.records import Finding, Severity

__all__ = ["Baseline", "new_findings", "read", "remark"]

Baseline = Counter[tuple[str, str, str]]
"""How many findings an earlier report has, by code, site and severity.

Neither the message nor the line takes part: both change with what has nothing to do with it.
"""


def read(path: Path) -> Baseline:
    """Return the findings of a JSON report.

    Raises
    ------
    ArgumentError
        If the file is not a report of this version.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["schema"] != 1:
            raise ArgumentError.unexpected(f"{path} schema", document["schema"], "1")
        return Counter(
            (str(f["code"]), str(f["site"]), Severity(f["severity"]).value)
            for f in document["findings"]
        )
    except ArgumentError:
        raise
    except OSError as error:
        raise ArgumentError(f"--baseline {path} cannot be read: {error}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ArgumentError(
            f"--baseline {path} is no report; expected what rootdk check --format json writes"
        ) from None


def new_findings(findings: Iterable[Finding], baseline: Baseline) -> tuple[Finding, ...]:
    """Return the findings that an earlier report does not have, or has as less grave."""
    left = baseline.copy()
    new = []
    for finding in findings:
        keys = (
            (finding.code, finding.site, severity.value)
            for severity in Severity
            if severity.rank <= finding.severity.rank
        )
        match = next((key for key in keys if left[key] > 0), None)
        if match is None:
            new.append(finding)
        else:
            left[match] -= 1
    return tuple(new)


def remark(path: str, findings: tuple[Finding, ...], new: tuple[Finding, ...]) -> str:
    """Return what the comparison gave, as a remark."""
    codes = f": {', '.join(sorted({f'{f.code} at {f.site}' for f in new}))}" if new else ""
    known = len(findings) - len(new)
    return f"of {len(findings)} findings {known} are in the baseline {path}, {len(new)} new{codes}"
