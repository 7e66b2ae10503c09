"""Look, decide, act, look again, until the verdict.

One coroutine for worker, triggerer and command line. `core.deciding.policy` decides; this carries it out.
Every act is guarded and can be cut at any point: whoever starts here again knows what to do from the
Job alone, and two of them do no harm.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import msgspec
from typing_extensions import assert_never

from airflow_batchjob.client.protocol import JobClient
from airflow_batchjob.core.capacity.way_out import FallBack
from airflow_batchjob.core.deciding.policy import Decision, Done, Look, Memory, Stop, Wait, decide
from airflow_batchjob.core.errors import ApiError, NotFoundError
from airflow_batchjob.core.event import Order, Verdict
from airflow_batchjob.core.identity.identity import newest_first
from airflow_batchjob.core.identity.marks import identity_selector, read_marks
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.status import phase_of, read_status
from airflow_batchjob.core.telling.notes import Note
from airflow_batchjob.core.telling.progress import Progress
from airflow_batchjob.supervisor.falling_back import Leaving
from airflow_batchjob.supervisor.losing import Losing
from airflow_batchjob.supervisor.pace import DEFAULT_PACE, Pace, is_refusal
from airflow_batchjob.supervisor.patches import if_unchanged, is_changed_meanwhile, send_deadline
from airflow_batchjob.supervisor.sideways import Sideways
from airflow_batchjob.supervisor.stopping import stop
from airflow_batchjob.supervisor.watch import Seen, Subscription, subscribe

Clock: TypeAlias = Callable[[], float]

Step: TypeAlias = Verdict | Order | float
"""The end, the order for a newer generation, or how many seconds to wait at most."""

_LONGEST_WAIT_SECONDS = 3_600.0


async def supervise(
    client: JobClient,
    order: Order,
    *,
    log: logging.Logger,
    clock: Clock = time.time,
    pace: Pace = DEFAULT_PACE,
    show: Callable[[Progress], None] | None = None,
) -> Verdict:
    """See a Job through to its end.

    Args:
        client: The cluster. Supervisors that share one share a watch.
        order: Which Job, for whom, and what is asked of it.
        log: Where progress, notes and logs go.
        clock: Epoch seconds.
        pace: How often to look.
        show: Gets the progress after each look, in place of progress lines in `log`.

    Returns:
        How it ended. Of a newer generation of this holder, if the Job made way for one.

    Raises:
        ApiRefusedError: The API does not let us (401, 403). Outages are waited out, and a refusal for
            two minutes once it has let us in.
    """
    while True:
        one = _Supervisor(client=client, order=order, log=log, clock=clock, pace=pace, show=show)
        found = await one.run()
        if isinstance(found, Verdict):
            return found
        log.info("Job %s made way for %s (generation %d)", order.job, found.job, found.generation)
        order = found


@dataclass(kw_only=True)
class _Supervisor:
    """The state of one `supervise` on one Job; all of it can be lost."""

    client: JobClient
    order: Order
    log: logging.Logger
    clock: Clock
    pace: Pace
    show: Callable[[Progress], None] | None
    memory: Memory = field(default_factory=Memory)
    progress: Progress = field(default_factory=Progress)
    told_of_refusal: bool = False
    refused_at: float | None = None  # since when the API has not let us, in epoch seconds
    out_of_sight: bool = False  # the watch has lost it: it is gone, or not marked as ours any more

    async def run(self) -> Verdict | Order:
        view = subscribe(self.client, self.order.job, self.pace)
        losing = Losing(self.client, self.order, self.log, self.pace, self.clock, wake=view.alert)
        beside = Sideways(self.client, self.order, self.log, self.pace, losing, wake=view.alert)
        async with view, beside as side:
            wait_seconds = _LONGEST_WAIT_SECONDS
            while True:
                due = min(wait_seconds, side.due_in_seconds(self.memory.last))
                step = await self._step_or_wait(await view.next(due), view, side)
                if not isinstance(step, float):
                    return step
                wait_seconds = step
                await view.rest(min(step, self.pace.between_looks_seconds))

    async def _step_or_wait(self, seen: Seen | None, view: Subscription, side: Sideways) -> Step:
        try:
            step = await self._step(seen, view, side)
        except ApiError as error:
            if not error.retryable and not self._may_pass(error):
                raise
            does = "does not let us" if is_refusal(error) else "does not answer"
            self.log.warning("The API %s, trying again: %s", does, error)
            return self.pace.outage_delay_seconds(4, error)
        self.refused_at = None
        return step

    def _may_pass(self, error: ApiError) -> bool:
        """Tell whether a refusal may be over soon: the watch has let us in before."""
        self.refused_at = self.clock() if self.refused_at is None else self.refused_at
        return is_refusal(error) and self.clock() < self.refused_at + self.pace.refusal_seconds

    async def _step(self, seen: Seen | None, view: Subscription, side: Sideways) -> Step:
        """Take one look and act on it."""
        if seen is not None:
            self.out_of_sight = seen.gone
        job = seen.job if seen is not None and not seen.gone else self.memory.last
        if self.out_of_sight:
            job = await self._read_again(seen)
            newer = await self._newer() if job is None else None
            if newer is not None:
                return newer
        elif job is None:
            return self._say_trouble(view)
        now = self.clock()
        decision = await self._decide(job, now, view, side)
        match decision:
            case Done(verdict):
                return await side.finish(verdict)
            case FallBack():
                followed = await self._leave_spot(decision, job, side)
                return self.pace.between_looks_seconds if followed is None else followed
            case Stop():
                await self._stop(decision)
                return self.pace.between_looks_seconds
            case Wait():
                side.need_pods_in(decision.pods_at - now)
                await self._act_on(decision, job)
                longest = self.pace.list_seconds if self.out_of_sight else _LONGEST_WAIT_SECONDS
                return min(longest, max(0.0, decision.look_at - now))
            case _ as never:
                assert_never(never)

    async def _decide(self, job: Job | None, now: float, view: Subscription, side: Sideways) -> Decision:
        if job is not None:
            self._report_progress(job, now)
            await side.look(job)
        self._say_refusal(view)
        trouble = view.trouble
        notes = () if trouble is None else (_trouble_note(trouble),)
        look = Look(
            job=job, now=now, pods=side.take_pods(), events=side.events, notes=notes, losses=side.losses
        )
        decision, self.memory = decide(look, self.order, self.memory)
        return decision

    async def _act_on(self, decision: Wait, job: Job | None) -> None:
        for note in decision.notes:
            self.log.log(logging.WARNING if note.warning else logging.INFO, "%s", note.text)
        if decision.resend is None or job is None:
            return
        operations = [*if_unchanged(job), *send_deadline(decision.resend)]
        try:
            await self.client.patch_job(job.metadata.namespace, job.metadata.name, operations)
        except ApiError as error:
            if not is_changed_meanwhile(error):
                self.log.warning("The deadline could not be brought up to date: %s", error)

    async def _leave_spot(self, decision: FallBack, job: Job | None, side: Sideways) -> Order | None:
        if job is None:
            return None
        losing = side.losing
        leaving = Leaving(
            client=self.client, order=self.order, log=self.log, now=self.clock(), losses=losing.mark
        )
        return await leaving.take(decision, job, losing.operations())

    async def _stop(self, decision: Stop) -> None:
        order = self.order
        stopped = await stop(
            self.client,
            order.job,
            holder=order.holder,
            reason=decision.words,
            cause=decision.cause,
            clock=self.clock,
        )
        if stopped:
            self.log.warning("Job %s is stopped: %s", order.job, decision.words)

    def _report_progress(self, job: Job, now: float) -> None:
        self.progress = self.progress.seen(read_status(job), now, completions=self.order.completions)
        if self.show is not None:
            self.show(self.progress)
            return
        line, self.progress = self.progress.due_line(every_seconds=self.pace.progress_seconds)
        if line is not None:
            self.log.info("%s: %s", self.order.job.name, line)

    def _say_refusal(self, view: Subscription) -> None:
        if view.refusal is not None and not self.told_of_refusal:
            self.told_of_refusal = True
            every = self.pace.list_seconds
            self.log.warning(
                "Jobs can't be watched, so they are listed every %.0f s: %s", every, view.refusal
            )

    def _say_trouble(self, view: Subscription) -> float:
        if view.trouble is not None:
            self.log.warning("%s", _trouble_note(view.trouble).text)
        return _LONGEST_WAIT_SECONDS  # the watch wakes us

    async def _read_again(self, seen: Seen | None) -> Job | None:
        """Return the Job if it is still there after all, or its last state if that says how it ended.

        A watch by label also loses sight of a Job whose label somebody took away.
        """
        if seen is not None and seen.job is not None:
            if phase_of(seen.job).is_final:
                return seen.job
            self.memory = replace(self.memory, last=seen.job)
        try:
            job = await self.client.get_job(self.order.job.namespace, self.order.job.name)
        except NotFoundError:
            return None
        return job if job.metadata.uid == self.order.job.uid else None

    async def _newer(self) -> Order | None:
        """Return the order for a newer generation of this identity; whether it is ours shows there."""
        order = self.order
        page = await self.client.list_jobs(order.job.namespace, identity_selector(order.identity))
        newest = next(iter(newest_first(page.items)), None)
        if newest is None or (generation := read_marks(newest).generation) <= order.generation:
            return None
        return msgspec.structs.replace(order, job=newest.ref, generation=generation)


def _trouble_note(error: ApiError) -> Note:
    return Note("api", f"The API does not answer, waiting for it: {error}", warning=True)
