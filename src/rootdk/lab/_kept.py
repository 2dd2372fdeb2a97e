"""What a sweep has computed, on disk: one JSON file a task, written whole or not at all."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from rootdk import __version__
from rootdk.lab._table import plain

__all__ = ["Kept", "Task", "records_of"]

FORMAT = "rootdk sweep 1"
MOST_BYTES = 2**26
"""A longer file was not written by a sweep."""

Record = dict[str, Any]
_UNREADABLE = (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError)
log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Task:
    """One call of a sweep.

    Attributes
    ----------
    function : callable
        ``(rng, **parameters) -> records``; a function of a module, so that a process finds it.
    parameters : mapping
        Plain values by name.
    seed : SeedSequence
        Of its generator; its own, whatever else runs.
    """

    function: Callable[..., Any]
    parameters: Mapping[str, object]
    seed: np.random.SeedSequence

    def run(self) -> list[Record]:
        """Call the function and return its records in plain values."""
        return records_of(self.function(np.random.default_rng(self.seed), **self.parameters))

    def settings(self, packages: tuple[str, ...]) -> Record:
        """Return all that the records depend on, as JSON reads it back."""
        settings = {
            "function": f"{self.function.__module__}.{self.function.__qualname__}",
            "parameters": dict(self.parameters),
            "seed": [self.seed.entropy, list(self.seed.spawn_key)],
            "versions": {package: _version(package) for package in packages},
            "rootdk": __version__,
            "code": _code(self.function.__module__),
        }
        read: Record = json.loads(json.dumps(settings, allow_nan=False))
        return read


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A folder of finished tasks; without a folder nothing is kept.

    A task is found again by all that its records depend on: function, parameters, seed,
    versions, and the code of the lab. So no stale number is ever taken for a new one.

    Attributes
    ----------
    folder : Path, optional
        Where the files are.
    packages : tuple of str
        Packages on whose version the records depend.
    """

    folder: Path | None
    packages: tuple[str, ...] = ("numpy",)

    def read(self, task: Task) -> list[Record] | None:
        """Return the records of a task, or None if they are not there or cannot be trusted."""
        if self.folder is None:
            return None
        settings = task.settings(self.packages)
        path = self.folder / _name(settings)
        try:
            if path.stat().st_size > MOST_BYTES:
                raise ValueError(f"it has more than {MOST_BYTES} bytes")
            held = json.loads(path.read_text(encoding="utf-8"))
            if held["format"] != FORMAT or held["settings"] != settings:
                raise ValueError("it holds something else")
            return records_of(held["records"])
        except FileNotFoundError:
            return None
        except _UNREADABLE as error:
            log.warning("%s is computed again: %s", path.name, error)
            return None

    def write(self, task: Task, records: list[Record]) -> None:
        """Keep the records of a task: in a file beside its place, moved there when complete."""
        if self.folder is None:
            return
        settings = task.settings(self.packages)
        self.folder.mkdir(parents=True, exist_ok=True)
        held = {"format": FORMAT, "settings": settings, "records": records}
        descriptor, name = tempfile.mkstemp(dir=self.folder, suffix=".part")
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                json.dump(held, file, allow_nan=False)
            os.replace(name, self.folder / _name(settings))
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def tell(self) -> str:
        """Return what becomes of the work done, as a clause."""
        if self.folder is None:
            return "no folder was given, so that nothing is kept"
        return f"what is done is kept in {self.folder}, and the same call goes on from there"


def records_of(values: Any) -> list[Record]:
    """Return records in plain values, the same whether fresh or read from a file."""
    return [{str(name): plain(value) for name, value in row.items()} for row in values]


def _name(settings: Record) -> str:
    text = json.dumps([FORMAT, settings], sort_keys=True)
    function = settings["function"].rpartition(".")[2].strip("_")
    return f"{function}-{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


@cache
def _code(module: str) -> str:
    """Return a hash of the code of the lab, and of the module if that is elsewhere."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    spec = importlib.util.find_spec(module) if module != "__main__" else None
    if spec is not None and spec.origin and Path(spec.origin).is_file():
        files.append(Path(spec.origin))
    found = hashlib.sha256()
    for file in files:
        found.update(file.read_bytes())
    return found.hexdigest()[:32]
