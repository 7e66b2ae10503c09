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
from airflow_batchjob.core.errors import ApiConflictError, NotFoundError
from airflow_batchjob.core.event import Cause, Order
from airflow_batchjob.core.identity.identity import newest_first
from airflow_batchjob.core.identity.marks import STOP, UNDER_WAY, StopMark, identity_selector, read_marks
from airflow_batchjob.core.identity.resuming import source_to_go_on
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.status import read_status
from airflow_batchjob.supervisor.patches import annotate, if_held, put
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
            The order for the follow-up; None: something has changed, look again.

        Raises:
            ApiError: The API could not be asked, or refuses.
        """
        ref = job.ref
        found = await self.client.list_jobs(ref.namespace, identity_selector(self.order.identity))
        jobs = newest_first(found.items)
        if not jobs or jobs[0].metadata.uid == ref.uid:
            successor = await self._create(job, jobs, losses, sent)
        else:
            successor = jobs[0]
        if successor is None or read_marks(successor).holder != self.order.holder:
            return None
        await self._end(job)
        if read_marks(successor).is_preparing:
            source = source_to_go_on(job, jobs)
            told = Telling(indexes=source.told(job.spec.completions or 0), holder=self.order.holder)
            prepared = await prepare(self.client, successor, told, log=self.log)
            if prepared is None:
                return None
            successor = prepared
        generation = read_marks(successor).generation
        words = "Job %s goes on with what %s has left, on on-demand machines (generation %d)"
        self.log.warning(words, successor.ref, ref.name, generation)
        return msgspec.structs.replace(self.order, job=successor.ref, generation=generation)

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
        return there if read_marks(there).identity == self.order.identity else None

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
