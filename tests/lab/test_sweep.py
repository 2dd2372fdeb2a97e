"""A sweep gives the same bits whoever computes it, goes on where it ended, and survives a kill."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lab.sweep_tasks import drawn, failing, killed_once

from rootdk import lab
from rootdk._lib.errors import ArgumentError, SweepError
from rootdk.lab import _sweep
from rootdk.lab._base import Context
from rootdk.lab._kept import FORMAT, Kept, Task
from rootdk.lab._sweep import sweep

TASKS = [{"size": size} for size in range(1, 6)]


@pytest.fixture(autouse=True)
def importable_in_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """New processes find the package and these tests as this one does."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two worker processes of Dask."""
    distributed = pytest.importorskip("distributed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as local:
            yield local


def bits(records: list[dict[str, Any]]) -> str:
    return repr(records)


# ------------------------------------------------------------------ the same bits


def test_records_come_in_the_order_of_the_tasks_in_plain_values() -> None:
    records = sweep(drawn, TASKS, Context(seed=3))
    assert [record["size"] for record in records] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert records[0]["none"] is None
    assert type(records[2]["sum"]) is float
    assert isinstance(records[2]["values"], tuple)


def test_each_task_has_a_seed_of_its_own_by_its_place() -> None:
    records = sweep(drawn, [{"size": 2}, {"size": 2}], Context(seed=3))
    assert records[0] != records[2]
    assert sweep(drawn, [{"size": 2}], Context(seed=3)) == records[:2]
    assert sweep(drawn, [{"size": 2}], Context(seed=4)) != records[:2]


@pytest.mark.parametrize("jobs", [2, 3])
def test_processes_give_the_bits_of_one(jobs: int) -> None:
    # the first tasks take longest, so that they end last
    tasks = [{"size": size, "wait": 0.2 / size} for size in range(1, 6)]
    alone = sweep(drawn, tasks, Context(seed=3))
    assert bits(sweep(drawn, tasks, Context(seed=3, jobs=jobs))) == bits(alone)


def test_a_cluster_gives_the_bits_of_one_process(cluster: Any) -> None:
    context = Context(seed=3, cluster=cluster.scheduler_address)
    assert bits(sweep(drawn, TASKS, context)) == bits(sweep(drawn, TASKS, Context(seed=3)))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sample", "exact"])
def test_an_experiment_gives_the_same_on_a_cluster_of_its_own(method: lab.Method) -> None:
    options: dict[str, Any] = {"widths": (16, 64, 256), "queries": 200, "method": method}
    alone = lab.run("width-sweep", **options)
    assert lab.run("width-sweep", jobs=2, cluster="local", **options).json() == alone.json()
    assert lab.run("width-sweep", jobs=2, **options).json() == alone.json()


@pytest.mark.slow
@pytest.mark.parametrize("experiment", ["width-sweep", "gradient"])
def test_the_threads_of_the_numeric_libraries_change_no_bit(experiment: str) -> None:
    script = (
        "from rootdk import lab\n"
        "for method in ('sample', 'exact'):\n"
        f"    print(lab.run({experiment!r}, method=method, widths=(16, 64)).json())\n"
    )
    outputs = set()
    for threads in ("1", "2"):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        environment = {**os.environ, **dict.fromkeys(names, threads)}
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, check=True
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1


# ------------------------------------------------------------------ what is on disk


def counting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The places of the tasks that are computed from now on."""
    places: list[int] = []
    run = _sweep._run
    monkeypatch.setattr(
        _sweep, "_run", lambda place, task: (places.append(place), run(place, task))[1]
    )
    return places


def test_what_is_kept_is_not_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = counting(monkeypatch)
    context = Context(seed=3, folder=tmp_path)
    first = sweep(drawn, TASKS[:3], context)
    assert places == [0, 1, 2]
    assert len(list((tmp_path / "sweep").glob("drawn-*.json"))) == 3
    again = sweep(drawn, TASKS, context)
    assert places == [0, 1, 2, 3, 4]
    assert bits(again[:6]) == bits(first)
    assert bits(again) == bits(sweep(drawn, TASKS, Context(seed=3)))


@pytest.mark.parametrize(
    "other", [{"seed": 4}, {"packages": ("numpy", "scipy")}], ids=["seed", "packages"]
)
def test_what_depends_on_something_else_is_computed(
    other: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep(drawn, TASKS[:2], Context(seed=3, folder=tmp_path))
    places = counting(monkeypatch)
    packages = other.get("packages", ("numpy",))
    sweep(drawn, TASKS[:2], Context(seed=other.get("seed", 3), folder=tmp_path), packages=packages)
    assert places == [0, 1]


def test_an_interrupted_sweep_keeps_what_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = Context(seed=3, folder=tmp_path)
    with pytest.raises(ZeroDivisionError, match="two"):
        sweep(failing, [{"size": 1}, {"size": 2}], context)
    places = counting(monkeypatch)
    sweep(failing, [{"size": 1}, {"size": 3}], context)
    assert places == [1]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: json.dumps({"format": "another 1"}),
        lambda text: json.dumps({**json.loads(text), "records": [1]}),
        lambda text: json.dumps({**json.loads(text), "settings": {}}),
        lambda text: "[" * 100_000,
    ],
    ids=["cut", "no-object", "other-format", "no-records", "other-settings", "deep"],
)
def test_a_damaged_file_is_computed_again_and_said(
    damage: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    context = Context(seed=3, folder=tmp_path)
    first = sweep(drawn, TASKS[:1], context)
    (path,) = (tmp_path / "sweep").iterdir()
    path.write_text(damage(path.read_text(encoding="utf-8")), encoding="utf-8")
    places = counting(monkeypatch)
    with caplog.at_level(logging.WARNING, logger="rootdk.lab"):
        assert bits(sweep(drawn, TASKS[:1], context)) == bits(first)
    assert places == [0]
    assert "is computed again" in caplog.text
    assert bits(sweep(drawn, TASKS[:1], context)) == bits(first)
    assert places == [0], "and is whole again"


def test_a_file_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task(function=drawn, parameters={"size": 1}, seed=np.random.SeedSequence(1))
    kept = Kept(folder=tmp_path)

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("rootdk.lab._kept.json.dump", full)
    with pytest.raises(OSError, match="no space"):
        kept.write(task, task.run())
    assert list(tmp_path.iterdir()) == []
    assert kept.read(task) is None


def test_a_kept_file_says_what_it_holds(tmp_path: Path) -> None:
    sweep(drawn, TASKS[:1], Context(seed=3, folder=tmp_path))
    (path,) = (tmp_path / "sweep").iterdir()
    held = json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert held["format"] == FORMAT
    assert set(held["settings"]) == {
        "function", "parameters", "seed", "versions", "rootdk", "code"
    }  # fmt: skip
    assert held["settings"]["seed"] == [3, [0]]


# ------------------------------------------------------------------ what is told


def test_progress_counts_what_is_kept_too(tmp_path: Path) -> None:
    told: list[tuple[int, int, str]] = []
    context = Context(seed=3, folder=tmp_path, progress=lambda *now: told.append(now))
    sweep(drawn, TASKS[:2], context)
    assert told == [(0, 2, ""), (1, 2, "size 1"), (2, 2, "size 2")]
    told.clear()
    sweep(drawn, TASKS[:3], context)
    assert told == [(2, 3, ""), (3, 3, "size 3")]


def test_an_error_of_a_task_stays_what_it_is() -> None:
    for jobs in (1, 2):
        with pytest.raises(ZeroDivisionError, match="two"):
            sweep(failing, [{"size": 1}, {"size": 2}], Context(seed=3, jobs=jobs))


# ------------------------------------------------------------------ a worker is killed


def killing(mark: Path) -> list[dict[str, Any]]:
    return [{"size": size, "mark": str(mark) if size == 3 else ""} for size in range(1, 6)]


def unharmed(tasks: list[dict[str, Any]]) -> str:
    """The bits when nothing is killed: the mark that a worker was is there already."""
    Path(tasks[2]["mark"]).touch()
    records = bits(sweep(killed_once, tasks, Context(seed=3)))
    Path(tasks[2]["mark"]).unlink()
    return records


def test_without_a_cluster_a_killed_worker_ends_the_sweep_which_goes_on(tmp_path: Path) -> None:
    tasks = killing(tmp_path / "mark")
    expected = unharmed(tasks)
    context = Context(seed=3, jobs=2, folder=tmp_path)
    with pytest.raises(
        SweepError, match=r"a worker was killed, .* the same call goes on from ther"
    ):
        sweep(killed_once, tasks, context)
    assert (tmp_path / "mark").exists()
    assert bits(sweep(killed_once, tasks, context)) == expected


def test_without_a_folder_nothing_is_kept_and_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(SweepError, match="no folder was given, so that nothing is kept"):
        sweep(killed_once, killing(tmp_path / "mark"), Context(seed=3, jobs=2))


def test_on_a_cluster_a_killed_worker_costs_a_retry(cluster: Any, tmp_path: Path) -> None:
    tasks = killing(tmp_path / "mark")
    expected = unharmed(tasks)
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    records = sweep(killed_once, tasks, Context(seed=3, cluster=cluster.scheduler_address))
    assert (tmp_path / "mark").exists(), "a worker was killed"
    assert bits(records) == expected


@pytest.mark.parametrize("address", ["nonsense", "tcp://127.0.0.1:9"])
def test_a_cluster_that_is_not_there_is_refused(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(_sweep, "CONNECT_SECONDS", 0.5)
    with pytest.raises(ArgumentError, match=f"cluster is '{address}'; expected local, or the add"):
        sweep(drawn, TASKS, Context(seed=3, cluster=address))
