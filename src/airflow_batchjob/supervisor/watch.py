"""One list-and-watch of our Jobs for all supervisors of an event loop, client and namespace.

Supervisors subscribe by uid and get the newest object, not every one. List, watch from there, list
again on 410 and now and then for safety; a lost connection is waited out. Where watching is
forbidden, one shared list per interval takes its place.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any
from weakref import WeakKeyDictionary

from airflow_batchjob.client.protocol import EventType, JobClient, WatchEvent
from airflow_batchjob.core.errors import (
    ApiError,
    ApiRefusedError,
    ExpiredError,
    NotFoundError,
)
from airflow_batchjob.core.job import Job, JobRef
from airflow_batchjob.core.marks import SELECTOR
from airflow_batchjob.supervisor.pace import DEFAULT_PACE, Pace
from airflow_batchjob.supervisor.view import Seen, Subscription

__all__ = ["JobWatch", "Seen", "Subscription", "subscribe"]

_Key = tuple[int, str]
_WATCHES: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_Key, JobWatch]] = WeakKeyDictionary()

_FEW = 2  # that many late joiners are read one by one, more by one list


class JobWatch:
    """See the module. Made by `subscribe`; lives as long as it has subscribers."""

    def __init__(self, client: JobClient, namespace: str, pace: Pace) -> None:
        self.trouble: ApiError | None = None
        self._client, self._namespace, self._pace = client, namespace, pace
        self._subscriptions: dict[str, set[Subscription]] = {}  # by uid
        self._task: asyncio.Task[None] | None = None
        self._catching_up: asyncio.Task[None] | None = None
        self._version = ""  # "": nothing was listed yet
        self._may_watch = True

    def join(self, subscription: Subscription) -> None:
        self._subscriptions.setdefault(subscription.ref.uid, set()).add(subscription)
        if self._task is None:
            self._task = asyncio.ensure_future(self._guarded(self._list_and_watch))
        elif self._catching_up is None:
            self._catching_up = asyncio.ensure_future(self._guarded(self._catch_up))

    async def leave(self, subscription: Subscription) -> None:
        of_this_job = self._subscriptions.get(subscription.ref.uid, set())
        of_this_job.discard(subscription)
        if not of_this_job:
            self._subscriptions.pop(subscription.ref.uid, None)
        if self._subscriptions:
            return
        _forget(self)
        for task in (self._task, self._catching_up):
            if task is not None and not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    def _all(self) -> list[Subscription]:
        return [one for of_one_job in self._subscriptions.values() for one in of_one_job]

    def _set_trouble(self, error: ApiError | None) -> None:
        began_or_ended = (error is None) != (self.trouble is None)
        self.trouble = error
        if began_or_ended:
            for subscription in self._all():
                subscription.alert()

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:  # noqa: BLE001  every supervisor hears of it, none waits for ever
            _forget(self)
            for subscription in self._all():
                subscription.fail(error)

    async def _list_and_watch(self) -> None:
        failures = 0
        while True:
            try:
                await self._list()
                failures = 0
                self._set_trouble(None)
                await self._follow_for(self._pace.full_read_seconds)
            except ExpiredError:
                await asyncio.sleep(self._pace.after_end_seconds * _jitter())
            except ApiError as error:
                if not error.retryable:
                    raise
                self._set_trouble(error)
                failures += 1
                await asyncio.sleep(self._pace.outage_delay_seconds(failures, error) * _jitter())

    async def _list(self) -> None:
        self._version = await self._list_for(self._all())

    async def _list_for(self, waiting: list[Subscription]) -> str:
        page = await self._client.list_jobs(self._namespace, SELECTOR)
        there = {job.metadata.uid: job for job in page.items}
        for subscription in waiting:
            if (job := there.get(subscription.ref.uid)) is not None:
                subscription.deliver(job)
            else:
                subscription.deliver_gone(None)
        return page.resource_version

    async def _follow_for(self, seconds: float) -> None:
        """Deliver changes until a full read is due, or until the version has expired."""
        due = asyncio.get_running_loop().time() + seconds
        failures = 0
        while (left := due - asyncio.get_running_loop().time()) > 0:
            if not self._may_watch:
                await asyncio.sleep(min(left, self._pace.list_seconds * _jitter()))
                return
            try:
                if not await _within(left, self._follow()):
                    return
                failures = 0
                self._set_trouble(None)
                # The server may end every watch at once: never faster than this.
                await asyncio.sleep(self._pace.after_end_seconds * _jitter())
            except ApiRefusedError as error:
                if error.code != 403:
                    raise
                self._may_watch = False
            except ApiError as error:
                if not error.retryable:
                    raise
                self._set_trouble(error)
                failures += 1
                await asyncio.sleep(self._pace.outage_delay_seconds(failures, error) * _jitter())

    async def _follow(self) -> None:
        stream: Any = self._client.watch_jobs(self._namespace, SELECTOR, self._version)
        async with aclosing(stream):
            async for event in stream:
                self._set_trouble(None)
                self._take(event)

    def _take(self, event: WatchEvent[Job]) -> None:
        job = event.object
        self._version = job.metadata.resource_version or self._version
        if event.type is EventType.BOOKMARK:
            return
        for subscription in self._subscriptions.get(job.metadata.uid, ()):
            if event.type is EventType.DELETED:
                subscription.deliver_gone(job)
            else:
                subscription.deliver(job)

    async def _catch_up(self) -> None:
        """Give late joiners their first object: a few are read alone, many by one list."""
        try:
            await asyncio.sleep(self._pace.joining_seconds)
            while waiting := [one for one in self._all() if one.seen is None]:
                try:
                    if not self._version:  # the first list is under way
                        await asyncio.sleep(self._pace.joining_seconds)
                    elif len(waiting) > _FEW:
                        await self._list_for(waiting)
                    else:
                        await self._read_each(waiting)
                except ApiError as error:
                    if not error.retryable:
                        raise
                    await asyncio.sleep(self._pace.outage_delay_seconds(1, error) * _jitter())
        finally:
            self._catching_up = None

    async def _read_each(self, waiting: list[Subscription]) -> None:
        for subscription in waiting:
            try:
                job = await self._client.get_job(self._namespace, subscription.ref.name)
            except NotFoundError:
                subscription.deliver_gone(None)
                continue
            if job.metadata.uid == subscription.ref.uid:
                subscription.deliver(job)
            else:
                subscription.deliver_gone(None)


def subscribe(client: JobClient, ref: JobRef, pace: Pace = DEFAULT_PACE) -> Subscription:
    """Return a view of the Job `ref`, to be entered with `async with`.

    All views of one client and namespace share a watch; the first one's `pace` holds.
    """
    watches = _WATCHES.setdefault(asyncio.get_running_loop(), {})
    key = (id(client), ref.namespace)
    if key not in watches:
        watches[key] = JobWatch(client, ref.namespace, pace)
    return Subscription(watches[key], ref)


def _forget(watch: JobWatch) -> None:
    watches = _WATCHES.get(asyncio.get_running_loop(), {})
    for key in [key for key, one in watches.items() if one is watch]:
        del watches[key]


async def _within(seconds: float, work: Any) -> bool:
    """Run `work` for at most `seconds`; tell whether it came to its end."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    if task.cancelled():
        return False
    task.result()
    return True


def _jitter() -> float:
    return 0.5 + random.random()  # noqa: S311  spreads requests, keeps no secret
