"""Look at what importing a package does, from an interpreter that has imported nothing."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_PROBE = """
import json, sys, time
import numpy
before = set(sys.modules)
start = time.perf_counter()
exec(sys.argv[1])
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "modules": sorted(set(sys.modules) - before)}))
"""


@dataclass(frozen=True, kw_only=True)
class Import:
    """What a piece of code cost and loaded on top of NumPy."""

    seconds: float
    modules: frozenset[str]

    @property
    def packages(self) -> frozenset[str]:
        """The top-level names among the modules."""
        return frozenset(module.partition(".")[0] for module in self.modules)


def run_fresh(code: str, *, path: Path | None = None) -> Import:
    """Run ``code`` in a fresh interpreter that has imported NumPy, and say what it loaded.

    ``path`` is searched before the installed packages.
    """
    environment = dict(os.environ)
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    process = subprocess.run(
        [sys.executable, "-c", _PROBE, code],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    found = json.loads(process.stdout)
    return Import(seconds=found["seconds"], modules=frozenset(found["modules"]))


def assert_light(code: str, *, forbidden: frozenset[str], path: Path | None = None) -> None:
    """Assert that running ``code`` imports none of the ``forbidden`` packages."""
    loaded = run_fresh(code, path=path).packages & forbidden
    assert not loaded, f"{code!r} imports {', '.join(sorted(loaded))}"


def assert_quick(code: str, *, seconds: float, repeats: int = 5, path: Path | None = None) -> None:
    """Assert that ``code`` runs in under ``seconds`` on top of NumPy's own import.

    The least of several runs counts: whatever else the machine does can only add to it.
    """
    least = min(run_fresh(code, path=path).seconds for _ in range(repeats))
    assert least < seconds, f"{code!r} takes {least:.3f} s; expected under {seconds} s"
