"""Looks beside the Job: its pods, its events, their logs. Best effort, and never the verdict's business.

Pods are listed only while they can say more than the Job does, and the more there are, the less
often. What is forbidden is said once, and tried again now and then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any

from typing_extensions import Self

from airflow_batchjob.client.protocol import JobClient
from airflow_batchjob.core.capacity.losses import Losses
from airflow_batchjob.core.deciding.policy import longest_starting, wants_events, wants_pods
from airflow_batchjob.core.errors import ApiError, ApiRefusedError
from airflow_batchjob.core.event import Order, Outcome, Verdict
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.pods import Pod
from airflow_batchjob.core.reading.status import phase_of
from airflow_batchjob.core.telling.log_choice import read_log_choice
from airflow_batchjob.supervisor.logs import LogFollower
from airflow_batchjob.supervisor.losing import Losing
from airflow_batchjob.supervisor.pace import Pace
from airflow_batchjob.supervisor.pod_watch import CONTROLLER_UID

__all__ = ["CONTROLLER_UID", "Sideways"]

A_MOMENT_SECONDS = 1.0
"""So long a look waits for an answer about pods or events."""

FINISH_SECONDS = 60.0
"""So long the end of a task waits for logs that are followed."""


class Sideways:
    """What one supervisor looks at beside its Job. An async context manager."""

    def __init__(
        self,
        client: JobClient,
        order: Order,
        log: logging.Logger,
        pace: Pace,
        losing: Losing,
        *,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self.losing = losing
        self.losses: Losses | None = None
        self.events: tuple[dict[str, Any], ...] = ()
        self._client, self._order, self._log, self._pace = client, order, log, pace
        self._choice = read_log_choice(order.logs, order.completions)
        self._follower = LogFollower(client, self._choice, log, containers=order.log_containers)
        self._forbidden_until: dict[str, float] = {}  # on the loop's clock, as all times here
        self._pods: tuple[Pod, ...] | None = None
        self._counts: tuple[int, ...] = ()  # of the Job, when its pods were listed last
        self._pause = pace.pods_seconds
        self._pods_due = 0.0
        self._events_due: float | None = None
        self._events_pause = pace.events_seconds
        self._wake = wake
        self._asking: dict[str, asyncio.Task[None]] = {}  # by what it asks for
        self._starting: Pod | None = None  # the one that has been on its node for longest without running

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._asking.values():
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)
        await self._follower.close()
        await self.losing.close()

    def due_in_seconds(self, job: Job | None) -> float:
        """Return how long nothing need be looked at, unless the Job changes."""
        if job is None:
            return float("inf")
        due = [float("inf") if self._events_due is None else self._due("events", self._events_due)]
        if self._wants_pods(job):
            due.append(self._due("pods", self._pods_due))
        return max(0.0, min(min(due) - _now(), self.losing.due_in_seconds()))

    def need_pods_in(self, seconds: float) -> None:
        """List pods again at that time, also if nothing has changed until then."""
        self._pods_due = min(self._pods_due, _now() + max(0.0, seconds))

    async def look(self, job: Job) -> None:
        """List pods and events where they are due, and count what was lost."""
        self.losses = await self.losing.look(job)
        if self._wants_pods(job):
            if _counts_of(job) != self._counts:
                self._pause = self._pace.pods_delay_seconds(job.status.active)
                self._pods_due = min(self._pods_due, _now() + self._pause)
            if _now() >= self._due("pods", self._pods_due):
                await self._beside("pods", self._list_pods(job))
        of_whom = self._events_tell_of(job)
        if self._events_are_due(of_whom):
            await self._beside("events", self._list_events(job.metadata.namespace, of_whom))

    async def _beside(self, what: str, asking: Coroutine[Any, Any, None]) -> None:
        """Wait for an answer for a moment; one that comes later wakes the supervisor.

        A server that is slow with pods must not hold up what the Job itself says.
        """
        under_way = self._asking.get(what)
        if under_way is not None and not under_way.done():
            asking.close()
            return
        task = self._asking[what] = asyncio.ensure_future(asking)
        done, _ = await asyncio.wait({task}, timeout=A_MOMENT_SECONDS)
        if done:
            task.result()
        else:
            task.add_done_callback(self._came_late)

    def _came_late(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.warning("A look beside the Job failed: %r", error)
        self._wake()

    def take_pods(self) -> tuple[Pod, ...] | None:
        """Return the pods if they were listed since this was asked last."""
        pods, self._pods = self._pods, None
        return pods

    async def finish(self, verdict: Verdict) -> Verdict:
        """Let the logs that are followed come to their end, within a limit; add what was lost."""
        if verdict.outcome is Outcome.NOT_OURS:
            return verdict
        if self._choice.follows_any:
            try:
                await asyncio.wait_for(self._finish_logs(verdict), FINISH_SECONDS)
            except asyncio.TimeoutError:
                self._log.warning("The logs may be cut: the API does not give them in time")
        return await self.losing.finish(verdict)

    async def _finish_logs(self, verdict: Verdict) -> None:
        pods: tuple[Pod, ...] = ()
        if _now() >= self._due("pods"):
            ref = verdict.job
            try:
                pods = (await self._client.list_pods(ref.namespace, f"{CONTROLLER_UID}={ref.uid}")).items
            except ApiError as error:
                self._give_up("pods", error)
        await self._follower.finish(pods)

    def _wants_pods(self, job: Job) -> bool:
        if phase_of(job).is_final:
            return False
        # New pods to follow, and the ends of old ones, show in the Job's counts.
        news = self._choice.follows_any and _counts_of(job) != self._counts
        return news or wants_pods(job)

    async def _list_pods(self, job: Job) -> None:
        selector = f"{CONTROLLER_UID}={job.metadata.uid}"
        self._pods_due = _now() + self._pause
        # As long as nothing happens, look less and less often.
        self._pause = min(self._pace.most_pods_seconds, self._pause * 2)
        try:
            self._pods = (await self._client.list_pods(job.metadata.namespace, selector)).items
        except ApiError as error:
            self._give_up("pods", error)
            return
        self._counts = _counts_of(job)
        self._starting = longest_starting(self._pods)
        self._follower.see(self._pods)

    def _events_tell_of(self, job: Job) -> str | None:
        """Return the uid of what its events alone explain: no pod at all, or one that does not start."""
        if wants_events(job):
            return job.metadata.uid
        return self._starting.metadata.uid if self._starting and self._wants_pods(job) else None

    def _events_are_due(self, of_whom: str | None) -> bool:
        if of_whom is None:
            self._events_due, self._events_pause, self.events = None, self._pace.events_seconds, ()
            return False
        if self._events_due is None:
            self._events_due = _now() + self._events_pause
        return _now() >= self._due("events", self._events_due)

    async def _list_events(self, namespace: str, of_whom: str | None) -> None:
        self._events_due = _now() + self._events_pause
        self._events_pause = min(self._pace.most_events_seconds, self._events_pause * 2)
        selector = f"involvedObject.uid={of_whom}"
        try:
            self.events = tuple(await self._client.list_events(namespace, selector))
        except ApiError as error:
            self._give_up("events", error)

    def _due(self, what: str, due: float = 0.0) -> float:
        """Return when something is to be asked for that is due then: later, where that is forbidden."""
        return max(due, self._forbidden_until.get(what, 0.0))

    def _give_up(self, what: str, error: ApiError) -> None:
        """Say once what is forbidden; what merely fails is tried again when it is due."""
        if not isinstance(error, ApiRefusedError):
            return
        is_news = what not in self._forbidden_until
        self._forbidden_until[what] = _now() + self._pace.refused_again_seconds
        if is_news:
            self._log.warning(
                "%s can't be read, so troubles with them go unsaid; the verdict needs none: %s", what, error
            )


def _counts_of(job: Job) -> tuple[int, ...]:
    status = job.status
    return status.active, status.ready or 0, status.succeeded, status.failed, status.terminating or 0


def _now() -> float:
    return asyncio.get_running_loop().time()
