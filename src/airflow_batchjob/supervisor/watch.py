"""One list-and-watch of our Jobs for all supervisors of an event loop, client and namespace.

Supervisors subscribe by uid and get the newest object, not every one. List, watch from there, list
again on 410 and now and then for safety; a lost connection is waited out. Where watching is
forbidden, one shared list per interval takes its place.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing
from typing import Any
from weakref import WeakKeyDictionary

from airflow_batchjob.client.protocol import EventType, JobClient, WatchEvent
from airflow_batchjob.core.errors import (
    ApiError,
    ApiRefusedError,
    ExpiredError,
    NotFoundError,
)
from airflow_batchjob.core.identity.marks import SELECTOR
from airflow_batchjob.core.reading.job import Job, JobRef
from airflow_batchjob.supervisor.pace import DEFAULT_PACE, Pace, is_refusal
from airflow_batchjob.supervisor.view import Seen, Subscription

__all__ = ["JobWatch", "Seen", "Subscription", "subscribe"]

_Key = tuple[int, str]
_WATCHES: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_Key, JobWatch]] = WeakKeyDictionary()

_FEW = 2  # that many late joiners are read one by one, more by one list
_CUTS_OF_NO_MATTER = 2  # so many cut watches in a row are no trouble yet: supervisors needn't hear of them


class JobWatch:
    """See the module. Made by `subscribe`; lives as long as it has subscribers."""

    def __init__(self, client: JobClient, namespace: str, pace: Pace) -> None:
        self.trouble: ApiError | None = None
        self.refusal: ApiError | None = None  # why it lists and doesn't watch
        self._watch_again_at = 0.0  # on the loop's clock, as `_let_in_at`
        self._let_in_at = float("-inf")
        self._client, self._namespace, self._pace = client, namespace, pace
        self._subscriptions: dict[str, set[Subscription]] = {}  # by uid
        self._task: asyncio.Task[None] | None = None
        self._catching_up: asyncio.Task[None] | None = None
        self._version = ""  # "": nothing was listed yet

    def join(self, subscription: Subscription) -> None:
        self._subscriptions.setdefault(subscription.ref.uid, set()).add(subscription)
        if self._task is None:
            self._task = asyncio.ensure_future(self._guarded())
        elif self._catching_up is None:
            self._catching_up = asyncio.ensure_future(self._catch_up())

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
                await asyncio.wait({task})

    def _all(self) -> list[Subscription]:
        return [one for of_one_job in self._subscriptions.values() for one in of_one_job]

    def _set_trouble(self, error: ApiError | None) -> None:
        began_or_ended = (error is None) != (self.trouble is None)
        self.trouble = error
        if began_or_ended:
            for subscription in self._all():
                subscription.alert()

    async def _guarded(self) -> None:
        try:
            await self._list_and_watch()
        except Exception as error:  # noqa: BLE001  every supervisor hears of it, none waits for ever
            _forget(self)
            for subscription in self._all():
                subscription.fail(error)

    async def _list_and_watch(self) -> None:
        failures = 0
        while True:
            try:
                await self._list()
                self._set_trouble(None)
                if await self._follow_for(self._pace.full_read_seconds):
                    failures = 0
            except ExpiredError as error:
                failures += 1
                await self._pause(failures, error)
            except ApiError as error:
                self._check_passes(error)
                self._set_trouble(error)
                failures += 1
                await self._pause(failures, error)

    def _check_passes(self, error: ApiError) -> None:
        """Raise what waiting can't mend. Who was let in before is not turned away by one refusal."""
        if (
            is_refusal(error)
            and asyncio.get_running_loop().time() < self._let_in_at + self._pace.patience_seconds
        ):
            return
        if not error.retryable:
            raise error

    async def _pause(self, failures: int, error: ApiError) -> None:
        await asyncio.sleep(self._pace.outage_delay_seconds(failures, error) * _jitter())

    async def _list(self) -> None:
        self._version = await self._list_for(self._all())
        self._let_in_at = asyncio.get_running_loop().time()

    async def _list_for(self, waiting: list[Subscription]) -> str:
        page = await self._client.list_jobs(self._namespace, SELECTOR)
        there = {job.metadata.uid: job for job in page.items}
        for subscription in waiting:
            if (job := there.get(subscription.ref.uid)) is not None:
                subscription.deliver(job)
            else:
                subscription.deliver_gone(None)
        return page.resource_version

    async def _follow_for(self, seconds: float) -> bool:
        """Deliver changes until a full read is due; tell whether anything came of it.

        Raises:
            ExpiredError: The version is too old. It is no surprise after changes were heard.
        """
        due = asyncio.get_running_loop().time() + seconds
        failures, began_at = 0, self._version
        while (left := due - asyncio.get_running_loop().time()) > 0:
            now = asyncio.get_running_loop().time()
            if self.refusal is not None and now < self._watch_again_at:
                await asyncio.sleep(min(left, self._pace.list_seconds * _jitter()))
                return True
            heard = self._version
            try:
                if not await _within(left, self._follow()):
                    return True
            except ExpiredError:
                if self._version == began_at:
                    raise
                return True
            except ApiError as error:
                failures = 1 if self._version != heard else failures + 1
                await self._meet(error, failures)
                continue
            failures = 0
            self._set_trouble(None)
            # The server may end every watch at once: never faster than this.
            await asyncio.sleep(self._pace.after_end_seconds * _jitter())
        return True

    async def _meet(self, error: ApiError, failures: int) -> None:
        """Meet the end of a watch that the server did not mean."""
        if isinstance(error, ApiRefusedError) and error.code == 403:
            self._refuse(error)
            return
        self._check_passes(error)
        if failures > _CUTS_OF_NO_MATTER:
            self._set_trouble(error)
        await self._pause(failures, error)

    def _refuse(self, error: ApiError) -> None:
        # Rights may be given while we run: now and then it is tried again.
        self._watch_again_at = asyncio.get_running_loop().time() + self._pace.refused_again_seconds
        if self.refusal is not None:
            return
        self.refusal = error
        for subscription in self._all():
            subscription.alert()

    async def _follow(self) -> None:
        stream: Any = self._client.watch_jobs(self._namespace, SELECTOR, self._version)
        async with aclosing(stream):
            async for event in stream:
                self._set_trouble(None)
                self.refusal = None
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
        """Give late joiners their first object. What can't be mended is their trouble alone."""
        try:
            await self._bring_first()
        except Exception as error:  # noqa: BLE001  none of them waits for ever
            for subscription in self._waiting():
                subscription.fail(error)
        finally:
            self._catching_up = None

    async def _bring_first(self) -> None:
        """Read a few alone, many by one list; by a list, too, where Jobs can't be read alone."""
        failures = 0
        await asyncio.sleep(self._pace.joining_seconds)
        while waiting := self._waiting():
            try:
                if not self._version:  # the first list is under way
                    await asyncio.sleep(self._pace.joining_seconds)
                elif failures or len(waiting) > _FEW:
                    await self._list_for(waiting)
                else:
                    await self._read_each(waiting)
            except ApiError as error:
                failures += 1
                self._check_passes(error)
                await self._pause(failures, error)

    def _waiting(self) -> list[Subscription]:
        return [one for one in self._all() if one.seen is None and one.error is None]

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
            await asyncio.wait({task})  # not `await task`: whether it or this one was cancelled must show
    if task.cancelled():
        return False
    task.result()
    return True


def _jitter() -> float:
    return 0.5 + random.random()  # noqa: S311  spreads requests, keeps no secret
