"""One supervisor's view of its Job: the newest state, not every one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from typing_extensions import Self

from airflow_batchjob.core.errors import ApiError
from airflow_batchjob.core.reading.job import Job, JobRef
from airflow_batchjob.core.reading.status import phase_of


class Feed(Protocol):
    """What brings the news: `supervisor.watch.JobWatch`."""

    @property
    def trouble(self) -> ApiError | None: ...
    @property
    def refusal(self) -> ApiError | None: ...
    def join(self, subscription: Subscription) -> None: ...
    async def leave(self, subscription: Subscription) -> None: ...


@dataclass(frozen=True, slots=True)
class Seen:
    """The newest object of a Job; `gone`: it was deleted, and this is its last state, if any was seen."""

    job: Job | None
    gone: bool = False


class Subscription:
    """One supervisor's view of its Job. An async context manager: leaving it unsubscribes."""

    def __init__(self, watch: Feed, ref: JobRef) -> None:
        self.ref = ref
        self.seen: Seen | None = None
        self.error: Exception | None = None
        self._watch = watch
        self._news = asyncio.Event()
        self._urgent = asyncio.Event()  # the Job has ended, or is gone

    async def __aenter__(self) -> Self:
        self._watch.join(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._watch.leave(self)

    @property
    def trouble(self) -> ApiError | None:
        """Why nothing is heard at the moment; None while the watch is well."""
        return self._watch.trouble

    @property
    def refusal(self) -> ApiError | None:
        """Why Jobs are listed now and then instead of watched; None: they are watched."""
        return self._watch.refusal

    async def next(self, timeout_seconds: float) -> Seen | None:
        """Return the newest state, waiting for one that was not returned yet; None after the timeout.

        Raises:
            ApiError: The API refuses to list Jobs.
        """
        await _happens(self._news, timeout_seconds)
        if self.error is not None:
            raise self.error
        if not self._news.is_set():
            return None
        self._news.clear()
        self._urgent.clear()
        return self.seen

    async def rest(self, seconds: float) -> None:
        """Pause between two looks, but not once the Job has ended."""
        await _happens(self._urgent, seconds)

    def deliver(self, job: Job) -> None:
        if self.seen is not None and self.seen.job is not None and _is_older(job, self.seen.job):
            return
        self.seen = Seen(job)
        if phase_of(job).is_final:
            self._urgent.set()
        self._news.set()

    def deliver_gone(self, last: Job | None) -> None:
        known = self.seen.job if self.seen is not None else None
        self.seen = Seen(last or known, gone=True)
        self._urgent.set()
        self._news.set()

    def alert(self) -> None:
        """Wake the supervisor: `trouble` has begun or is over."""
        self._news.set()

    def fail(self, error: Exception) -> None:
        self.error = error
        self._urgent.set()
        self._news.set()


async def _happens(event: asyncio.Event, timeout_seconds: float) -> None:
    """Wait for `event`, or for so long."""
    if event.is_set() or timeout_seconds <= 0:
        return
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({waiting}, timeout=timeout_seconds)
    finally:
        waiting.cancel()


def _is_older(job: Job, than: Job) -> bool:
    # Versions of one kind rise. What is not a number can't be compared: take it as newer.
    mine, theirs = job.metadata.resource_version, than.metadata.resource_version
    return mine.isdigit() and theirs.isdigit() and int(mine) < int(theirs)
