"""Records find their renderer by name, so that no import points from a record to a face."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

__all__ = ["render_record", "save_record"]

_REPORT = "rootdk.report"


def render_record(record: object, renderer: str, **options: Any) -> str:
    """Return ``record`` as text by the renderer called ``renderer``."""
    report = importlib.import_module(_REPORT)
    text: str = report.renderer_named(renderer).render(record, **options)
    return text


def save_record(record: object, path: str | Path, **options: Any) -> Path:
    """Write ``record`` to ``path`` by the renderer that owns its suffix."""
    target = Path(path)
    report = importlib.import_module(_REPORT)
    text: str = report.renderer_for_suffix(target.suffix).render(record, **options)
    target.write_text(text, encoding="utf-8")
    return target
