"""A pod's life on its node: init containers in order, sidecars beside them, then the containers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from airflow_batchjob.local.agent.attempt import Surroundings
from airflow_batchjob.local.agent.container import Commands, ContainerLife
from airflow_batchjob.local.agent.states import View, final_phase, phase

Object = dict[str, Any]

Report = Callable[[str, "tuple[View, ...]", "tuple[View, ...]"], None]
"""Called with the phase, the init containers and the containers, each time something has changed."""


class PodLife:
    """Runs one pod.

    Args:
        around: The pod and what its containers share.
        commands: Starts commands.
        clock: Gives the time, aware.
        report: Hears of every change.
    """

    def __init__(
        self, around: Surroundings, commands: Commands, *, clock: Callable[[], datetime], report: Report
    ) -> None:
        spec = around.pod["spec"]
        self._policy = spec.get("restartPolicy") or "Always"
        self._report = report
        self._stopped = False
        self._grace_timer: asyncio.TimerHandle | None = None
        self._over = False

        def life(container: Object, *, init: bool) -> ContainerLife:
            return ContainerLife(container, around, commands, clock=clock, changed=self._changed, init=init)

        self._inits = [life(container, init=True) for container in spec.get("initContainers") or ()]
        self._mains = [life(container, init=False) for container in spec["containers"]]
        self._grace_seconds = spec.get("terminationGracePeriodSeconds", 30)

    async def run(self) -> None:
        """Run the pod to its end. What it ended as has been reported by then."""
        sidecars: list[asyncio.Task[None]] = []
        try:
            if await self._initialize(sidecars):
                await self._run_all(self._mains)
            if sidecars:
                await self._end_sidecars(sidecars)
        finally:
            if self._grace_timer is not None:
                self._grace_timer.cancel()
        self._over = True
        inits, mains = self._views()
        decided = phase(self._policy, inits, mains)
        self._report(final_phase(mains) if self._stopped and decided not in _OVER else decided, inits, mains)
        self._inits = self._mains = []  # they know this life in turn: so it goes without being searched for

    def stop(self, grace_seconds: float) -> None:
        """End the pod: SIGTERM now, SIGKILL after the grace. A second call can only shorten the grace."""
        self._stopped = True
        loop = asyncio.get_running_loop()
        due = loop.time() + grace_seconds
        if self._grace_timer is not None:
            if self._grace_timer.when() <= due:
                return
            self._grace_timer.cancel()
        # Sidecars go last, in the reverse of the order in which they came.
        for life in (*self._mains, *(one for one in self._inits if not one.view.sidecar)):
            life.stop(signal.SIGTERM)
        if grace_seconds <= 0:
            self._kill()
        else:
            self._grace_timer = loop.call_at(due, self._kill)

    def _kill(self) -> None:
        for life in (*self._mains, *self._inits):
            life.stop(signal.SIGKILL)

    async def _initialize(self, sidecars: list[asyncio.Task[None]]) -> bool:
        """Run the init containers; return whether the containers may start."""
        for life in self._inits:
            if self._stopped:
                return False
            if life.view.sidecar:
                sidecars.append(asyncio.ensure_future(life.run()))
                await _first(life.started.wait(), sidecars[-1])
                continue
            await life.run()
            if not life.view.succeeded:
                return False
        return not self._stopped

    async def _run_all(self, lives: Sequence[ContainerLife]) -> None:
        if len(lives) == 1:  # nearly always: spare the tasks
            await lives[0].run()
        else:
            await asyncio.gather(*(life.run() for life in lives))

    async def _end_sidecars(self, sidecars: list[asyncio.Task[None]]) -> None:
        for life in reversed(self._inits):
            if life.view.sidecar:
                life.stop(signal.SIGTERM)
        _, late = await asyncio.wait(sidecars, timeout=self._grace_seconds)
        if late:
            self._kill()
            await asyncio.wait(late)

    def _changed(self) -> None:
        if self._over:
            return
        inits, mains = self._views()
        now = phase(self._policy, inits, mains)
        # The end is told once, when all have ended; a pod that is being stopped ends as a whole too.
        if now not in _OVER:
            self._report(now, inits, mains)

    def _views(self) -> tuple[tuple[View, ...], tuple[View, ...]]:
        return tuple(life.view for life in self._inits), tuple(life.view for life in self._mains)


_OVER = ("Succeeded", "Failed")


async def _first(waiting: Any, task: asyncio.Task[None]) -> None:
    waiter = asyncio.ensure_future(waiting)
    await asyncio.wait({waiter, task}, return_when=asyncio.FIRST_COMPLETED)
    waiter.cancel()
