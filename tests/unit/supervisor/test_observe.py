"""A wait for someone else's Job ends when it is met, or when nothing can meet it any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from airflow_batchjob.core.errors import OutcomeUnknownError, SpecError
from airflow_batchjob.core.event import Outcome
from airflow_batchjob.core.identity.marks import (
    GENERATION,
    IDENTITY,
    MANAGED_BY,
    OURS,
    REPORTED,
    ReportedMark,
)
from airflow_batchjob.core.reading.job import Condition, Job, JobFields, JobStatusFields, Metadata
from airflow_batchjob.supervisor.observe import Aim, Observation, newest, observe, settled

COMPLETE = (Condition(type="Complete", status="True"),)
FAILED = (Condition(type="Failed", status="True", reason="FailedIndexes"),)
NOT_FAILED = (Condition(type="Failed", status="False"),)


def job(generation: int = 0, *, reported: str = "", completions: int | None = 10, **status: Any) -> Job:
    annotations = {}
    if reported:
        mark = ReportedMark(verdict=reported, try_number=1, retries=0, max_tries=0)
        annotations[REPORTED] = mark.to_text()
    conditions = list(status.pop("conditions", ()))
    return Job(
        metadata=Metadata(
            name=f"j{generation}",
            uid=f"u{generation}",
            labels={MANAGED_BY: OURS, IDENTITY: "abc", GENERATION: str(generation)},
            annotations=annotations,
        ),
        spec=JobFields(completions=completions, completion_mode="Indexed" if completions else "NonIndexed"),
        status=JobStatusFields(conditions=conditions, **status),
    )


@dataclass
class Owner:
    """A task that is final or not, and what it returned."""

    final: bool = False
    told: Mapping[str, Any] | None = None
    asked: list[Job | None] = field(default_factory=list)

    async def is_final(self, job: Job | None) -> bool:
        self.asked.append(job)
        return self.final

    async def result(self) -> Mapping[str, Any] | None:
        return self.told


async def look(aim: Aim, owner: Owner, *jobs: Job, then: Sequence[Job] | None = None) -> Observation | None:
    async def fresh() -> Sequence[Job]:
        return jobs if then is None else then

    return await settled(jobs, fresh, aim, owner)


RUNNING = {"active": 3, "ready": 3, "completed_indexes": "0-4", "failed_indexes": "7"}
MET, WAIT, MISSED = True, None, False

CASES: dict[str, tuple[Aim, Job, bool, bool | None]] = {
    "started: a pod is ready": (Aim(until="started"), job(active=2, ready=1), False, MET),
    "started: pods that only wait for a machine": (Aim(until="started"), job(active=2, ready=0), False, WAIT),
    "started: a controller that does not count ready pods": (Aim(until="started"), job(active=2), False, MET),
    "started: it has ended already": (Aim(until="started"), job(conditions=FAILED), False, MET),
    "ended: it runs": (Aim(), job(**RUNNING), True, WAIT),
    "ended: a condition that does not hold": (Aim(), job(conditions=NOT_FAILED), True, WAIT),
    "ended: complete": (Aim(), job(conditions=COMPLETE, completed_indexes="0-9"), False, MET),
    "ended: failed, and its task may try again": (Aim(), job(conditions=FAILED), False, WAIT),
    "ended: failed, and its task is final": (Aim(), job(conditions=FAILED), True, MET),
    "ended: failed, but reported as met": (
        Aim(),
        job(conditions=FAILED, reported="met", completed_indexes="0-8"),
        True,
        MET,
    ),
    "ended: reported as met, and its task was cleared": (
        Aim(),
        job(conditions=COMPLETE, reported="met", completed_indexes="0-9"),
        False,
        WAIT,
    ),
    "half: reached by what was reported before its task was cleared": (
        Aim(until="50%"),
        job(conditions=FAILED, reported="not_met", completed_indexes="0-5"),
        False,
        WAIT,
    ),
    "half: reached by what was reported, and its task is final": (
        Aim(until="50%"),
        job(conditions=FAILED, reported="not_met", completed_indexes="0-5"),
        True,
        MET,
    ),
    "too many had failed before its task was cleared": (
        Aim(until="100%", max_failed=0),
        job(conditions=FAILED, reported="not_met", failed_indexes="7"),
        False,
        WAIT,
    ),
    "started: reported before its task was cleared": (
        Aim(until="started"),
        job(conditions=FAILED, reported="not_met"),
        False,
        WAIT,
    ),
    "half: reached while it runs": (Aim(until="50%"), job(**RUNNING), False, MET),
    "half: rounded up": (Aim(until="51%"), job(**RUNNING), False, WAIT),
    "a count, as Jinja renders it": (Aim(until="5"), job(**RUNNING), False, MET),
    "more than it reached, and its task is final": (
        Aim(until=6),
        job(conditions=FAILED, completed_indexes="0-4"),
        True,
        MISSED,
    ),
    "more than it reached, and its task may try again": (
        Aim(until=6),
        job(conditions=FAILED, completed_indexes="0-4"),
        False,
        WAIT,
    ),
    "too many failed": (Aim(until="100%", max_failed=0), job(**RUNNING), False, MISSED),
    "as many failed as may": (Aim(until="100%", max_failed="10%"), job(**RUNNING), False, WAIT),
}


@pytest.mark.parametrize(("aim", "seen", "final", "want"), CASES.values(), ids=CASES.keys())
async def test_ends_when_it_must(aim, seen, final, want):
    found = await look(aim, Owner(final), seen)

    assert (found.met if found else None) is want


async def test_follows_the_newest_generation():
    assert newest([job(1), job(3), job(2)]).metadata.name == "j3"


async def test_a_generation_that_came_while_airflow_was_asked_is_not_missed():
    old = job(0, conditions=FAILED, completed_indexes="0-4")
    new = job(1, conditions=COMPLETE, completed_indexes="0-9")

    found = await look(Aim(until="100%"), Owner(final=True), old, then=[old, new])

    assert found.met
    assert found.verdict.generation == 1


async def test_a_miss_says_what_was_reached_and_needed():
    found = await look(Aim(until="60%"), Owner(final=True), job(conditions=FAILED, completed_indexes="0-4"))

    assert "5 succeeded, 6 needed" in found.why
    assert found.verdict.outcome is Outcome.NOT_MET
    assert (found.verdict.succeeded_indexes, found.verdict.not_run_indexes) == ("0-4", "5-9")


async def test_airflow_is_asked_only_where_it_matters():
    owner = Owner()
    await look(Aim(until="50%"), owner, job(**RUNNING))
    await look(Aim(until="90%"), owner, job(**RUNNING))

    assert owner.asked == []


async def test_waits_where_there_is_no_job_yet():
    assert await look(Aim(), Owner(final=False)) is None


TOLD = {
    "enough": (Aim(until="50%"), {"succeeded": 5, "completions": 10}, True),
    "too few": (Aim(until="60%"), {"succeeded": 5, "completions": 10}, False),
    "it ended": (Aim(), {"succeeded": 0, "completions": 10}, True),
}


@pytest.mark.parametrize(("aim", "told", "want"), TOLD.values(), ids=TOLD.keys())
async def test_judges_by_what_the_task_returned_where_its_job_is_gone(aim, told, want):
    found = await look(aim, Owner(final=True, told=told))

    assert (found.met, found.told) == (want, told)


async def test_no_job_and_no_result_of_a_final_task_is_an_error():
    with pytest.raises(OutcomeUnknownError, match="returned no counts"):
        await look(Aim(), Owner(final=True))


async def test_a_percentage_of_a_work_queue_is_an_error():
    with pytest.raises(SpecError, match=r"until='50%'.*no completions"):
        await look(Aim(until="50%"), Owner(), job(completions=None, active=1))


async def test_waits_through_looks_until_one_settles_it():
    async def looks():
        yield ()
        yield (job(**RUNNING),)
        yield (job(conditions=COMPLETE, completed_indexes="0-9"),)

    async def fresh():
        return ()

    assert (await observe(looks(), fresh, Aim(), Owner())).met


async def test_a_job_that_vanishes_is_asked_about_as_it_was_seen_last():
    async def looks():
        yield (job(**RUNNING),)
        yield ()

    async def fresh():
        return ()

    owner = Owner(final=True)
    with pytest.raises(OutcomeUnknownError):
        await observe(looks(), fresh, Aim(), owner)
    assert owner.asked[0].metadata.name == "j0"


def test_an_observation_survives_json():
    seen = Observation(met=False, why="x", told={"succeeded": 1})
    assert msgspec.convert(msgspec.to_builtins(seen), Observation) == seen


BAD = {
    "a word": Aim(until="soon"),
    "more than all": Aim(until="101%"),
    "less than none": Aim(max_failed=-1),
}


@pytest.mark.parametrize("aim", BAD.values(), ids=BAD.keys())
def test_refuses_an_aim_that_makes_no_sense(aim):
    assert aim.problems()
