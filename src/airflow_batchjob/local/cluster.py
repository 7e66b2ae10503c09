"""A whole cluster on this machine: its parts, put together, started and stopped in order."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType

from typing_extensions import Self

from airflow_batchjob.local.agent.runtime import NodeAgent
from airflow_batchjob.local.api.api import Api
from airflow_batchjob.local.certificates import make_certificates
from airflow_batchjob.local.controller.runtime import JobController
from airflow_batchjob.local.events import EventRecorder
from airflow_batchjob.local.gc import GarbageCollector
from airflow_batchjob.local.kubeconfig import kubeconfig, write_private
from airflow_batchjob.local.logs import LogStore
from airflow_batchjob.local.nodes.losses import LossRate, SpotLosses
from airflow_batchjob.local.nodes.machines import Machine, default_machines
from airflow_batchjob.local.nodes.runtime import NodeKeeper
from airflow_batchjob.local.scheduling.runtime import Scheduler
from airflow_batchjob.local.server import ApiServer
from airflow_batchjob.local.store import Store

NAMESPACES = ("default", "kube-system")


def _now() -> datetime:
    return datetime.now(timezone.utc)


class LocalCluster:
    """A cluster, from ``async with`` to its end. Nothing is kept: a new one begins empty.

    Args:
        folder: Its own; made if need be, for its owner alone. Holds kubeconfig, logs and volumes.
        machines: Its nodes; None: this machine, and two spot machines of its size.
        port: Where it listens on 127.0.0.1; 0: the system chooses.
        name: Of cluster, user and context in the kubeconfig.
        losses: How often spot machines are lost by themselves; None: only on command.
        clock: Gives the time, aware.
    """

    def __init__(
        self,
        folder: Path,
        *,
        machines: Sequence[Machine] | None = None,
        port: int = 0,
        name: str = "batchjob-local",
        losses: LossRate | None = None,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        self._folder = folder.absolute()
        self._name = name
        self._port = port
        # Versions begin at the time: what a client remembers of an earlier cluster is then too old,
        # which it is told, and never a version yet to come, for which it would wait.
        self.store = Store(clock=clock, first_version=int(clock().timestamp() * 1000))
        events = EventRecorder(self.store, clock=clock)
        logs = LogStore(self._folder)
        self._agent = NodeAgent(self.store, logs, events, self._folder, clock=clock)
        machines = default_machines() if machines is None else machines
        self.nodes = NodeKeeper(self.store, self._agent, events, machines, clock=clock)
        self.api = Api(
            self.store,
            log_store=logs,
            private_mounts=self._agent.private_mounts,
            clock=clock,
            bring_back=self.nodes.bring_back,
        )
        self._losses = SpotLosses(self.nodes, losses) if losses else None
        self._controller = JobController(self.store, events, clock=clock)
        self._scheduler = Scheduler(self.store, events, clock=clock)
        self._collector = GarbageCollector(self.store, self.api.deleter)
        self._server: ApiServer | None = None

    @property
    def kubeconfig(self) -> Path:
        """The file that clients find the cluster by."""
        return self._folder / "kubeconfig"

    @property
    def url(self) -> str:
        """Where it answers; empty before it has started."""
        return self._server.url if self._server else ""

    async def start(self) -> None:
        """Start everything; the kubeconfig is written last, when the cluster answers.

        Raises:
            PortInUseError: The port is taken.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        certificates, token = make_certificates(), secrets.token_urlsafe(32)
        certificate_file = self._folder / "server.pem"
        write_private(certificate_file, certificates.server)
        server = ApiServer(self.api, token=token, certificate_file=certificate_file, port=self._port)
        await server.start()  # first: a port in use stops it before anything else runs
        self._server = server
        for namespace in NAMESPACES:
            self._furnish(namespace)
        self._collector.start()
        self._controller.start()
        self._scheduler.start()
        self._agent.start()
        self.nodes.start()
        if self._losses:
            self._losses.start()
        text = kubeconfig(name=self._name, url=server.url, authority=certificates.authority, token=token)
        write_private(self.kubeconfig, text.encode())

    async def stop(self) -> None:
        """Stop everything, end every process, and take the kubeconfig away."""
        self.kubeconfig.unlink(missing_ok=True)
        if self._losses:
            self._losses.stop()
        self.nodes.stop()
        self._scheduler.stop()
        self._controller.stop()
        self._collector.stop()
        try:
            if self._server is not None:
                await self._server.stop()
        finally:
            await self._agent.stop()

    def _furnish(self, namespace: str) -> None:
        labels = {"kubernetes.io/metadata.name": namespace}
        status = {"phase": "Active"}
        metadata = {"name": namespace, "labels": labels}
        self.store.create("namespaces", {"metadata": metadata, "spec": {}, "status": status})
        account = {"metadata": {"name": "default", "namespace": namespace}}
        self.store.create("serviceaccounts", account)

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
