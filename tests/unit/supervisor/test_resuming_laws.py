"""Whatever happens in whatever order, and wherever a process dies: one living Job, and nothing done twice."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_batchjob.client.protocol import EventType
from airflow_batchjob.core.deciding.verdict import judge
from airflow_batchjob.core.errors import ApiError
from airflow_batchjob.core.event import Order, Outcome
from airflow_batchjob.core.identity.identity import Again, newest_first
from airflow_batchjob.core.identity.marks import DIGESTS, read_marks
from airflow_batchjob.core.indexes import IndexSet
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.status import read_status
from airflow_batchjob.core.request.budget import Thresholds
from airflow_batchjob.supervisor.conclude import conclude
from airflow_batchjob.supervisor.request import Request
from airflow_batchjob.supervisor.stopping import stop
from airflow_batchjob.supervisor.submit import submit
from tests.unit.supervisor.small_cluster import SmallCluster, _as_job, patched
from tests.unit.supervisor.test_submit import manifest, request
from tests.unit.supervisor.virtual import VirtualLoop, clock

LOG = logging.getLogger("test")
COMPLETIONS = 4
DIES_AT = st.sampled_from([None, None, 1, 2, 3, 4, 5, 6])
GOAL = Thresholds(completions=COMPLETIONS, indexed=True)

MEANWHILE = ["nothing", "works", "fails", "touches", "pauses", "resumes", "dies off", "repeats"]
NEXT = ["retry", "retry", "same try", "clear", "edit", "kill", "conclude", "twice", "two tries at once"]


class DiedError(BaseException):
    """The process is gone."""


class Living(SmallCluster):
    """A small cluster in which something may happen before each answer, with the laws as assertions."""

    def __init__(self, data: st.DataObject) -> None:
        super().__init__()
        self.data = data
        self.standing: set[int] = set()  # done, under the newest digests, and nobody asked for it again
        self.paused: set[str] = set()
        self.asking = 0
        self.dies_at: int | None = None
        self.sent: list[tuple[str, Any]] = []  # patches, by the Job's name
        self.slow_to_die = True

    async def _ask(self, method: str) -> None:
        await super()._ask(method)
        self.happen(self.data.draw(st.sampled_from(MEANWHILE), label=method))
        self.asking += 1
        if self.dies_at is not None and self.asking >= self.dies_at:
            raise DiedError

    async def patch_job(self, namespace: str, name: str, operations: Sequence[Mapping[str, Any]]) -> Job:
        done = await super().patch_job(namespace, name, operations)
        self.sent.append((name, operations))
        return done

    async def patch_job_status(
        self, namespace: str, name: str, operations: Sequence[Mapping[str, Any]]
    ) -> Job:
        done = await super().patch_job_status(namespace, name, operations)
        self.sent.append((name, operations))
        return done

    def put(self, made: Mapping[str, Any]) -> Job:
        self.check_creation(made)
        job = super().put(made)
        self.check()
        return job

    def all_jobs(self) -> list[Job]:
        return newest_first([_as_job(found) for found in self.objects.values()])

    def check_creation(self, made: Mapping[str, Any]) -> None:
        annotations = made["metadata"]["annotations"]
        if "airflow-batchjob/resumes" in annotations:
            return
        earlier = next(iter(self.all_jobs()), None)
        if earlier is not None and read_marks(earlier).digests == json.loads(annotations[DIGESTS]):
            was_met = judge(earlier, GOAL).outcome is Outcome.MET
            assert was_met or not self.standing, f"{self.standing} were done, and everything runs again"
        self.standing.clear()

    def check(self) -> None:
        living = [job.metadata.name for job in self.all_jobs() if not read_status(job).phase.is_final]
        assert len(living) <= 1, f"two Jobs of one task: {living}"
        for name in self.paused:
            job = self.job(name)
            stopped = job["spec"].get("activeDeadlineSeconds") == 0
            assert job["spec"]["suspend"] or stopped, f"somebody's pause of {name} was undone"

    # What Kubernetes and people do

    def happen(self, what: str) -> None:
        job = next((job for job in self.all_jobs() if not read_status(job).phase.is_final), None)
        if job is None:
            return
        name, phase, preparing = job.metadata.name, read_status(job).phase.value, read_marks(job).is_preparing
        if what == "dies off" and phase == "stopping":
            self.end(name, "Failed", "DeadlineExceeded")
        elif what == "repeats" and self.sent:  # an answer was lost, and a proxy asks again
            name, operations = self.data.draw(st.sampled_from(self.sent[-4:]), label="repeats")
            with suppress(ApiError):
                self._store(patched(self.job(name), operations), EventType.MODIFIED)
                self._let_die(name)
        elif what == "touches":  # as the controller does with a new Job
            self.update(name, observed=self._version)
        elif what == "pauses" and not job.spec.suspend:
            self.paused.add(name)
            self.suspend(name)
        elif what == "resumes" and not preparing and job.spec.suspend and phase != "stopping":
            self.paused.discard(name)
            self.resume(name)
        elif what in {"works", "fails"} and not job.spec.suspend and phase != "stopping":
            self.work(job, succeeds=what == "works")
        self.check()

    def work(self, job: Job, *, succeeds: bool) -> None:
        """Run the first index that is left."""
        name = job.metadata.name
        done = IndexSet.parse(job.status.completed_indexes)
        failed = IndexSet.parse(job.status.failed_indexes)
        left = IndexSet.full(COMPLETIONS) - done - failed
        if left:
            index = next(iter(left))
            assert index not in self.standing, f"index {index} was done, and ran again in {name}"
            if succeeds:
                done |= IndexSet.of([index])
                self.standing.add(index)
            else:
                failed |= IndexSet.of([index])
            self.update(name, completedIndexes=str(done), failedIndexes=str(failed), succeeded=len(done))
            left -= IndexSet.of([index])
        if not left:
            self.paused.discard(name)
            self.end(name, "Failed" if failed else "Complete", "")


class Task:
    """A task of an Airflow that starts it again and again, and whose processes may die."""

    def __init__(self, cluster: Living, data: st.DataObject) -> None:
        self.cluster, self.data = cluster, data
        self.number, self.max_tries, self.image = 0, 2, "embed:1"
        self.order: Order | None = None

    def asked(self) -> Request:
        return request(
            self.number,
            manifest=manifest(image=self.image, completions=COMPLETIONS),
            max_tries=self.max_tries,
            on_clear=Again.REST,
        )

    async def do(self, what: str) -> None:
        living = [job for job in self.cluster.all_jobs() if not read_status(job).phase.is_final]
        if what == "kill" and living:
            await self.dying(self.stop, living[0])
        elif what == "conclude" and self.order is not None:
            await self.dying(self.conclude, self.order)
        else:
            await self.start(what)

    async def start(self, what: str) -> None:
        before = self.asked()
        self.number += what != "same try" or self.number == 0
        if what == "clear":
            self.max_tries = self.number + 2
        if what == "edit":
            self.image = f"embed:{self.number}"
        starts = [self.asked()]
        if what == "twice":
            starts *= 2
        if what == "two tries at once":
            starts.append(before)
        await asyncio.gather(*(self.dying(self.submit, asked) for asked in starts))

    async def submit(self, asked: Request) -> None:
        answer = await submit(self.cluster, asked, log=LOG, clock=clock)
        if isinstance(answer, Order):
            self.order = answer

    async def conclude(self, order: Order) -> None:
        job = await self.cluster.get_job(order.job.namespace, order.job.name)
        if read_status(job).phase.is_final:
            await conclude(self.cluster, order, judge(job, order), log=LOG)

    async def stop(self, job: Job) -> None:
        holder = read_marks(job).holder
        await stop(self.cluster, job.ref, holder=holder, reason="no", clock=clock)

    async def dying(self, what: Callable[[Any], Awaitable[None]], given: Any) -> None:
        self.cluster.asking = 0
        self.cluster.dies_at = self.data.draw(DIES_AT, label="dies at")
        try:
            await what(given)
        except (DiedError, ApiError):
            pass
        finally:
            self.cluster.dies_at = None


@pytest.mark.timeout(600)  # a case that fails is made small first
@settings(max_examples=300, deadline=None)
@given(data=st.data(), plan=st.lists(st.sampled_from(NEXT), min_size=3, max_size=8))
def test_one_living_job_and_nothing_done_twice(data: st.DataObject, plan: list[str]) -> None:
    async def live() -> None:
        task = Task(cluster, data)
        await task.start("first")
        for what in plan:
            await task.do(what)
            for _ in range(data.draw(st.integers(0, 5), label="how much happens")):
                cluster.happen(data.draw(st.sampled_from(MEANWHILE)))

    cluster = Living(data)
    loop = VirtualLoop()
    try:
        loop.run_until_complete(live())
    finally:
        loop.close()
