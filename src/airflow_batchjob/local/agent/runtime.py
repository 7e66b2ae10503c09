"""The agent of all nodes: hears of pods bound to a node, runs them, and writes what becomes of them."""

from __future__ import annotations

import asyncio
import logging
import shutil
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from airflow_batchjob.local.agent.attempt import Surroundings, base_environment
from airflow_batchjob.local.agent.commands import LaunchedCommands
from airflow_batchjob.local.agent.environment import ConfigError
from airflow_batchjob.local.agent.pod import PodLife
from airflow_batchjob.local.agent.refusals import refusals
from airflow_batchjob.local.agent.states import Running, View, not_started, pod_status
from airflow_batchjob.local.agent.volumes import make_volumes
from airflow_batchjob.local.events import EventRecorder
from airflow_batchjob.local.launcher.mounts import are_possible
from airflow_batchjob.local.logs import LogStore
from airflow_batchjob.local.store import Change, Store

Object = dict[str, Any]

COMPONENT = "kubelet"
CONFIG_RETRY_SECONDS = 1.0
_OVER = ("Succeeded", "Failed")

_log = logging.getLogger(__name__)


class _Pod:
    """A pod that the agent runs."""

    __slots__ = ("deadline", "dropped", "failure", "key", "life", "node", "started", "task")

    def __init__(self, key: tuple[str, str], node: str) -> None:
        self.key = key
        self.node = node
        self.life: PodLife | None = None
        self.task: asyncio.Task[None] | None = None
        self.deadline: asyncio.TimerHandle | None = None
        self.failure: tuple[str, str] | None = None
        """Reason and message of a pod that fails by itself, not by its containers."""
        self.started: set[tuple[str, int]] = set()
        """Name and number of restarts of each start that was told."""
        self.dropped = False
        """Its node is lost: nobody reports on it any more."""


