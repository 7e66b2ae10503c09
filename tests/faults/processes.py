"""Processes that may be killed at any time, forked from one that has imported everything."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "tests.faults.roles",
        "airflow_batchjob.operators.attempt",
        "airflow_batchjob.operators.ending",
        "airflow_batchjob.client.kubernetes",
        "kubernetes_asyncio.client",
        "kubernetes_asyncio.config",
    ]
)


class Child:
    """One process."""

    def __init__(self, run: Callable[..., None], *arguments: Any) -> None:
        self._process: BaseProcess = _CONTEXT.Process(target=run, args=arguments, daemon=True)
        self._process.start()

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    @property
    def exit_code(self) -> int | None:
        """How it ended; negative: the signal that killed it."""
        return self._process.exitcode

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def terminate(self) -> None:
        """Send SIGTERM, as Airflow does."""
        if self._process.pid is not None and self._process.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGTERM)

    async def ended(self, limit_seconds: float) -> None:
        """Wait until it has ended; after the limit it is killed, which is an error."""
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._process.sentinel, over.set)
        try:
            await asyncio.wait_for(over.wait(), limit_seconds)
        except asyncio.TimeoutError:
            self.kill()
            raise
        finally:
            loop.remove_reader(self._process.sentinel)
        self._process.join()


def pipe() -> tuple[Connection, Connection]:
    """Return the two ends of a pipe that goes both ways."""
    return multiprocessing.Pipe()
