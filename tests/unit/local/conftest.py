"""A local cluster without its API: store and machinery, with real processes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest_asyncio

from airflow_batchjob.local.agent.runtime import NodeAgent
from airflow_batchjob.local.controller.runtime import JobController
from airflow_batchjob.local.events import EventRecorder
from airflow_batchjob.local.logs import LogQuery, LogStore
from airflow_batchjob.local.nodes.machines import Capacity, Machine
from airflow_batchjob.local.nodes.runtime import NodeKeeper
from airflow_batchjob.local.scheduling.runtime import Scheduler
from airflow_batchjob.local.store import Change, Store

Object = dict[str, Any]

LIMIT_SECONDS = 15.0


class Running:
    """A cluster of two machines, "desk" (on-demand) and "spot" (spot), and what tests do with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = Store()
        self.changes: list[Change] = []
        self.logs = LogStore(folder)
        events = EventRecorder(self.store)
        self.agent = NodeAgent(self.store, self.logs, events, folder)
        machines = [
            Machine(name="desk", cpu="4", memory="8Gi"),
            Machine(name="spot", cpu="4", memory="8Gi", capacity=Capacity.SPOT),
        ]
        self.nodes = NodeKeeper(self.store, self.agent, events, machines)
        self._others = (Scheduler(self.store, events), JobController(self.store, events))

    def start(self) -> None:
        """Start all parts."""
        self.store.subscribe(self.changes.append)
        self.agent.start()
        self.nodes.start()
        for part in self._others:
            part.start()

    async def stop(self) -> None:
        """End all processes and parts."""
        for part in self._others:
            part.stop()
        self.nodes.stop()
        await self.agent.stop()

    def pod(self, *command: str, name: str = "p", container: Object | None = None, **spec: Any) -> Object:
        """Create a pod of one container."""
        main = {"name": "main", "image": "none", "command": list(command), **(container or {})}
        whole = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [main], **spec}
        metadata = {"name": name, "namespace": "ns"}
        return self.store.create(
            "pods", {"metadata": metadata, "spec": whole, "status": {"phase": "Pending"}}
        )

    def job(self, *command: str, name: str = "j", restart_policy: str = "Never", **spec: Any) -> Object:
        """Create a Job of one container."""
        template = {
            "metadata": {},
            "spec": {
                "restartPolicy": restart_policy,
                "terminationGracePeriodSeconds": 5,
                "containers": [{"name": "main", "image": "none", "command": list(command)}],
                **spec.pop("pod", {}),
            },
        }
        defaults = {"completionMode": "NonIndexed", "completions": 1, "parallelism": 1, "backoffLimit": 6}
        metadata = {"name": name, "namespace": "ns"}
        whole = {**defaults, "template": template, **spec}
        return self.store.create("jobs", {"metadata": metadata, "spec": whole, "status": {}})

    def get(self, name: str = "p", kind: str = "pods") -> Object | None:
        """Return an object as it is now."""
        return self.store.get(kind, "ns", name)

    async def until(self, true: Callable[[], Any], *, seconds: float = LIMIT_SECONDS) -> Any:
        """Wait until something is true; return what it gave."""
        woken = asyncio.Event()
        unsubscribe = self.store.subscribe(lambda _: woken.set())
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        try:
            while not (result := true()):
                left = deadline - loop.time()
                if left <= 0:
                    raise AssertionError(f"not within {seconds} s; pods: {list(self.store.list('pods'))}")
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(woken.wait(), min(left, 0.05))
                woken.clear()
            return result
        finally:
            unsubscribe()

    async def phase(self, phase: str, name: str = "p") -> Object:
        """Wait for a pod's phase; return its status."""

        def reached() -> Object | None:
            pod = self.get(name)
            return pod["status"] if pod is not None and pod["status"].get("phase") == phase else None

        status: Object = await self.until(reached)
        return status

    async def condition(self, kind: str, name: str = "j") -> Object:
        """Wait for a Job's condition; return its status."""

        def reached() -> Object | None:
            job = self.get(name, "jobs")
            found = job is not None and any(
                one["type"] == kind and one["status"] == "True"
                for one in job["status"].get("conditions") or ()
            )
            return job["status"] if job is not None and found else None

        status: Object = await self.until(reached)
        return status

    async def log(self, pod: Object, container: str = "main", attempt: int = 0, **query: Any) -> str:
        """Return a container's log."""
        pieces = self.logs.read(pod["metadata"]["uid"], container, attempt, LogQuery(**query), lambda: True)
        return b"".join([piece async for piece in pieces]).decode()


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Running]:
    """A running cluster."""
    running = Running(tmp_path)
    running.start()
    yield running
    await running.stop()