class NodeAgent:
    """Runs the pods of every node.

    Args:
        store: The cluster's state.
        logs: Where containers' output goes; its folder holds the pods' volumes too.
        events: Where it tells what happens.
        folder: The cluster's own folder.
        clock: Gives the time, aware.
        base_env: What every command finds in its environment; None for `base_environment`.
    """

    def __init__(
        self,
        store: Store,
        logs: LogStore,
        events: EventRecorder,
        folder: Path,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
        base_env: Mapping[str, str] | None = None,
    ) -> None:
        self._store = store
        self._logs = logs
        self._events = events
        self._folder = folder
        self._clock = clock
        self._base_env = dict(base_environment() if base_env is None else base_env)
        self._commands = LaunchedCommands()
        self._pods: dict[str, _Pod] = {}
        self._rubbish: list[Path] = []
        self._cleaning: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self.private_mounts = are_possible()
        """Whether volumes can appear at their mount paths on this system."""

    def start(self) -> None:
        """Start the launcher and follow the store. Needs a running event loop."""
        earlier = self._folder / "pods"
        if earlier.exists():  # of a cluster that ended in a crash
            self._throw_away(earlier.rename(self._folder / f"pods.{uuid.uuid4().hex}"))
        self._commands.open()
        self._unsubscribe = self._store.subscribe(self._heard)
        for pod in self._store.list("pods"):
            self._heard(Change("ADDED", "pods", pod, None, 0))

    async def stop(self) -> None:
        """End everything that runs, at once and without reports."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        pods = list(self._pods.values())
        for pod in pods:
            pod.dropped = True
            if pod.deadline is not None:
                pod.deadline.cancel()
        await self._commands.close()
        tasks = [pod.task for pod in pods if pod.task is not None]
        for task in tasks:
            task.cancel()
        if self._cleaning is not None:
            tasks.append(self._cleaning)
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def launcher_pid(self) -> int | None:
        """The process that all commands descend from."""
        return self._commands.launcher_pid

    def drop_node(self, node: str) -> None:
        """End what runs on a node as a power cut would: at once, and nobody reports on it."""
        for pod in self._pods.values():
            if pod.node == node:
                pod.dropped = True
                if pod.life is not None:
                    pod.life.stop(0)

    def _heard(self, change: Change) -> None:
        if change.kind != "pods":
            return
        pod, metadata = change.object, change.object["metadata"]
        uid = metadata["uid"]
        known = self._pods.get(uid)
        if change.type == "DELETED":
            if known is not None and known.life is not None:
                known.dropped = True
                known.life.stop(0)
            elif known is None and pod["spec"].get("nodeName"):
                self._throw_away(self._logs.pod_folder(uid))
            return
        if known is None:
            self._take(pod)
        elif metadata.get("deletionTimestamp") and known.life is not None:
            known.life.stop(metadata.get("deletionGracePeriodSeconds") or 0)

    def _take(self, pod: Object) -> None:
        node = pod["spec"].get("nodeName")
        if not node or (pod.get("status") or {}).get("phase") in _OVER:
            return
        if self._store.get("nodes", "", node) is None:  # there is no machine to run it
            return
        metadata = pod["metadata"]
        known = self._pods[metadata["uid"]] = _Pod((metadata["namespace"], metadata["name"]), node)
        known.task = asyncio.ensure_future(self._run(pod, known))

    async def _run(self, pod: Object, known: _Pod) -> None:
        uid = pod["metadata"]["uid"]
        try:
            await self._live(pod, known)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001  one pod must not take the agent with it
            _log.exception("Pod %s/%s could not be run", *known.key)
            known.failure = ("AgentError", f"the local cluster's agent failed: {error}")
            self._report(uid, known, "Failed", (), ())
        finally:
            del self._pods[uid]
            if known.deadline is not None:
                known.deadline.cancel()
            left = self._store.get("pods", *known.key)
            if left is None or left["metadata"]["uid"] != uid:
                self._throw_away(self._logs.pod_folder(uid))

    async def _live(self, pod: Object, known: _Pod) -> None:
        uid, spec = pod["metadata"]["uid"], pod["spec"]
        refused = refusals(spec, private_mounts=self.private_mounts)
        if refused:
            words = "; ".join(f"{one.field}: {one.message}" for one in refused)
            known.failure = ("Unsupported", words)
            self._report(uid, known, "Failed", (), ())
            return
        folder = self._logs.pod_folder(uid)
        folder.mkdir(parents=True, exist_ok=True)
        volumes = await self._volumes(pod, known, folder)
        if volumes is None:
            return
        node = self._store.get("nodes", "", known.node) or {}
        around = Surroundings(
            pod=pod,
            folder=folder,
            volumes=volumes,
            lookup=self._lookup(known.key[0]),
            allocatable=(node.get("status") or {}).get("allocatable") or {},
            base_env=self._base_env,
            logs=self._logs,
        )

        def report(phase: str, inits: tuple[View, ...], mains: tuple[View, ...]) -> None:
            self._report(uid, known, phase, inits, mains)

        known.life = PodLife(around, self._commands, clock=self._clock, report=report)
        self._catch_up(known)
        limit = spec.get("activeDeadlineSeconds")
        if limit is not None:
            grace = spec.get("terminationGracePeriodSeconds", 30)
            known.deadline = asyncio.get_running_loop().call_later(limit, self._too_late, known, grace)
        await known.life.run()

    def _catch_up(self, known: _Pod) -> None:
        """Do what was asked of the pod before its life could be told."""
        if known.life is None:
            return
        now = self._store.get("pods", *known.key)
        if now is None or known.dropped:
            known.dropped = True
            known.life.stop(0)
        elif now["metadata"].get("deletionTimestamp"):
            known.life.stop(now["metadata"].get("deletionGracePeriodSeconds") or 0)

    def _too_late(self, known: _Pod, grace_seconds: float) -> None:
        known.failure = ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
        if known.life is not None:
            known.life.stop(grace_seconds)

    async def _volumes(self, pod: Object, known: _Pod, folder: Path) -> dict[str, Path] | None:
        """Make the volumes; while a config map or secret is missing, wait for it as the kubelet does."""
        if not pod["spec"].get("volumes"):
            return {}
        told = False
        while True:
            try:
                return make_volumes(pod, folder, self._lookup(known.key[0]))
            except ConfigError as error:
                words = f"MountVolume.SetUp failed: {error}"
                self._events.record(pod, "Pod", "FailedMount", words, component=COMPONENT, warning=True)
                if not told:
                    self._report(pod["metadata"]["uid"], known, "Pending", *_before_start(pod["spec"]))
                    told = True
            await asyncio.sleep(CONFIG_RETRY_SECONDS)
            now = self._store.get("pods", *known.key)
            if known.dropped or now is None:
                return None
            if now["metadata"].get("deletionTimestamp"):
                self._report(pod["metadata"]["uid"], known, "Failed", (), ())
                return None

    def _lookup(self, namespace: str) -> Callable[[str, str], Object | None]:
        return lambda plural, name: self._store.get(plural, namespace, name)

    def _report(
        self, uid: str, known: _Pod, phase: str, inits: tuple[View, ...], mains: tuple[View, ...]
    ) -> None:
        """Write a pod's status: once for each change that one can see."""
        pod = self._store.get("pods", *known.key)
        if known.dropped or pod is None or pod["metadata"]["uid"] != uid:
            return
        if known.failure is not None and phase in _OVER:
            phase = "Failed"
        status = pod_status(pod.get("status") or {}, inits, mains, phase, self._clock())
        metadata = pod["metadata"]
        if phase in _OVER:
            if known.failure is not None:
                status["reason"], status["message"] = known.failure
            if metadata.get("deletionTimestamp"):
                # With no grace left the store removes it, as soon as no finalizer holds it.
                metadata = {**metadata, "deletionGracePeriodSeconds": 0}
        self._store.update("pods", {**pod, "metadata": metadata, "status": status})
        self._tell_started(pod, known, (*inits, *mains))

    def _tell_started(self, pod: Object, known: _Pod, views: tuple[View, ...]) -> None:
        for view in views:
            if isinstance(view.state, Running) and (view.name, view.restarts) not in known.started:
                known.started.add((view.name, view.restarts))
                words = f"Started container {view.name}"
                self._events.record(pod, "Pod", "Started", words, component=COMPONENT)

    def _throw_away(self, folder: Path) -> None:
        """Remove a folder, off the event loop: volumes may be large."""
        self._rubbish.append(folder)
        if self._cleaning is None or self._cleaning.done():
            self._cleaning = asyncio.ensure_future(self._clean())

    async def _clean(self) -> None:
        loop = asyncio.get_running_loop()
        while self._rubbish:
            batch, self._rubbish = self._rubbish, []
            await loop.run_in_executor(None, _remove, batch)


def _remove(folders: list[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _before_start(spec: Object) -> tuple[tuple[View, ...], tuple[View, ...]]:
    inits = tuple(not_started(one, spec, init=True) for one in spec.get("initContainers") or ())
    return inits, tuple(not_started(one, spec, init=False) for one in spec["containers"])
