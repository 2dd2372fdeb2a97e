"""Threads for compiled code: torch's own where they can be reached, Python's otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from rootdk._lib.arrays import namespace  # noqa: E402
from rootdk.engines import entries, workers  # noqa: E402
from rootdk.engines.team import team  # noqa: E402
from rootdk.engines.workers import ALONE, hired, hired_beside  # noqa: E402

LONG = 1e9
"""Nanoseconds that are worth any thread."""


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


@pytest.fixture(params=["torch's", "our own"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "our own":
        monkeypatch.setattr(workers, "team", lambda: None)
    elif team() is None:
        pytest.skip("torch's threads are out of reach on this platform")
    return str(request.param)


def meeting() -> Callable[[object], int]:
    """Return work that ends only once two threads are at it."""
    both = threading.Barrier(2, timeout=60)

    def meet(_: object) -> int:
        both.wait()
        return threading.get_ident()

    return meet


def test_the_thread_that_asks_and_another_work_at_once(either: str) -> None:
    with hired(LONG) as found:
        assert found.threads == 2
        met = set(found.map(meeting(), range(2)))
    assert len(met) == 2
    assert threading.get_ident() in met


def test_outcomes_are_in_the_order_of_the_tasks(either: str) -> None:
    with hired(LONG) as found:
        assert list(found.map(lambda task: task * task, range(500))) == [n * n for n in range(500)]
        assert list(found.map(str, [])) == []
        assert list(found.map(str, [7])) == ["7"]


def test_what_work_raises_is_raised_and_no_more_is_begun(either: str) -> None:
    begun = []

    def fail(task: int) -> None:
        begun.append(task)
        raise KeyboardInterrupt(f"task {task}")

    with hired(LONG) as found, pytest.raises(KeyboardInterrupt, match="task"):
        found.map(fail, range(500))
    assert len(begun) <= 2
    with hired(LONG) as found:  # and the threads are there for the next
        assert len(set(found.map(meeting(), range(2)))) == 2


def test_any_thread_may_ask(either: str) -> None:
    """Each has a team of its own."""
    outcomes: list[set[int]] = []

    def ask() -> None:
        with hired(LONG) as found:
            outcomes.append(set(found.map(meeting(), range(2))))

    asking = [threading.Thread(target=ask) for _ in range(2)]
    for each in asking:
        each.start()
    for each in asking:
        each.join()
    assert [len(met) for met in outcomes] == [2, 2]


def test_little_work_is_done_by_the_thread_that_asks() -> None:
    with hired(workers.TEAM_WORTH / 2) as found:
        assert found is ALONE


def test_threads_of_our_own_are_worth_hiring_for_more_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "team", lambda: None)
    with hired(workers.OWN_WORTH / 2) as found:
        assert found is ALONE
    with hired(workers.OWN_WORTH * 2) as found:
        assert found.threads == 2


def test_one_thread_is_all_where_torch_has_one() -> None:
    torch.set_num_threads(1)
    with hired(LONG) as found:
        assert found.threads == 1
        assert list(found.map(lambda _: threading.get_ident(), range(3))) == (
            [threading.get_ident()] * 3
        )
    torch.set_num_threads(2)


def test_threads_beside_end_with_the_context() -> None:
    with hired_beside(2) as found:
        other = set(found.map(meeting(), range(2))) - {threading.get_ident()}
    assert not other & {thread.ident for thread in threading.enumerate()}


def test_torch_computes_inside_on_one_thread_with_the_same_outcome(either: str) -> None:
    """Half types are widened there."""
    numbers = torch.arange(200_000, dtype=torch.float32).to(torch.bfloat16)
    with hired(LONG) as found:
        for each in found.map(lambda _: numbers.float(), range(4)):
            assert torch.equal(each, numbers.float())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_process_waits_for_no_threads_that_did_not_come_along() -> None:
    """In a process of its own, since one with threads should not be forked; and torch has some."""
    pytest.importorskip("numba")
    script = """
import os, signal, sys
import numpy as np, torch
import rootdk.engines._numba.rows
from rootdk import measure
torch.set_num_threads(2)
torch.randn(600, 600) @ torch.randn(600, 600)
query = np.ones((8, 512, 64), dtype=np.float32)
assert "numba" in measure(query, query).engine
child = os.fork()
if not child:
    signal.alarm(60)
    os._exit(0 if "numba" in measure(query, query).engine else 1)
sys.exit(os.waitpid(child, 0)[1])
"""
    ran = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True)
    assert ran.returncode == 0, ran.stderr.decode()


@pytest.mark.parametrize("kind", ["contiguous", "heads_within_rows", "packed", "one_long_row"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_moments_of_entries_however_they_lie(
    kind: str, dtype: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr(workers, "TEAM_WORTH", 0.0)
    monkeypatch.setattr(entries, "WORTH", 0)
    monkeypatch.setattr(entries, "WORTH_LOADED", 0)
    entry = rng.normal(3.0, 2.0, size=(40, 3, 5, 16)).astype(dtype)
    array = {
        "contiguous": np.ascontiguousarray(entry[:, 0].transpose(1, 0, 2)),
        "heads_within_rows": np.ascontiguousarray(entry[:, 0]).transpose(1, 0, 2),
        "packed": entry[:, 1].transpose(1, 0, 2),
        "one_long_row": entry.reshape(1, -1, 1),
    }[kind]
    count, mean, m2 = entries._moments(torch.from_numpy(array), namespace(torch.zeros(1)), 0)
    exact = array.astype(np.float64)
    np.testing.assert_array_equal(count, exact[0].size)
    np.testing.assert_allclose(mean, exact.mean(axis=(1, 2)), rtol=1e-12)
    np.testing.assert_allclose(m2, exact.var(axis=(1, 2)) * exact[0].size, rtol=1e-12)


@pytest.mark.parametrize("rows", [1, 40])
def test_moments_of_entries_whose_first_are_far_from_their_mean(
    rows: int, rng: np.random.Generator
) -> None:
    """The first entries say about what all are taken; a second pass mends where they mislead."""
    sums = pytest.importorskip("rootdk.engines._numba.sums")
    entry = rng.normal(size=(rows, 3, 4000 // rows))
    entry[1 if rows > 1 else 0, 1, 64 if rows == 1 else 0 :] += 1e6
    entry[-1, 2] -= 1e6
    found = np.empty((3, 2))
    sums.moments(entry, 0, 3, found)
    exact = entry.transpose(1, 0, 2).reshape(3, -1)
    np.testing.assert_allclose(found[:, 0], exact.mean(axis=1), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found[:, 1], exact.var(axis=1) * exact.shape[1], rtol=1e-12)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, -1])
def test_moments_of_entries_that_are_not_finite(
    place: int, number: float, rng: np.random.Generator
) -> None:
    sums = pytest.importorskip("rootdk.engines._numba.sums")
    entry = rng.normal(size=(5, 2, 100))
    entry[place, 1, place] = number
    found = np.empty((2, 2))
    sums.moments(entry, 0, 2, found)
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1]).all()
