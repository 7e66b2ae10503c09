"""What became of every pod of a cluster, kept while it happens: lost pods leave nothing behind."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from typing_extensions import Self

from airflow_batchjob.client.config import ClusterSettings, connect
from airflow_batchjob.client.protocol import EventType, JobClient
from airflow_batchjob.core.capacity.losses import kind_of
from airflow_batchjob.core.capacity.marks import read_capacity
from airflow_batchjob.core.errors import ApiError
from airflow_batchjob.core.identity.marks import SELECTOR, read_marks
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.pods import Lifecycle, Pod, index_of, lifecycle_of
from tools.spot_picture import Ran, Step

AGAIN_SECONDS = 0.2


class History:
    """Watches Jobs and pods in a thread of its own, from `with` to its end."""

    def __init__(self, kubeconfig: Path) -> None:
        self._settings = ClusterSettings(kube_config_path=str(kubeconfig))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._watching: asyncio.Task[None] | None = None
        self._began: dict[str, float] = {}  # by uid, as all here
        self._ended: dict[str, float] = {}
        self._outcomes: dict[str, str] = {}
        self._pods: dict[str, Pod] = {}
        self._generations: dict[str, int] = {}
        self._steps: dict[str, tuple[float, str]] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._watching is not None:
            self._loop.call_soon_threadsafe(self._watching.cancel)
        self._thread.join(10)

    def told(self) -> tuple[list[Ran], list[Step]]:
        """Return all pods that ran, and what happened to the Jobs, from the first pod's start on."""
        zero, now = min(self._began.values(), default=0.0), time.time()
        pods = [
            Ran(
                shard=index_of(pod) or 0,
                generation=self._generations.get(_owner(pod), 0),
                kind=(kind.value if (kind := kind_of(pod)) is not None else "on-demand"),
                node=pod.spec.node_name,
                start=self._began[uid] - zero,
                end=self._ended.get(uid, now) - zero,
                ended=self._outcomes.get(uid) or _how(pod),
            )
            for uid, pod in self._pods.items()
            if uid in self._began
        ]
        steps = [Step(max(0.0, at - zero), words) for at, words in self._steps.values()]
        return sorted(pods, key=lambda ran: ran.start), sorted(steps)

    def _run(self) -> None:
        self._watching = self._loop.create_task(self._watch())
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._watching)
        self._loop.close()

    async def _watch(self) -> None:
        async with await connect(self._settings) as client:
            await asyncio.gather(self._follow(client, "pods"), self._follow(client, "jobs"))

    async def _follow(self, client: JobClient, kind: str) -> None:
        listing, watch = (
            (client.list_pods, client.watch_pods) if kind == "pods" else (client.list_jobs, client.watch_jobs)
        )
        while True:
            with suppress(ApiError):
                page: Any = await listing("default", SELECTOR)
                for found in page.items:
                    self._see(found, gone=False)
                async for event in watch("default", SELECTOR, page.resource_version):
                    if event.type is not EventType.BOOKMARK:
                        self._see(event.object, gone=event.type is EventType.DELETED)
            await asyncio.sleep(AGAIN_SECONDS)

    def _see(self, found: Pod | Job, *, gone: bool) -> None:
        if isinstance(found, Job):
            self._see_job(found)
            return
        uid = found.metadata.uid
        self._pods[uid] = found
        if lifecycle_of(found) is Lifecycle.RUNNING or (found.is_over and found.spec.node_name):
            self._began.setdefault(uid, time.time())
        if (found.is_over or gone) and uid in self._began:
            self._ended.setdefault(uid, time.time())
            self._outcomes.setdefault(
                uid, _how(found)
            )  # one that has failed may be lost with its machine later

    def _see_job(self, job: Job) -> None:
        uid, generation, fell_back = (
            job.metadata.uid,
            read_marks(job).generation,
            read_capacity(job).fell_back,
        )
        if uid not in self._generations and generation:
            self._steps[uid] = time.time(), f"try {generation + 1}: only what is left"
        self._generations[uid] = generation
        if fell_back is not None and not generation and f"{uid}/moved" not in self._steps:
            self._steps[f"{uid}/moved"] = fell_back.at, f"to on-demand: {fell_back.words}"


def _owner(pod: Pod) -> str:
    return pod.metadata.labels.get("batch.kubernetes.io/controller-uid", "")


def _how(pod: Pod) -> str:
    if pod.status.phase == "Succeeded":
        return "succeeded"
    if pod.holds("DisruptionTarget"):
        return "lost"
    return "killed" if pod.metadata.deletion_timestamp is not None else "failed"
