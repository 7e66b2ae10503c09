"""Submit once, whatever crashes in between: list, decide, act, and list again.

`core.identity` decides; nothing is created before the cluster has been asked what there is.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec
from typing_extensions import assert_never

from airflow_batchjob.client.protocol import JobClient
from airflow_batchjob.core.errors import (
    ApiConflictError,
    ApiError,
    ApiUnavailableError,
    ForeignJobError,
    NotFoundError,
)
from airflow_batchjob.core.event import Order, Verdict
from airflow_batchjob.core.identity.identity import (
    Again,
    Attach,
    Decision,
    RefuseIncarnation,
    RefuseRerun,
    ReportAgain,
    StopThenNext,
    SubmitFirst,
    SubmitNext,
    TakeResult,
    WaitUntilGone,
    decide,
    is_ending,
    newest_first,
)
from airflow_batchjob.core.identity.marks import OURS, identity_selector, read_marks
from airflow_batchjob.core.identity.record import Record
from airflow_batchjob.core.identity.resuming import Source, half_made_of, kept_text
from airflow_batchjob.core.identity.runs import is_of_another_run
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.status import read_status
from airflow_batchjob.supervisor.attaching import attach_operations, created_manifest, hold_operations
from airflow_batchjob.supervisor.dying import Dying
from airflow_batchjob.supervisor.patches import is_changed_meanwhile
from airflow_batchjob.supervisor.request import Request
from airflow_batchjob.supervisor.resume import Telling, half_made, is_told, prepare
from airflow_batchjob.supervisor.stopping import stop

_MOST_ROUNDS = 12  # of losing a race against others; waiting for a dying Job is not counted
_AGAIN_SECONDS = 0.5


async def submit(
    client: JobClient,
    request: Request,
    *,
    log: logging.Logger,
    record: Record | None = None,
    clock: Callable[[], float] = time.time,
) -> Order | Verdict:
    """Bring about the one Job of this request's identity. Safe to repeat and to cut anywhere.

    Args:
        client: The cluster.
        request: What this try asks for.
        log: Says what was found and done.
        record: What the task's own store says, for when the Job is gone.
        clock: Epoch seconds.

    Returns:
        The order to see a Job through, or the verdict of one that is over already
        (`request.order(verdict.job, verdict.generation)` is its order).

    Raises:
        ForeignJobError: A Job of someone else, or of a deleted run of this name, stands in the way.
        ApiRefusedError: The API does not let us, or refuses the Job.
        ApiUnavailableError: The API does not answer, or an earlier Job does not go.
    """
    submitting = _Submitting(client=client, request=request, log=log, record=record, clock=clock)
    for attempt in range(_MOST_ROUNDS):
        answer = await submitting.round()
        if answer is not None:
            return answer
        await asyncio.sleep(_AGAIN_SECONDS * (attempt + 1) * (0.5 + random.random()))  # noqa: S311  jitter
    raise ApiUnavailableError(
        f"submit a Job of {request.identity.digest}",
        message=f"what was found had changed again, {_MOST_ROUNDS} times; does something else write to it?",
    )


@dataclass(kw_only=True)
class _Submitting:
    client: JobClient
    request: Request
    log: logging.Logger
    record: Record | None
    clock: Callable[[], float]
    waited: bool = False
    plainly: bool = False  # attach with what can't be refused
    digests: Mapping[str, str] = field(default_factory=dict)
    jobs: list[Job] = field(default_factory=list)  # all of this identity, as listed last

    def __post_init__(self) -> None:
        self.digests = self.request.digests

    @property
    def namespace(self) -> str:
        return self.request.namespace or self.client.namespace

    async def round(self) -> Order | Verdict | None:
        """List, decide, act; None: look again."""
        selector = identity_selector(self.request.identity.digest)
        page = await self.client.list_jobs(self.namespace, selector)
        self.jobs = jobs = newest_first(page.items)
        await self._stop_strays(jobs[1:])
        decision = decide(jobs, self.request.asked(self.digests, waited=self.waited), self.record)
        return await self._act(decision)

    async def _act(self, decision: Decision) -> Order | Verdict | None:
        match decision:
            case SubmitFirst():
                return await self._create(0)
            case SubmitNext(generation=generation, because=because, resume_from=source):
                return await self._create(generation, self._kept(source), because)
            case Attach(job):
                return await self._attach(job)
            case WaitUntilGone(job):
                self.waited = True
                dying = Dying(self.client, self.log, self.clock)
                await dying.wait(job.ref)
                return None
            case StopThenNext(job, reason):
                await self._stop(job, reason)
                return None
            case TakeResult(verdict) | ReportAgain(verdict):
                self.log.info("Job %s has ended already: %s", verdict.job, verdict.outcome.value)
                return await self._take(verdict)
            case RefuseIncarnation(job, theirs, ours):
                raise _refusal(job, theirs, ours)
            case RefuseRerun(error=error):
                raise error
            case _ as never:
                assert_never(never)

    def _kept(self, source: Source | None) -> Source | None:
        """Return `source` if anything of it stands, else None: then nothing has to be told."""
        completions = self.request.thresholds.completions
        return source if source is not None and completions and source.told(completions) else None

    def _say_why(self, generation: int, source: Source | None, because: str) -> None:
        completions = self.request.thresholds.completions
        if source is not None and completions is not None:
            self.log.info("Generation %d %s (%s)", generation, kept_text(source, completions), because)
        elif because:
            self.log.info("Generation %d runs everything: %s", generation, because)
        elif self.request.try_number > 1:
            self.log.warning(
                "Try %d starts over: no Job of an earlier try is left, and no record of one",
                self.request.try_number,
            )

    async def _create(self, generation: int, source: Source | None = None, because: str = "") -> Order | None:
        if await self._pods_had_to_go(generation):
            return None  # much may have changed meanwhile
        self._say_why(generation, source, because)
        manifest = created_manifest(
            self.request, generation, namespace=self.namespace, digests=self.digests, now=self.clock()
        )
        if source is not None:
            manifest = half_made(manifest, source)
        name = manifest["metadata"]["name"]
        try:
            job = await self.client.create_job(manifest)
        except ApiConflictError as conflict:
            if conflict.reason != "AlreadyExists":
                raise
            await self._check_ours(name, generation)
            return None  # an answer was lost, or another process was faster: attach
        except ApiUnavailableError as error:
            self.log.warning("No answer to creating Job %s, looking whether it is there: %s", name, error)
            return None
        self.log.info("Job %s submitted (generation %d)", job.ref, generation)
        return await self._ordered(job, source)

    async def _pods_had_to_go(self, generation: int) -> bool:
        """Wait for what runs of a Job that is gone: the same indexes must not run twice at a time."""
        may_be_gone = generation > 0 or self.request.try_number > 1 or self.waited or self.record is not None
        if not may_be_gone:
            return False
        dying = Dying(self.client, self.log, self.clock)
        return await dying.wait_for_pods(self.namespace, self.request.identity.digest, self.jobs)

    async def _ordered(self, job: Job, source: Source | None) -> Order | None:
        """Return the order for `job`, which is told first what is done if that is still to come."""
        if source is not None:
            told = Telling.of(source, self.request.manifest, job.metadata.namespace, self.request.holder)
            prepared = await prepare(self.client, job, told, log=self.log)
            if prepared is None:
                return None
            job = prepared
        order = self.request.order(job.ref, read_marks(job).generation)
        if source is not None and not is_told(job, told.indexes):
            return msgspec.structs.replace(order, on_retry=Again.ALL.value)  # a retry could keep no more
        return order

    async def _check_ours(self, name: str, generation: int) -> None:
        try:
            job = await self.client.get_job(self.namespace, name)
        except NotFoundError:
            return
        marks = read_marks(job)
        ours = (OURS, self.request.identity.digest, generation)
        if (marks.managed_by, marks.identity, marks.generation) != ours:
            raise ForeignJobError(
                f"Job {job.ref} exists and is not ours (identity {marks.identity or 'none'}, "
                f"managed by {marks.managed_by or 'nobody'}). Delete it, or give the task another name="
            )

    async def _attach(self, job: Job) -> Order | None:
        operations = attach_operations(job, self.request, now=self.clock(), plainly=self.plainly)
        try:
            now = await self.client.patch_job(job.metadata.namespace, job.metadata.name, operations)
        except NotFoundError:
            return None
        except ApiError as error:
            if not is_changed_meanwhile(error):
                raise
            await self._learn_from(error, job)
            return None
        marks = read_marks(now)
        self.log.info("Attached to Job %s (generation %d), which is alive", now.ref, marks.generation)
        source = half_made_of(now, self.jobs, self.record) if marks.is_preparing else None
        if source is not None and (completions := self.request.thresholds.completions):
            self.log.info("It was left half made. It %s", kept_text(source, completions))
        return await self._ordered(now, source)

    async def _learn_from(self, error: ApiError, job: Job) -> None:
        """Tell a Job that changed meanwhile from limits that the API refuses on this one."""
        try:
            now = await self.client.get_job(job.metadata.namespace, job.metadata.name)
        except NotFoundError:
            return
        if now.metadata.resource_version == job.metadata.resource_version and not self.plainly:
            self.plainly = True
            self.log.warning("Job %s keeps its limits, the new ones are refused: %s", job.ref, error)

    async def _take(self, verdict: Verdict) -> Verdict:
        """Become the holder of an ended Job, so that the report may be written onto it."""
        ref = verdict.job
        try:
            job = await self.client.get_job(ref.namespace, ref.name)
            if job.metadata.uid == ref.uid and read_marks(job).holder != self.request.holder:
                await self.client.patch_job(ref.namespace, ref.name, hold_operations(job, self.request))
        except NotFoundError:
            pass  # the task's own store remembers it
        except ApiError as error:
            self.log.warning("Job %s: its result is taken, but it can't be held: %s", ref, error)
        return verdict

    async def _stop(self, job: Job, reason: str) -> None:
        self.log.warning("Job %s is stopped and replaced: %s", job.ref, reason)
        holder = read_marks(job).holder
        await stop(
            self.client,
            job.ref,
            holder=holder,
            reason=f"replaced: {reason}",
            new_holder=self.request.holder,
            clock=self.clock,
        )

    async def _stop_strays(self, older: list[Job]) -> None:
        """End what should have ended before a newer generation was made."""
        for job in older:
            alive = not read_status(job).phase.is_final and not is_ending(job)
            if alive and not self._is_of_another_run(job):
                await self._stop(job, "a newer generation is there")

    def _is_of_another_run(self, job: Job) -> bool:
        asked = self.request
        return is_of_another_run(read_marks(job), incarnation=asked.incarnation, holder=asked.holder)


def _refusal(job: Job, theirs: str, ours: str) -> ForeignJobError:
    return ForeignJobError(
        f"Job {job.ref} is alive and belongs to another run of this name (it says {theirs!r}, this one "
        f"is {ours!r}): to a deleted and re-created run, or to another Airflow. Stop that Job, or tell the "
        "two Airflows apart with the setting [batchjob] instance"
    )
