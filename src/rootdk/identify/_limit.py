"""A time limit on a call of somebody else's function.

In the main thread, where no one else uses the alarm signal, the limit is a timer that interrupts
the function. Elsewhere (and on systems without that signal) the call runs in a daemon thread:
when the time is up, it is asked to stop and left behind. Python code stops in both cases. A call
that never returns from compiled code is interrupted when it does, in the main thread; in a
thread of its own it is left behind at once.
"""

from __future__ import annotations

import contextvars
import ctypes
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

__all__ = ["OutOfTime", "within"]

T = TypeVar("T")


class OutOfTime(BaseException):
    """Raised inside the function; not an Exception, so that it is not caught by accident."""


def within(seconds: float, call: Callable[[], T]) -> T:
    """Return what a call returns within some seconds.

    Raises
    ------
    OutOfTime
        If it does not return in time.

    Examples
    --------
    >>> within(5.0, lambda: 1 + 1)
    2
    """
    return _by_alarm(seconds, call) if _alarm_is_free() else _by_thread(seconds, call)


def _alarm_is_free() -> bool:
    return (
        hasattr(signal, "setitimer")
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
        and signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
    )


def _ring(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise OutOfTime


def _by_alarm(seconds: float, call: Callable[[], T]) -> T:
    before = signal.signal(signal.SIGALRM, _ring)
    try:
        # The repeat is for a function that catches what it should not.
        signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
        return call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _by_thread(seconds: float, call: Callable[[], T]) -> T:
    done: dict[str, Any] = {}
    context = contextvars.copy_context()

    def work() -> None:
        try:
            done["result"] = context.run(call)
        except BaseException as error:  # noqa: BLE001 - raised again where the call was made
            done["error"] = error

    worker = threading.Thread(target=work, name="rootdk.identify", daemon=True)
    worker.start()
    worker.join(seconds)
    if worker.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(worker.ident or 0), ctypes.py_object(OutOfTime)
        )
        raise OutOfTime
    if "error" in done:
        raise done["error"]
    result: T = done["result"]
    return result
