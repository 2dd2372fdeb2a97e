"""Rows kept as lines of JSON: appended as they come, the last one of a name counts."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def code_digest() -> str:
    """A short digest of rootdk's source, as it was when first asked for."""
    import rootdk

    folder = Path(rootdk.__file__).parent
    files = sorted(folder.rglob("*.py"))
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()[:10]


class Rows:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows: dict[str, dict[str, Any]] = {}
        if path.is_file():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    row = json.loads(line)
                except json.JSONDecodeError:
                    continue  # the process was stopped in the middle of a line
                self._rows[row["name"]] = row

    def all(self) -> list[dict[str, Any]]:
        return [self._rows[name] for name in sorted(self._rows)]

    def has(self, name: str) -> bool:
        return name in self._rows

    def stale(self, name: str) -> bool:
        """Whether the row was made by other code than today's."""
        return not self.has(name) or self._rows[name].get("code") != code_digest()

    def failed(self, name: str) -> bool:
        """Whether a row is missing, did not run, or left something unexplained."""
        row = self._rows.get(name)
        if row is None or row["status"] != "ran":
            return True
        for which in ("eager", "sdpa"):
            part = row.get(which) or {}
            bad = [f for f in part.get("findings", ()) if f[1] != "note"]
            if "crashed" in part or part.get("unresolved") or bad or part.get("remarks"):
                return True
            if part.get("without_site") or part.get("declared", {}).get("differ"):
                return True
        agreement = row.get("agreement") or {}
        return bool(agreement.get("scale") or agreement.get("statistics"))

    def add(self, row: dict[str, Any]) -> None:
        row["code"] = code_digest()
        self._rows[row["name"]] = row
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, default=str) + "\n")
