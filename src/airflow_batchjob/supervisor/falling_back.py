"""From spot to on-demand, one step after the other: suspend, wait, move and resume; or a follow-up Job.

Each step is one guarded request that leaves the Job in a state from which anyone can go on.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from typing_extensions import assert_never

from airflow_batchjob.client.protocol import JobClient
from airflow_batchjob.core.capacity.capacity import Kind
from airflow_batchjob.core.capacity.marks import (
    CAPACITY,
    FALL_BACK,
    FELL_BACK,
    FellBack,
    LossMark,
    Plan,
    UnderWay,
    Why,
    read_capacity,
)
from airflow_batchjob.core.capacity.placement import CAPACITY_LABEL, FIELDS
from airflow_batchjob.core.capacity.way_out import FallBack, Step
from airflow_batchjob.core.errors import ApiError, ApiRefusedError, NotFoundError
from airflow_batchjob.core.event import Cause, Order
from airflow_batchjob.core.identity.marks import UNDER_WAY
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.status import read_status
from airflow_batchjob.supervisor.following import Following, is_unchanged
from airflow_batchjob.supervisor.patches import (
    Operation,
    annotate,
    drop,
    drop_annotation,
    if_held,
    if_says,
    if_unchanged,
    is_changed_meanwhile,
    put,
    send_deadline,
)
from airflow_batchjob.supervisor.stopping import stop

_POD = "/spec/template/spec/"
_POD_LABEL = "/spec/template/metadata/labels/" + CAPACITY_LABEL.replace("/", "~1")
_MOVABLE = tuple(field for field in FIELDS if field != "priorityClassName")


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """One Job that leaves spot, and who sees to it.

    Attributes:
        client: The cluster.
        order: Which Job, for whom.
        log: Gets one line for each step.
        now: Epoch seconds.
        losses: As counted so far; None: not counted.
    """

    client: JobClient
    order: Order
    log: logging.Logger
    now: float
    losses: LossMark | None = None

    async def take(self, step: FallBack, job: Job, also: list[Operation]) -> Order | None:
        """Take one step; safe to repeat and to cut anywhere.

        Args:
            step: As decided on `job`.
            job: As seen.
            also: What else is to be written with it: the losses so far.

        Returns:
            The order for the follow-up Job where one took over; None: look at the Job again.

        Raises:
            ApiError: The API could not be asked, or refuses. Where it refuses an object (422) and the Job
                can be stopped, it is.
            ForeignJobError: A Job of someone else has the name of the follow-up.
        """
        try:
            match step.step:
                case Step.SUSPEND:
                    await self._suspend(step, job, also)
                case Step.MOVE:
                    return await self._move(step, job, also)
                case Step.FOLLOW:
                    return await self._following(step, job)
                case Step.FORGET:
                    await self._forget(job)
                case _ as never:
                    assert_never(never)
        except NotFoundError as error:
            self.log.debug("Job %s is gone, looking again: %s", job.ref, error)
        except ApiError as error:
            if not is_changed_meanwhile(error):
                raise
            if isinstance(error, ApiRefusedError) and await is_unchanged(self.client, job):
                await self._give_up(step, job, error)
            else:
                self.log.debug("Job %s has changed meanwhile, looking again: %s", job.ref, error)
        return None

    async def _give_up(self, step: FallBack, job: Job, error: ApiRefusedError) -> None:
        """Stop a Job that the API lets nobody move: trying again would be refused again."""
        if read_status(job).phase.is_final:
            raise error
        words = f"{step.words}, and the API refuses on-demand machines: {error.message or error}"
        self.log.warning("Job %s can't leave spot, so it is stopped: %s", job.ref, words)
        lost = step.why in {Why.LOSSES_OF_AN_INDEX, Why.LOSS_RATE}
        cause = Cause.LOSSES if lost else Cause.STOCK_OUT
        ref, holder = self.order.job, self.order.holder
        await stop(self.client, ref, holder=holder, reason=words, cause=cause, clock=lambda: self.now)

    async def _suspend(self, step: FallBack, job: Job, also: list[Operation]) -> None:
        mark = UnderWay(doing=FALL_BACK, why=step.why, words=step.words, at=self.now, killed=step.killed)
        operations = [
            *if_unchanged(job),  # or a stop that came in between would be undone
            put("/spec/suspend", value=True),
            annotate(UNDER_WAY, mark.to_text()),
            *also,
            *(send_deadline(step.resend) if step.resend is not None else ()),
        ]
        await self._patch(job, operations)
        pods = "running pod is" if step.killed == 1 else "running pods are"
        killed = f"; {step.killed:,} {pods} killed" if step.killed else ""
        self.log.warning("Job %s leaves spot: %s. It is suspended%s", job.ref, step.words, killed)

    async def _move(self, step: FallBack, job: Job, also: list[Operation]) -> Order | None:
        plan = read_capacity(job).plan
        if plan is None:
            return None
        if job.status.start_time is not None:
            await self._forget_start(job)
        fell_back = FellBack(why=step.why, words=step.words, at=self.now, killed=step.killed)
        operations = [
            *self._if_held,
            *self._if_under_way(job),
            _if_suspended(suspended=True),
            *_placement(job, plan),
            put("/spec/suspend", value=False),
            annotate(CAPACITY, plan.moved().to_text()),
            annotate(FELL_BACK, fell_back.to_text()),
            drop_annotation(UNDER_WAY),
            *also,
            *(send_deadline(step.resend) if step.resend is not None else ()),
        ]
        try:
            await self._patch(job, operations)
        except ApiRefusedError as error:
            if error.code != 422 or "spec.template" not in error.message:
                raise
            self.log.warning("Job %s can't be moved, a follow-up Job takes over: %s", job.ref, error.message)
            return await self._following(step, job)
        left = read_status(job).remaining
        count = "what is left" if left is None else f"the {left:,} indexes that are left"
        self.log.warning("Job %s goes on with %s on on-demand machines", job.ref, count)
        return None

    async def _following(self, step: FallBack, job: Job) -> Order | None:
        fell_back = FellBack(why=step.why, words=step.words, at=self.now, killed=step.killed)
        following = Following(client=self.client, order=self.order, log=self.log, fell_back=fell_back)
        return await following.take_over(job, self.losses, step.resend)

    async def _forget_start(self, job: Job) -> None:
        # Before 1.36 a Job that has a start refuses another placement.
        uid = {"op": "test", "path": "/metadata/uid", "value": job.metadata.uid}
        still = {"op": "test", "path": "/spec/suspend", "value": True}
        try:
            await self.client.patch_job_status(
                job.metadata.namespace, job.metadata.name, [uid, still, drop("/status/startTime")]
            )
        except ApiRefusedError as error:
            self.log.debug("The start of %s can't be taken away, newer servers need not: %s", job.ref, error)

    async def _forget(self, job: Job) -> None:
        """Take the mark off a Job that somebody has resumed: it runs where it ran."""
        operations = [*self._if_held, *self._if_under_way(job), _if_suspended(suspended=False)]
        await self._patch(job, [*operations, drop_annotation(UNDER_WAY)])
        self.log.warning("Job %s was resumed by someone before it had left spot", job.ref)

    @property
    def _if_held(self) -> list[Operation]:
        return if_held(self.order.job.uid, self.order.holder)

    @staticmethod
    def _if_under_way(job: Job) -> list[Operation]:
        return [if_says(UNDER_WAY, job.metadata.annotations[UNDER_WAY])]

    async def _patch(self, job: Job, operations: list[Operation]) -> None:
        await self.client.patch_job(job.metadata.namespace, job.metadata.name, operations)


def _if_suspended(*, suspended: bool) -> Operation:
    return {"op": "test", "path": "/spec/suspend", "value": suspended}


def _placement(job: Job, plan: Plan) -> list[Operation]:
    """Return the changes of a suspended Job's template that move its pods."""
    there = job.spec.template.get("spec") or {}
    operations = [put(_POD + field, plan.on_demand[field]) for field in _MOVABLE if field in plan.on_demand]
    gone = [field for field in _MOVABLE if field not in plan.on_demand and field in there]
    return [*operations, *(drop(_POD + field) for field in gone), put(_POD_LABEL, Kind.ON_DEMAND.value)]
