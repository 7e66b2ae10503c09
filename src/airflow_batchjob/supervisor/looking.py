"""Looks at Jobs that someone else runs: by identity, by name or by labels; read only.

A Job of ours is heard of through the shared watch, with a list now and then for newer generations.
Others are read at intervals, for the watch is of our label alone.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import msgspec

from airflow_batchjob.client.protocol import JobClient
from airflow_batchjob.core.errors import ApiError, NotFoundError
from airflow_batchjob.core.identity.marks import OURS, identity_selector, read_marks
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.status import phase_of
from airflow_batchjob.supervisor.observe import newest
from airflow_batchjob.supervisor.pace import DEFAULT_PACE, Pace, is_refusal
from airflow_batchjob.supervisor.watch import Subscription, subscribe

_OUTAGE_FAILURES = 4  # read methods of a client have tried again themselves before they raise


class Target(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which Jobs are looked at; one of identity, name and label_selector is given.

    Attributes:
        namespace: "": the client's.
        identity: Digest of a task instance.
        name: Of one Job; once it has been seen to be ours, all generations of its identity.
        label_selector: As kubectl takes it.
    """

    namespace: str = ""
    identity: str = ""
    name: str = ""
    label_selector: str = ""

    def __str__(self) -> str:
        what = self.name or self.label_selector or identity_selector(self.identity)
        return f"{self.namespace}/{what}" if self.namespace else what


@dataclass(frozen=True, slots=True)
class Sight:
    """Reads a target's Jobs from one cluster."""

    client: JobClient
    target: Target
    pace: Pace = DEFAULT_PACE

    @property
    def namespace(self) -> str:
        return self.target.namespace or self.client.namespace

    async def read(self) -> Sequence[Job]:
        """Return the target's Jobs as they are now.

        Raises:
            ApiError: The API could not be asked, or refused.
        """
        target = self.target
        if target.name:
            return await self._read_by_name(target.name)
        selector = identity_selector(target.identity) if target.identity else target.label_selector
        return (await self.client.list_jobs(self.namespace, selector)).items

    async def _read_by_name(self, name: str) -> Sequence[Job]:
        try:
            job = await self.client.get_job(self.namespace, name)
        except NotFoundError:
            return ()
        marks = read_marks(job)
        if marks.managed_by != OURS or not marks.identity:
            return (job,)
        return (await self.client.list_jobs(self.namespace, identity_selector(marks.identity))).items


async def looks(sight: Sight, *, log: logging.Logger) -> AsyncGenerator[Sequence[Job], None]:
    """Yield the target's Jobs again and again: at each change, and once in a while without one.

    An outage is waited out, and a refusal for a while once the API has let us in.

    Raises:
        ApiError: The API refuses to be asked.
    """
    now, let_in_at = asyncio.get_running_loop().time, float("-inf")
    while True:
        try:
            jobs = await sight.read()
        except ApiError as error:
            may_pass = is_refusal(error) and now() < let_in_at + sight.pace.patience_seconds
            if not (error.retryable or may_pass):
                raise
            log.warning("The API does not answer, waiting for it: %s", error)
            await asyncio.sleep(sight.pace.outage_delay_seconds(_OUTAGE_FAILURES, error))
            continue
        let_in_at = now()
        yield jobs
        job = newest(jobs)
        if job is None or phase_of(job).is_final or read_marks(job).managed_by != OURS:
            await asyncio.sleep(sight.pace.list_seconds * (0.5 + random.random()))  # noqa: S311  spreads requests
            continue
        async with (
            subscribe(sight.client, job.ref, sight.pace) as view,
            aclosing(_heard(view, sight.pace)) as heard,
        ):
            async for changed in heard:
                yield (changed,)


async def _heard(view: Subscription, pace: Pace) -> AsyncGenerator[Job, None]:
    """Yield a Job at each change, until it is over or a list is due."""
    loop = asyncio.get_running_loop()
    due = loop.time() + pace.full_read_seconds
    while (left := due - loop.time()) > 0:
        seen = await view.next(left)
        if seen is None or seen.gone or seen.job is None:
            return
        yield seen.job
        if phase_of(seen.job).is_final:
            return
        await asyncio.sleep(min(pace.between_looks_seconds, max(0.0, due - loop.time())))
