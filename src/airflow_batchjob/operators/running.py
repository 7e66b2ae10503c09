"""Run a coroutine in a task's process so that Airflow's signals reach it in good order.

Airflow's SIGTERM handler calls `on_kill` and then lets `execute` go on; its SIGALRM handler raises
wherever the process happens to be, also inside some other coroutine, which would swallow it. Both are
handed over to the event loop here and end the one coroutine that counts.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from enum import Enum
from types import FrameType
from typing import Any, TypeVar

from airflow_batchjob.compat import AirflowTaskTimeout
from airflow_batchjob.core.errors import TaskCutError

T = TypeVar("T")


class Cut(str, Enum):
    """Why a coroutine was cut short."""

    KILLED = "killed"  # SIGTERM: by a user, or the worker shuts down
    TIMED_OUT = "timed out"  # Airflow's execution_timeout


class Runner:
    """Runs coroutines one after the other, until it is cut short."""

    def __init__(self) -> None:
        self.cut: Cut | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return what `coroutine` returns; when cut, it is cancelled once and may tidy up first.

        Raises:
            TaskCutError: Airflow told the process to end.
            AirflowTaskTimeout: The execution timeout has passed.
        """
        if self.cut is not None:
            coroutine.close()
            raise self.error()
        with self._alarm_handed_over():
            try:
                done = asyncio.run(self._main(coroutine))
            except asyncio.CancelledError:
                raise self.error() from None
        if self.cut is not None:
            raise self.error()
        return done

    def kill(self) -> None:
        """End what runs now, and whatever would run later. Safe inside a signal handler, and twice."""
        self._cut_short(Cut.KILLED)

    async def _main(self, coroutine: Coroutine[Any, Any, T]) -> T:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        if self.cut is not None:  # it came while the loop was made: there was nothing to cancel yet
            coroutine.close()
            raise asyncio.CancelledError
        try:
            return await coroutine
        finally:
            self._loop = self._task = None

    def _cut_short(self, why: Cut) -> None:
        if self.cut is not None:
            return
        self.cut = why
        if self._loop is not None and self._task is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)

    def error(self) -> BaseException:
        """Return what ends the task."""
        if self.cut is Cut.TIMED_OUT:
            return AirflowTaskTimeout("Airflow's execution_timeout has passed")
        return TaskCutError("The task was told to end before its Job had ended")

    @contextmanager
    def _alarm_handed_over(self) -> Iterator[None]:
        usual = signal.getsignal(signal.SIGALRM)
        in_main_thread = threading.current_thread() is threading.main_thread()
        if not callable(usual) or not in_main_thread:  # no execution_timeout
            yield
            return
        signal.signal(signal.SIGALRM, self._on_alarm)
        try:
            yield
        finally:
            signal.signal(signal.SIGALRM, usual)

    def _on_alarm(self, _number: int, _frame: FrameType | None) -> None:
        self._cut_short(Cut.TIMED_OUT)
