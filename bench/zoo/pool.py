"""One forked process an architecture, with limits; the parent imports the libraries once."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A process that waits for ever uses no processor: by the clock it has so much longer.
_PATIENCE = 4


@dataclass
class _Child:
    name: str
    pid: int
    result: Path
    started: float


def run(
    names: list[str],
    add: Callable[[dict[str, Any]], None],
    *,
    jobs: int,
    timeout: float,
    memory: float,
) -> None:
    """Run the names, and hand each row over as soon as it is there."""
    _preload()

    waiting = list(names)
    running: list[_Child] = []
    bar = Bar(len(names))
    with tempfile.TemporaryDirectory(prefix="zoo-") as folder:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    running.append(_start(waiting.pop(0), Path(folder), memory))
                for child in list(running):
                    row = _outcome(child, timeout)
                    if row is not None:
                        running.remove(child)
                        add(row)
                        bar.step(row)
                time.sleep(0.02)
        finally:
            for child in running:
                os.kill(child.pid, signal.SIGKILL)
            bar.close()


def _preload() -> None:
    """Import and warm in the parent what every child would otherwise wait for."""
    import torch

    import rootdk
    from zoo import row  # noqa: F401

    torch.set_num_threads(1)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
    rootdk.check(layer, torch.zeros(1, 3, 8))
    rootdk.check(layer.eval(), torch.zeros(1, 3, 8))


def _start(name: str, folder: Path, memory: float) -> _Child:
    result = folder / f"{name}.json"
    pid = os.fork()
    if pid == 0:
        _child(name, result, memory)
    return _Child(name, pid, result, time.monotonic())


def _child(name: str, result: Path, memory: float) -> None:
    """Runs in the forked process; never returns."""
    code = 1
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        size = int(memory * (1 << 30))
        resource.setrlimit(resource.RLIMIT_AS, (size + _mapped(), size + _mapped()))
        from zoo.row import make_row

        row, _ = make_row(name)
        result.write_text(json.dumps(row, default=str), encoding="utf-8")
        code = 0
    finally:
        os._exit(code)


def _mapped() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize()


def _outcome(child: _Child, timeout: float) -> dict[str, Any] | None:
    pid, status = os.waitpid(child.pid, os.WNOHANG)
    spent = time.monotonic() - child.started
    if pid == 0:
        if _processor_seconds(child.pid) < timeout and spent < _PATIENCE * timeout:
            return None
        os.kill(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
        why = f"stopped after {timeout:g} s"
        return {"name": child.name, "status": "timed out", "why": why, "seconds": round(spent, 1)}
    if child.result.is_file():
        return json.loads(child.result.read_text(encoding="utf-8"))
    why = f"the process ended with status {status}"
    return {"name": child.name, "status": "process died", "why": why, "seconds": round(spent, 1)}


def _processor_seconds(pid: int) -> float:
    """What a process has used: a machine that does other things does not cost a row."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Bar:
    """A bar on a terminal; in a pipe nothing but a line now and then."""

    def __init__(self, total: int) -> None:
        self._done, self._total, self._started = 0, total, time.monotonic()
        self._bar: Any = None
        if sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(total=total, unit="model")

    def step(self, row: dict[str, Any]) -> None:
        self._done += 1
        if self._bar is not None:
            self._bar.set_postfix_str(row["name"], refresh=False)
            self._bar.update()
        elif self._done % 20 == 0 or self._done == self._total:
            spent = time.monotonic() - self._started
            print(f"{self._done}/{self._total} after {spent:.0f} s, {row['name']}", flush=True)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
