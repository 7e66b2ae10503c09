"""A follow-up Job takes over on other machines: created, its predecessor ended, told what is done, let go.

Until the predecessor has been told to end, the new one runs nothing, and the predecessor is suspended: they
never run at the same time.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from airflow_batchjob.client.protocol import JobClient
from airflow_batchjob.core.capacity.follow_up import follow_up
from airflow_batchjob.core.capacity.marks import FOLLOW_UP, FellBack, LossMark, UnderWay, read_capacity
from airflow_batchjob.core.deciding.clocks import Sent
from airflow_batchjob.core.errors import ApiConflictError, ApiError, ForeignJobError, NotFoundError
from airflow_batchjob.core.event import Cause, Order
from airflow_batchjob.core.identity.identity import newest_first
from airflow_batchjob.core.identity.marks import (
    HOLDER,
    STOP,
    UNDER_WAY,
    StopMark,
    identity_selector,
    read_marks,
)
from airflow_batchjob.core.identity.resuming import source_to_go_on
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.status import read_status
from airflow_batchjob.supervisor.patches import (
    annotate,
    if_held,
    if_unchanged,
    is_changed_meanwhile,
    put,
)
from airflow_batchjob.supervisor.resume import Telling, half_made, prepare


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """The hand-over of one Job to its follow-up, by whoever holds both.

    Attributes:
        client: The cluster.
        order: Of the predecessor.
        log: Gets a line.
        fell_back: Why, and when; written onto the new Job.
    """

    client: JobClient
    order: Order
    log: logging.Logger
    fell_back: FellBack

    async def take_over(self, job: Job, losses: LossMark | None, sent: Sent | None) -> Order | None:
        """Bring the follow-up Job about, as far as that is not done; safe to repeat and to cut anywhere.

        Args:
            job: The predecessor: suspended, without pods, or ended in favour of the follow-up.
            losses: As counted so far.
            sent: The deadline of what this try has left.

        Returns:
            The order for the follow-up, which may have another holder by now; None: something has changed,
            look again.

        Raises:
            ApiError: The API could not be asked, or refuses.
            ForeignJobError: A Job of someone else has its name.
        """
        ref = job.ref
        found = await self.client.list_jobs(ref.namespace, identity_selector(self.order.identity))
        jobs = newest_first(found.items)
        successor = await self._successor(job, jobs, losses, sent)
        if successor is None:
            return None
        if read_marks(successor).holder != self.order.holder:
            return self._ordered(successor)
        await self._end(job)
        if read_marks(successor).is_preparing:
            source = source_to_go_on(job, jobs)
            told = Telling(indexes=source.told(job.spec.completions or 0), holder=self.order.holder)
            prepared = await prepare(self.client, successor, told, log=self.log)
            if prepared is None:
                return None
            successor = prepared
        order = self._ordered(successor)
        words = "Job %s goes on with what %s has left, on on-demand machines (generation %d)"
        self.log.warning(words, order.job, ref.name, order.generation)
        return order

    def _ordered(self, successor: Job) -> Order:
        generation = read_marks(successor).generation
        return msgspec.structs.replace(self.order, job=successor.ref, generation=generation)

    async def _successor(
        self, job: Job, jobs: Sequence[Job], losses: LossMark | None, sent: Sent | None
    ) -> Job | None:
        newer = [one for one in jobs if read_marks(one).generation > read_marks(job).generation]
        if not newer:
            return await self._create(job, jobs, losses, sent)
        successor, ours = newer[0], self.order.holder
        if not read_marks(successor).is_preparing or read_marks(successor).holder == ours:
            return successor
        # Who held the predecessor when it was taken over may have made one, and left. Any later try would
        # have ended the predecessor before it became the successor's holder.
        if not any(_is_alive_and_held(one, job, ours) for one in jobs):
            return successor
        ref, operations = successor.ref, [*if_unchanged(successor), annotate(HOLDER, ours)]
        try:
            return await self.client.patch_job(ref.namespace, ref.name, operations)
        except ApiError as error:
            if is_changed_meanwhile(error) and not await is_unchanged(self.client, successor):
                return None
            raise

    async def _create(
        self, job: Job, jobs: Sequence[Job], losses: LossMark | None, sent: Sent | None
    ) -> Job | None:
        plan = read_capacity(job).plan
        if plan is None:
            return None
        manifest = half_made(follow_up(job, plan, self.fell_back, losses, sent), source_to_go_on(job, jobs))
        metadata = manifest["metadata"]
        try:
            return await self.client.create_job(manifest)
        except ApiConflictError as conflict:
            if conflict.reason != "AlreadyExists":
                raise
        try:  # its answer was lost
            there = await self.client.get_job(metadata["namespace"], metadata["name"])
        except NotFoundError:
            return None
        if read_marks(there).identity != self.order.identity:
            raise ForeignJobError(f"Job {there.ref} is not ours, and has the name of what follows {job.ref}")
        return there if read_marks(there).holder == self.order.holder else None

    async def _end(self, job: Job) -> None:
        """End the predecessor, and say that this is no end of the work: whoever finds it goes on."""
        if read_status(job).phase.is_final or read_capacity(job).is_followed_up:
            return
        fell_back = self.fell_back
        mark = UnderWay(
            doing=FOLLOW_UP,
            why=fell_back.why,
            words=fell_back.words,
            at=fell_back.at,
            killed=fell_back.killed,
        )
        why = StopMark(cause=Cause.STOPPED, words="a follow-up Job goes on on demand", at=fell_back.at)
        ref = job.ref
        await self.client.patch_job(
            ref.namespace,
            ref.name,
            [
                *if_held(ref.uid, self.order.holder),
                put("/spec/activeDeadlineSeconds", 0),
                put("/spec/suspend", value=False),
                annotate(STOP, why.to_text()),
                annotate(UNDER_WAY, mark.to_text()),
            ],
        )


async def is_unchanged(client: JobClient, job: Job) -> bool:
    """Tell whether nobody has written to `job` since it was seen, so that a refusal was none of a test."""
    try:
        now = await client.get_job(job.metadata.namespace, job.metadata.name)
    except NotFoundError:
        return False
    return (now.metadata.uid, now.metadata.resource_version) == (
        job.metadata.uid,
        job.metadata.resource_version,
    )


def _is_alive_and_held(one: Job, job: Job, holder: str) -> bool:
    held = one.metadata.uid == job.metadata.uid and read_marks(one).holder == holder
    return held and not read_status(one).phase.is_final and not read_capacity(one).is_followed_up
