"""The decision table, row by row, and that rows above win over rows below."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_batchjob.core.deciding.verdict import judge, judge_vanished
from airflow_batchjob.core.event import Outcome
from airflow_batchjob.core.identity.identity import (
    Again,
    Asked,
    Attach,
    RefuseIncarnation,
    RefuseRerun,
    ReportAgain,
    StopThenNext,
    SubmitFirst,
    SubmitNext,
    TakeResult,
    WaitUntilGone,
    decide,
)
from airflow_batchjob.core.identity.marks import (
    ASSERTED,
    RERUN,
    RESUMES,
    ReportedMark,
    RerunMark,
    ResumesMark,
    read_marks,
)
from airflow_batchjob.core.identity.record import Record
from airflow_batchjob.core.reading.job import Job
from tests.unit.core.made import NOW, complete, condition, failed, job, order, suspended

MET = {"verdict": "met", "try": 1, "retries": 2, "max_tries": 2}
NOT_MET = MET | {"verdict": "not_met"}
DONE: dict[str, Any] = {"completedIndexes": "0-9"}
HALF: dict[str, Any] = {"completedIndexes": "0-4"}


def asked(**fields: Any) -> Asked:
    """Return what try 2 of 3 asks; the Jobs here are held by try 1."""
    return Asked(
        **{"completions": 10, "indexed": True, "holder": "ti/2", "retries": 2, "max_tries": 2, **fields}
    )


RETRY, CLEARED = asked(), asked(max_tries=4)
OF_RUN = asked(incarnation="new")
SAME_TRY = asked(holder="ti/1")
STOP = {"cause": "stopped", "words": "by hand", "at": NOW}
ENDS_NOW = {"activeDeadlineSeconds": 0}

# What is there, what is asked, and what to do.
ROWS: dict[str, tuple[list[Job], Asked, type]] = {
    "none": ([], RETRY, SubmitFirst),
    "being deleted, not yet final": ([job(deleted_at=NOW)], RETRY, WaitUntilGone),
    "ending in failure": ([job(condition("FailureTarget", "FailedIndexes"))], RETRY, WaitUntilGone),
    "ending in success": ([job(condition("SuccessCriteriaMet"))], RETRY, WaitUntilGone),
    "stopped by us, not yet final": ([job(stop=STOP, active=3, spec=ENDS_NOW)], RETRY, WaitUntilGone),
    "stopped by us, and suspended by a queue before it ended": (
        [job(*suspended(), stop=STOP, spec={**ENDS_NOW, "suspend": True}, queue="gpu")],
        RETRY,
        StopThenNext,
    ),
    "a stop that was undone": ([job(stop=STOP, active=3)], RETRY, StopThenNext),
    "a stop that was undone, of another incarnation": (
        [job(stop=STOP, active=3, incarnation="old")],
        asked(incarnation="new"),
        RefuseIncarnation,
    ),
    "ending, of another incarnation": ([job(deleted_at=NOW, incarnation="old")], RETRY, WaitUntilGone),
    "another incarnation, ended": ([job(*complete(), incarnation="old", **DONE)], OF_RUN, SubmitNext),
    "another incarnation, alive": ([job(incarnation="old", active=1)], OF_RUN, RefuseIncarnation),
    "another incarnation and other digests, alive": (
        [job(incarnation="old", digests={"image": "a"})],
        OF_RUN,
        RefuseIncarnation,
    ),
    "of an incarnation, asked while the store does not answer, alive": (
        [job(incarnation="new", active=1)],
        RETRY,
        Attach,
    ),
    "of an incarnation, asked while the store does not answer, met": (
        [job(*complete(), incarnation="new", **DONE)],
        RETRY,
        TakeResult,
    ),
    "made while the store did not answer, alive": ([job(active=1)], OF_RUN, Attach),
    "made while the store did not answer, met": ([job(*complete(), **DONE)], OF_RUN, TakeResult),
    "other digests, alive": ([job(digests={"image": "a"}, active=1)], RETRY, StopThenNext),
    "other digests, suspended": ([job(*suspended(), digests={"image": "a"})], RETRY, StopThenNext),
    "other digests, met and never told": (
        [job(*complete(), digests={"image": "a"}, **DONE)],
        RETRY,
        SubmitNext,
    ),
    "alive": ([job(active=3)], RETRY, Attach),
    "alive, not seen by its controller": ([job()], RETRY, Attach),
    "alive, suspended": ([job(*suspended())], RETRY, Attach),
    "alive, and the user cleared the task": ([job(active=3)], CLEARED, Attach),
    "met, not reported": ([job(*complete(), **DONE)], RETRY, TakeResult),
    "met, not reported, after a clear nobody can tell from a retry": (
        [job(*complete(), **DONE)],
        CLEARED,
        TakeResult,
    ),
    "met, reported, a retry": ([job(*complete(), reported=MET, **DONE)], RETRY, TakeResult),
    "met, reported, the same try": ([job(*complete(), reported=MET, **DONE)], SAME_TRY, TakeResult),
    "met, reported, cleared": ([job(*complete(), reported=MET, **DONE)], CLEARED, SubmitNext),
    "met, reported, cleared with edited retries whose sum agrees": (
        [job(*complete(), reported=MET | {"retries": 1}, **DONE)],
        RETRY,
        SubmitNext,
    ),
    "met now, reported as not met under a higher threshold": (
        [job(*failed("FailedIndexes"), reported=NOT_MET, **HALF)],
        asked(min_succeeded=5),
        TakeResult,
    ),
    "met and being deleted: its end still counts": (
        [job(*complete(), deleted_at=NOW, **DONE)],
        RETRY,
        TakeResult,
    ),
    "not met, under this very try": ([job(*failed("FailedIndexes"), **HALF)], SAME_TRY, ReportAgain),
    "not met, this very try, after waiting for it": (
        [job(*failed("FailedIndexes"), **HALF)],
        asked(holder="ti/1", waited=True),
        SubmitNext,
    ),
    "not met, left by an earlier try": ([job(*failed("FailedIndexes"), **HALF)], RETRY, SubmitNext),
    "not met, and the user cleared it": (
        [job(*failed("FailedIndexes"), reported=NOT_MET, **HALF)],
        CLEARED,
        SubmitNext,
    ),
    "the newest of several decides": ([job(*complete(), **DONE), job(generation=1, active=1)], RETRY, Attach),
    "the newest of several, in any order": (
        [job(generation=10, active=1), job(*complete(), generation=9, **DONE)],
        RETRY,
        Attach,
    ),
}


@pytest.mark.parametrize(("jobs", "wants", "want"), ROWS.values(), ids=ROWS.keys())
def test_row(jobs: list[Job], wants: Asked, want: type) -> None:
    assert type(decide(jobs, wants)) is want


RESUMING = {
    "a retry resumes": (RETRY, True),
    "a retry with on_retry=all runs everything": (asked(on_retry=Again.ALL), False),
    "on_clear says nothing about a retry": (asked(on_clear=Again.REST), True),
    "a clear with on_clear=rest resumes": (asked(max_tries=4, on_clear=Again.REST), True),
    "a clear with on_clear=all runs everything": (asked(max_tries=4, on_clear=Again.ALL), False),
}


@pytest.mark.parametrize(("wants", "want_resume"), RESUMING.values(), ids=RESUMING.keys())
def test_what_was_not_met_is_resumed_where_that_was_asked(wants: Asked, want_resume: bool) -> None:
    found = decide([job(*failed("FailedIndexes"), reported=NOT_MET, generation=3, **HALF)], wants)

    assert isinstance(found, SubmitNext)
    assert found.generation == 4
    assert (found.resume_from is not None) == want_resume
    assert found.resume_from is None or found.resume_from.uid == "uid-1"


def test_other_digests_are_named() -> None:
    found = decide(
        [job(digests={"image": "a", "env": "e"})], asked(digests={"image": "b", "env": "e", "command": "c"})
    )

    assert isinstance(found, StopThenNext)
    assert found.reason.startswith("command, image changed")


def record(
    outcome: str, *, reported: ReportedMark | None = None, digests: dict[str, str] | None = None
) -> Record:
    ended = job(*complete(), **DONE) if outcome == "met" else job(*failed("FailedIndexes"), **HALF)
    return Record(
        name="embed",
        uid="uid-9",
        generation=2,
        digests=digests or {},
        verdict=judge(ended, order()),
        reported=reported,
    )


TOLD = ReportedMark(verdict="met", try_number=1, retries=2, max_tries=2)
STORED = {
    "met and reported, a retry": (record("met", reported=TOLD), RETRY, TakeResult),
    "met and reported, cleared": (record("met", reported=TOLD), CLEARED, SubmitNext),
    "not met, the same digests": (record("not_met"), RETRY, SubmitNext),
    "met, other digests": (record("met", reported=TOLD, digests={"image": "a"}), RETRY, SubmitNext),
}


@pytest.mark.parametrize(("kept", "wants", "want"), STORED.values(), ids=STORED.keys())
def test_the_store_stands_in_for_a_job_that_is_gone(kept: Record, wants: Asked, want: type) -> None:
    found = decide([], wants, kept)

    assert type(found) is want
    if isinstance(found, SubmitNext):
        assert found.generation == 3


def test_what_the_store_knows_to_be_done_is_resumed_from_it() -> None:
    found = decide([], RETRY, record("not_met"))

    assert isinstance(found, SubmitNext)
    assert found.resume_from is not None
    assert found.resume_from.completed == "0-4"


def test_a_job_that_is_there_outweighs_the_store() -> None:
    assert isinstance(decide([job(active=1)], RETRY, record("met", reported=TOLD)), Attach)


def record_of_next(ended: Job | None, *, told: dict[str, Any] | None = None, **fields: Any) -> Record:
    """Return the record of generation 1, whose Job is gone; `ended` None: nobody ever saw it."""
    verdict = judge_vanished(None, order(generation=1)) if ended is None else judge(ended, order())
    reported = msgspec.convert({**(told or NOT_MET), "try": 2}, ReportedMark)
    return Record(
        name="embed", uid="uid-2", generation=1, digests={}, verdict=verdict, reported=reported, **fields
    )


GEN_0 = job(*failed("FailedIndexes"), reported=NOT_MET, **HALF)
GEN_0_MET = job(*complete(), reported=MET, **DONE)
MOST = job(*failed("FailedIndexes"), completedIndexes="0-7", uid="uid-2", generation=1)
UNTOLD = job(*failed("DeadlineExceeded"), uid="uid-2", generation=1)
SECOND_MET = job(*complete(), uid="uid-2", generation=1, **DONE)
AFTER = asked(holder="ti/3")
CLEARED_REST = asked(max_tries=4, on_clear=Again.REST)
OTHER_WORK = job(*failed("FailedIndexes"), digests={"image": "a"}, **HALF)

# The newest Job that is left, the record of the one after it, what is asked, and what is kept:
# None: no new generation, "": nothing is kept.
OUTLIVED: dict[str, tuple[Job, Record, Asked, str | None]] = {
    "met, a retry: its result is taken": (GEN_0, record_of_next(SECOND_MET, told=MET), AFTER, None),
    "met, cleared: everything runs": (GEN_0, record_of_next(SECOND_MET, told=MET), CLEARED_REST, ""),
    "not met: what it had done stands": (GEN_0, record_of_next(MOST), AFTER, "0-7"),
    "ended before it was told: what the older one had done stands": (
        GEN_0,
        record_of_next(UNTOLD),
        AFTER,
        "0-4",
    ),
    "never seen: what the older one had done stands": (GEN_0, record_of_next(None), AFTER, "0-4"),
    "never seen, made by a clear: nothing of before stands": (
        GEN_0_MET,
        record_of_next(None, told=NOT_MET | {"max_tries": 4}),
        asked(holder="ti/3", max_tries=4),
        "",
    ),
    "never seen, made by a clear that kept the rest": (
        GEN_0,
        record_of_next(None, told=NOT_MET | {"max_tries": 4}),
        CLEARED_REST,
        "0-4",
    ),
    "ended before it was told, and the older one did other work": (
        OTHER_WORK,
        record_of_next(UNTOLD),
        AFTER,
        "",
    ),
}


@pytest.mark.parametrize(("left", "kept", "wants", "want"), OUTLIVED.values(), ids=OUTLIVED.keys())
def test_an_older_generation_does_not_speak_for_a_newer_one_that_is_gone(
    left: Job, kept: Record, wants: Asked, want: str | None
) -> None:
    found = decide([left], wants, kept)

    if want is None:
        assert isinstance(found, TakeResult)
        return
    assert isinstance(found, SubmitNext)
    assert found.generation == 2
    assert (found.resume_from.completed if found.resume_from else "") == want


def test_a_request_on_the_job_that_is_left_wins_all_the_same() -> None:
    found = decide([with_request(half())], CLEARED, record_of_next(MOST))

    assert isinstance(found, SubmitNext)
    assert found.resume_from is not None
    assert found.resume_from.asked == "5"


states = st.sampled_from(
    [
        (),
        tuple(complete()),
        tuple(failed("FailedIndexes")),
        tuple(suspended()),
        (condition("FailureTarget", "FailedIndexes"),),
    ]
)


@given(
    conditions=states,
    done=st.sampled_from(["", "0-4", "0-9"]),
    same_work=st.booleans(),
    same_run=st.booleans(),
    cleared=st.booleans(),
    reported=st.sampled_from([None, MET, NOT_MET]),
)
def test_laws(
    conditions: tuple[Any, ...],
    done: str,
    same_work: bool,
    same_run: bool,
    cleared: bool,
    reported: dict[str, Any] | None,
) -> None:
    marks: dict[str, Any] = {} if reported is None else {"reported": reported}
    found = job(
        *conditions,
        completedIndexes=done,
        digests={} if same_work else {"image": "a"},
        incarnation="new" if same_run else "old",
        generation=5,
        **marks,
    )
    is_final = any(c["type"] in {"Complete", "Failed"} for c in conditions)

    decision = decide([found], asked(incarnation="new", max_tries=4 if cleared else 2))

    match decision:
        case SubmitFirst():
            pytest.fail("there is a Job: a second generation 0 would clash")
        case SubmitNext(generation=generation):
            assert is_final, "nothing new while the old one may run"
            assert generation == 6
        case Attach() | StopThenNext() | RefuseIncarnation():
            assert not is_final
        case TakeResult(verdict):
            assert verdict.outcome is Outcome.MET
            assert same_work
            assert same_run
        case ReportAgain():
            pytest.fail("it was held by another try")
        case WaitUntilGone():
            assert not is_final
    assert read_marks(found).generation == 5


def with_request(found: Job, words: str = "failed") -> Job:
    found.metadata.annotations[RERUN] = RerunMark(indexes=words, by="ada").to_text()
    return found


def half(**fields: Any) -> Job:
    return job(*failed("FailedIndexes"), completedIndexes="0-4", failedIndexes="5", **fields)


REQUESTS: dict[str, tuple[Job, Asked, type]] = {
    "not met": (with_request(half()), RETRY, SubmitNext),
    "not met, under this very try": (with_request(half()), SAME_TRY, SubmitNext),
    "met": (with_request(job(*complete(), **DONE), "3"), CLEARED, SubmitNext),
    "other digests": (with_request(half(digests={"image": "a"})), CLEARED, SubmitNext),
    "alive: the table decides": (with_request(job(active=1)), CLEARED, Attach),
    "ending: it is waited for": (with_request(job(deleted_at=NOW)), CLEARED, WaitUntilGone),
    "other completions": (with_request(half()), asked(completions=12), RefuseRerun),
    "not indexed any more": (with_request(half()), asked(indexed=False), RefuseRerun),
    "none failed": (with_request(job(*complete(), **DONE)), CLEARED, RefuseRerun),
    "no index": (with_request(half(), "10"), CLEARED, RefuseRerun),
}


@pytest.mark.parametrize(("found", "wants", "want"), REQUESTS.values(), ids=REQUESTS.keys())
def test_a_request_for_indexes_wins_over_the_table(found: Job, wants: Asked, want: type) -> None:
    decision = decide([found], wants)

    assert type(decision) is want
    if isinstance(decision, SubmitNext):
        assert decision.resume_from is not None
        assert decision.resume_from.asked in {"5", "3"}


def test_but_not_for_another_incarnation_which_runs_everything() -> None:
    found = decide([with_request(half(incarnation="old"))], OF_RUN)

    assert isinstance(found, SubmitNext)
    assert found.resume_from is None


REPEATS = {
    "a retry goes on with it": (RETRY, "6"),
    "a retry with on_retry=all runs it all": (asked(on_retry=Again.ALL), "5,6"),
    "a clear runs all that is not done": (asked(max_tries=4, on_clear=Again.REST), None),
}


@pytest.mark.parametrize(("wants", "want"), REPEATS.values(), ids=REPEATS.keys())
def test_a_request_that_was_not_met(wants: Asked, want: str | None) -> None:
    ran = job(*failed("FailedIndexes"), completedIndexes="0-5,7-9", failedIndexes="6", reported=NOT_MET)
    mark = ResumesMark(name="embed", uid="uid-0", asked="5,6")
    ran.metadata.annotations.update({RESUMES: mark.to_text(), ASSERTED: "7-9"})

    found = decide([ran], wants)

    assert isinstance(found, SubmitNext)
    assert found.resume_from is not None
    assert found.resume_from.asked == want


def test_a_job_that_is_not_indexed_is_never_resumed() -> None:
    found = decide([half()], asked(indexed=False))

    assert isinstance(found, SubmitNext)
    assert found.resume_from is None
