"""Looks beside the Job: its pods, its events, their logs. Best effort, and never the verdict's business.

Pods are listed only while they can say more than the Job does, and the more there are, the less
often. What is forbidden is said once and not tried again.
"""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import Any

from typing_extensions import Self

from airflow_batchjob.client.protocol import JobClient
from airflow_batchjob.core.errors import ApiError, ApiRefusedError
from airflow_batchjob.core.event import Order, Verdict
from airflow_batchjob.core.job import Job
from airflow_batchjob.core.pods import Pod
from airflow_batchjob.core.policy import wants_events, wants_pods
from airflow_batchjob.supervisor.pace import Pace

CONTROLLER_UID = "batch.kubernetes.io/controller-uid"


class Sideways:
    """What one supervisor looks at beside its Job. An async context manager."""

    def __init__(self, client: JobClient, order: Order, log: logging.Logger, pace: Pace) -> None:
        self.events: tuple[dict[str, Any], ...] = ()
        self._client, self._order, self._log, self._pace = client, order, log, pace
        self._pods: tuple[Pod, ...] | None = None
        self._forbidden: set[str] = set()
        self._pods_due = 0.0  # on the loop's clock, as all times here
        self._events_due: float | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def due_in_seconds(self, job: Job | None) -> float:
        """Return how long nothing need be looked at, unless the Job changes."""
        if job is None:
            return float("inf")
        now, due = _now(), [float("inf")]
        if self._wants_pods(job):
            due.append(self._pods_due)
        if self._events_due is not None:
            due.append(self._events_due)
        return max(0.0, min(due) - now)

    async def look(self, job: Job, now: float) -> None:
        """List pods and events where they are due."""
        del now
        if self._wants_pods(job) and _now() >= self._pods_due:
            await self._list_pods(job)
        await self._list_events(job)

    def take_pods(self) -> tuple[Pod, ...] | None:
        """Return the pods if they were listed since this was asked last."""
        pods, self._pods = self._pods, None
        return pods

    async def finish(self, verdict: Verdict) -> None:
        """Let what is under way come to its end, within a limit."""

    def _wants_pods(self, job: Job) -> bool:
        return "pods" not in self._forbidden and wants_pods(job)

    async def _list_pods(self, job: Job) -> None:
        selector = f"{CONTROLLER_UID}={job.metadata.uid}"
        self._pods_due = _now() + self._pace.pods_delay_seconds(job.status.active)
        try:
            self._pods = (await self._client.list_pods(job.metadata.namespace, selector)).items
        except ApiError as error:
            self._give_up("pods", error)

    async def _list_events(self, job: Job) -> None:
        if not wants_events(job):
            self._events_due, self.events = None, ()
            return
        if self._events_due is None:
            self._events_due = _now() + self._pace.events_seconds
        if "events" in self._forbidden or _now() < self._events_due:
            return
        self._events_due = _now() + self._pace.events_seconds
        selector = f"involvedObject.uid={job.metadata.uid}"
        try:
            self.events = tuple(await self._client.list_events(job.metadata.namespace, selector))
        except ApiError as error:
            self._give_up("events", error)

    def _give_up(self, what: str, error: ApiError) -> None:
        if isinstance(error, ApiRefusedError):
            self._forbidden.add(what)
            self._log.warning(
                "%s can't be read, so troubles with them go unsaid; the verdict needs none: %s", what, error
            )


def _now() -> float:
    return asyncio.get_running_loop().time()
