"""A container's life: started, ended, perhaps started again."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol

from airflow_batchjob.local.agent.attempt import Attempt, Surroundings
from airflow_batchjob.local.agent.environment import ConfigError
from airflow_batchjob.local.agent.restarts import delay_seconds, restarts
from airflow_batchjob.local.agent.states import Running, Terminated, Waiting, not_started
from airflow_batchjob.local.launcher.protocol import Ended, Refused, Start, Started

Object = dict[str, Any]

CONFIG_RETRY_SECONDS = 1.0  # until a missing config map or secret is looked for again


class Commands(Protocol):
    """Starts commands and tells what becomes of them."""

    def start(self, request: Start) -> tuple[asyncio.Future[Started | Refused], asyncio.Future[Ended]]:
        """Start a command; return its start and its end, both still to come."""

    def signal(self, id_: str, number: int) -> None:
        """Send it a signal."""


class ContainerLife:
    """Runs one container of a pod until it will not start again.

    Args:
        container: Its spec.
        around: What it shares with the pod's others.
        commands: Starts it.
        clock: Gives the time, aware.
        changed: Called after each change of `view`.
        init: It is an init container.
    """

    def __init__(
        self,
        container: Object,
        around: Surroundings,
        commands: Commands,
        *,
        clock: Callable[[], datetime],
        changed: Callable[[], None],
        init: bool = False,
    ) -> None:
        self._container = container
        self._around = around
        self._commands = commands
        self._clock = clock
        self._changed = changed
        self._stopping = asyncio.Event()
        self._stop_signal: int = signal.SIGTERM
        self._running: str | None = None
        self.started = asyncio.Event()
        """It has been started once, for those that wait for a sidecar."""
        self.view = not_started(container, around.pod["spec"], init=init)

    async def run(self) -> None:
        """Run until it has ended for good: then `view` is terminated, or still waiting if it was stopped."""
        policy = self._around.pod["spec"].get("restartPolicy") or "Always"
        number = 0
        while not self._stopping.is_set():
            end = await self._attempt(number)
            if end is None or self._stopping.is_set():
                return
            again = restarts(self._container, policy, end.exit_code, sidecar=self.view.sidecar)
            if not again:
                return
            await self._back_off(number, end)
            number += 1

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Ask it to end, or end it with SIGKILL; it does not start again."""
        self._stopping.set()
        self._stop_signal = number
        if self._running is not None:
            self._commands.signal(self._running, number)

    async def _attempt(self, number: int) -> Terminated | None:
        attempt = Attempt(container=self._container, number=number, around=self._around)
        request = await self._configured(attempt)
        if request is None:
            return None
        start, end = self._commands.start(request)
        report = await start
        if isinstance(report, Refused):
            state = attempt.refused(report, self._clock())
            self._show(state=state, restarts=number)
            return state
        self._running = attempt.id
        if self._stopping.is_set():  # asked to end while it was starting
            self._commands.signal(attempt.id, self._stop_signal)
        started_at = self._clock()
        container_id = f"process://{attempt.id}"
        self._show(state=Running(started_at), restarts=number, container_id=container_id)
        self.started.set()
        state = attempt.ended(await end, started_at, self._clock())
        self._running = None
        self._show(state=state)
        return state

    async def _configured(self, attempt: Attempt) -> Start | None:
        while not self._stopping.is_set():
            try:
                return attempt.request()
            except ConfigError as error:
                self._show(state=Waiting("CreateContainerConfigError", str(error)))
            await self._pause(CONFIG_RETRY_SECONDS)
        return None

    async def _back_off(self, number: int, end: Terminated) -> None:
        wait = delay_seconds(number)
        if not wait:
            # Started again at once, and still its last end is told: with it the restart is counted.
            self.view = replace(self.view, last=end)
            return
        name = self._container["name"]
        pod = self._around.pod["metadata"]
        which = f"container={name} pod={pod['name']}_{pod['namespace']}({pod['uid']})"
        words = f"back-off {wait:.0f}s restarting failed {which}"
        self._show(state=Waiting("CrashLoopBackOff", words), last=end)
        await self._pause(wait)

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except asyncio.TimeoutError:
            return

    def _show(self, **changes: Any) -> None:
        self.view = replace(self.view, **changes)
        self._changed()
