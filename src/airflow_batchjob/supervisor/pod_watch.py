"""One list-and-watch of the pods of all Jobs whose losses are counted: per event loop, client and namespace.

It is there only while some Job needs it, and looks at pods that were sent to a kind of capacity alone.
"""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import aclosing
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from airflow_batchjob.client.protocol import EventType, JobClient
from airflow_batchjob.core.capacity.placement import CAPACITY_LABEL
from airflow_batchjob.core.errors import ApiError, ApiRefusedError, ExpiredError
from airflow_batchjob.core.identity.marks import SELECTOR
from airflow_batchjob.core.reading.job import JobRef
from airflow_batchjob.core.reading.pods import Pod
from airflow_batchjob.supervisor.pace import Pace, is_refusal

CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
"""Label of pods: their Job's uid."""

POD_SELECTOR = f"{SELECTOR},{CAPACITY_LABEL}"
"""Pods of ours that were sent to some kind of capacity."""

_WATCHES: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[int, str], PodWatch]] = WeakKeyDictionary()


class Watcher(Protocol):
    """Who hears of the pods of one Job. Both are called from within the watch: they must be quick."""

    def see(self, pod: Pod, *, gone: bool = False) -> None:
        """Take a pod as it is now; `gone`: it was deleted, and this is its last state."""

    def refused(self, error: ApiError) -> None:
        """Pods can't be read, and will not be."""


class PodWatch:
    """See the module. Made by `join`; lives as long as someone listens."""

    def __init__(self, client: JobClient, namespace: str, pace: Pace) -> None:
        self._client, self._namespace, self._pace = client, namespace, pace
        self._watchers: dict[str, set[Watcher]] = {}  # by the uid of their Job
        self._task: asyncio.Task[None] | None = None
        self._catching_up: set[asyncio.Task[None]] = set()
        self._let_in_at = float("-inf")  # on the loop's clock, as `_watch_again_at`
        self._watch_again_at = float("-inf")
        self._told_of_refusal = False
        self._known: dict[str, Pod] = {}  # by uid, so that a list shows what has gone

    def add(self, uid: str, watcher: Watcher) -> None:
        self._watchers.setdefault(uid, set()).add(watcher)
        if self._task is None:
            self._task = asyncio.ensure_future(self._guarded())
            return
        for pod in self._known.values():
            if _uid(pod) == uid:
                watcher.see(pod)

    async def remove(self, uid: str, watcher: Watcher) -> None:
        of_this_job = self._watchers.get(uid, set())
        of_this_job.discard(watcher)
        if not of_this_job:
            self._watchers.pop(uid, None)
        if self._watchers:
            return
        _forget(self)
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _guarded(self) -> None:
        try:
            await self._list_and_watch()
        except ApiError as error:
            _forget(self)
            for watcher in self._all():
                watcher.refused(error)

    def _all(self) -> list[Watcher]:
        return [one for of_one_job in self._watchers.values() for one in of_one_job]

    async def _list_and_watch(self) -> None:
        failures = 0
        while True:
            try:
                version = await self._list()
                failures = 0
                await self._follow(version)
            except ExpiredError:
                await asyncio.sleep(self._pace.after_end_seconds * _jitter())
            except ApiError as error:
                if not (error.retryable or self._may_pass(error)):
                    raise
                failures += 1
                await asyncio.sleep(self._pace.outage_delay_seconds(failures, error) * _jitter())

    def _may_pass(self, error: ApiError) -> bool:
        """Tell whether a refusal may be over soon: it has let us in before."""
        return (
            is_refusal(error)
            and asyncio.get_running_loop().time() < self._let_in_at + self._pace.patience_seconds
        )

    async def _list(self) -> str:
        page = await self._client.list_pods(self._namespace, POD_SELECTOR)
        self._let_in_at = asyncio.get_running_loop().time()
        there = {pod.metadata.uid: pod for pod in page.items}
        before, self._known = self._known, there
        for uid, pod in before.items():
            if uid not in there:
                self._tell(pod, gone=True)
        for pod in there.values():
            self._tell(pod)
        return page.resource_version

    async def _follow(self, version: str) -> None:
        """Tell changes until the version has expired, or a full list is due."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._pace.full_read_seconds
        while loop.time() < due:
            if loop.time() < self._watch_again_at:
                await asyncio.sleep(self._pace.list_seconds * _jitter())
                return
            try:
                version = await self._stream(version)
            except ApiRefusedError as error:
                if error.code != 403:
                    raise
                self._watch_again_at = loop.time() + self._pace.refused_again_seconds
                self._say_refusal(error)
                continue
            await asyncio.sleep(self._pace.after_end_seconds * _jitter())

    def _say_refusal(self, error: ApiError) -> None:
        if not self._told_of_refusal:
            self._told_of_refusal = True
            logging.getLogger(__name__).warning("Pods can't be watched, so they are listed: %s", error)

    async def _stream(self, version: str) -> str:
        stream: Any = self._client.watch_pods(self._namespace, POD_SELECTOR, version)
        async with aclosing(stream):
            async for event in stream:
                pod: Pod = event.object
                version = pod.metadata.resource_version or version
                if event.type is EventType.BOOKMARK:
                    continue
                gone = event.type is EventType.DELETED
                if gone:
                    self._known.pop(pod.metadata.uid, None)
                else:
                    self._known[pod.metadata.uid] = pod
                self._tell(pod, gone=gone)
        return version

    def _tell(self, pod: Pod, *, gone: bool = False) -> None:
        for watcher in tuple(self._watchers.get(_uid(pod), ())):
            watcher.see(pod, gone=gone)


def join(client: JobClient, ref: JobRef, pace: Pace, watcher: Watcher) -> PodWatch:
    """Let `watcher` hear of the pods of the Job `ref`; `leave` ends that.

    All watchers of one client and namespace share a watch; the first one's `pace` holds.
    """
    watches = _WATCHES.setdefault(asyncio.get_running_loop(), {})
    key = (id(client), ref.namespace)
    if key not in watches:
        watches[key] = PodWatch(client, ref.namespace, pace)
    watches[key].add(ref.uid, watcher)
    return watches[key]


def _uid(pod: Pod) -> str:
    return pod.metadata.labels.get(CONTROLLER_UID, "")


def _forget(watch: PodWatch) -> None:
    watches = _WATCHES.get(asyncio.get_running_loop(), {})
    for key in [key for key, one in watches.items() if one is watch]:
        del watches[key]


def _jitter() -> float:
    return 0.5 + random.random()  # noqa: S311  spreads requests, keeps no secret
