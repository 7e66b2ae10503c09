"""Everything that moves in a local cluster, put together: controller, scheduler, nodes, agent.

It needs a store, a folder, the machines and a running event loop; the server adds the API to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from pathlib import Path

from airflow_batchjob.local.agent.runtime import NodeAgent
from airflow_batchjob.local.controller.runtime import JobController
from airflow_batchjob.local.events import EventRecorder
from airflow_batchjob.local.logs import LogStore
from airflow_batchjob.local.nodes.losses import LossRate, SpotLosses
from airflow_batchjob.local.nodes.machines import Machine
from airflow_batchjob.local.nodes.runtime import NodeKeeper
from airflow_batchjob.local.scheduling.runtime import Scheduler
from airflow_batchjob.local.store import Store


class Machinery:
    """The moving parts of one cluster.

    Args:
        store: The cluster's state; garbage collection and the API are not among these parts.
        folder: The cluster's own folder; ``pods`` in it is emptied at the start.
        machines: What nodes there are.
        loss_rate: How often spot machines are lost by themselves; None for never.
        clock: Gives the time, aware.
    """

    def __init__(
        self,
        store: Store,
        folder: Path,
        machines: Iterable[Machine],
        *,
        loss_rate: LossRate | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        self.events = EventRecorder(store, clock=clock)
        self.logs = LogStore(folder)
        self.agent = NodeAgent(store, self.logs, self.events, folder, clock=clock)
        self.nodes = NodeKeeper(store, self.agent, self.events, machines, clock=clock)
        self._controller = JobController(store, self.events, clock=clock)
        self._scheduler = Scheduler(store, self.events, clock=clock)
        self._losses = SpotLosses(self.nodes, loss_rate) if loss_rate is not None else None

    async def start(self) -> None:
        """Start all parts."""
        self.agent.start()
        self.nodes.start()
        self._scheduler.start()
        self._controller.start()
        if self._losses is not None:
            self._losses.start()

    async def stop(self) -> None:
        """End every process, then all parts. The store stays as it was."""
        if self._losses is not None:
            self._losses.stop()
        self._controller.stop()
        self._scheduler.stop()
        self.nodes.stop()
        await self.agent.stop()
