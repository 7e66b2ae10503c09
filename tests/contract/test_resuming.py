"""A follow-up Job is told what is done, and a suspended Job goes on elsewhere. R1 to R6, R14, R15."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from tests.contract.asking import Asker, Object, indexed
from tests.contract.living import (
    LASTS,
    SUCCEEDS,
    conditions,
    ended,
    index_of,
    is_leaving,
    none_left,
    pods_of,
    ready,
    runs,
    until,
)

NOWHERE = {"nodeSelector": {"nowhere": "at-all"}}


def told(api: Asker, status: Object, **spec: object) -> Object:
    """Create a suspended Job of ten, and tell it what is done; return the answer."""
    api.have_job(indexed(completions=10, parallelism=10, suspend=True, pod=runs(*SUCCEEDS), **spec))
    answer = api.merge(api.jobs("j", "status"), {"status": status})
    return {"code": answer.code, "causes": answer.causes if answer.code == 422 else None, "body": answer.body}


def resume(api: Asker, **spec: object) -> Object:
    answer = api.merge(api.jobs("j"), {"spec": {"suspend": False, **spec}})
    assert answer.code == 200, answer.body
    resumed: Object = answer.body
    return resumed


def test_r1_only_what_is_not_done_runs(api: Asker) -> None:
    told(api, {"completedIndexes": "0-2,5-8", "succeeded": 7})
    resume(api)

    job = ended(api)

    assert {index_of(pod) for pod in pods_of(api)} == {3, 4, 9}
    assert (job["status"]["completedIndexes"], job["status"]["succeeded"]) == ("0-9", 10)
    assert conditions(job)[-1] == ("Complete", "CompletionsReached")


@pytest.mark.parametrize("attempt", range(5))
def test_r2_right_after_creation_it_works_as_well(api: Asker, attempt: int) -> None:
    told(api, {"completedIndexes": "1-9"})
    resume(api)

    job = ended(api)

    assert {index_of(pod) for pod in pods_of(api)} == {0}
    assert (job["status"]["completedIndexes"], job["status"]["succeeded"]) == ("0-9", 10)


def test_r3_the_count_is_filled_in_for_the_ranges_alone(api: Asker) -> None:
    """Not as described: the controller writes the pair "0-1" as "0,1"."""
    told(api, {"completedIndexes": "0-1"})

    job = until(api, lambda job: job["status"].get("succeeded") == 2)

    assert job["status"]["completedIndexes"] == "0,1"


def test_r3_an_index_that_is_not_there_is_refused_in_words(api: Asker) -> None:
    answer = told(api, {"completedIndexes": "0,10"})

    assert answer["code"] == 422
    [cause] = [
        one for one in answer["body"]["details"]["causes"] if one["field"] == "status.completedIndexes"
    ]
    assert cause["message"].endswith('error parsing completedIndexes: too large index: "10"')


def test_r3_an_index_both_done_and_failed_is_refused_in_words(api: Asker) -> None:
    answer = told(api, {"completedIndexes": "0-3", "failedIndexes": "2"}, backoffLimitPerIndex=0)

    assert answer["code"] == 422
    [cause] = answer["body"]["details"]["causes"]
    assert cause["message"].endswith("failedIndexes and completedIndexes overlap at index: 2")


def test_what_is_told_as_failed_is_not_run_and_fails_the_job_in_the_end(api: Asker) -> None:
    told(api, {"completedIndexes": "0-7", "failedIndexes": "8"}, backoffLimitPerIndex=0)
    resume(api)

    job = ended(api)

    assert {index_of(pod) for pod in pods_of(api)} == {9}
    assert (job["status"]["completedIndexes"], job["status"]["failedIndexes"]) == ("0-7,9", "8")
    assert conditions(job)[-1] == ("Failed", "FailedIndexes")


def test_a_job_that_is_told_that_all_is_done_runs_nothing(api: Asker) -> None:
    told(api, {"completedIndexes": "0-9"})
    resume(api)

    job = ended(api)

    assert pods_of(api) == []
    assert conditions(job)[-1] == ("Complete", "CompletionsReached")


def test_r4_what_a_suspension_kills_is_not_counted_and_runs_again(api: Asker) -> None:
    command = runs(
        "sh",
        "-c",
        "[ $JOB_COMPLETION_INDEX = 0 ] && exit 0; trap 'exit 143' TERM; while :; do sleep 0.1; done",
    )
    api.have_job(indexed(completions=3, parallelism=3, backoffLimitPerIndex=0, pod=command))
    until(api, lambda job: job["status"].get("completedIndexes") == "0" and ready(2)(job))

    api.merge(api.jobs("j"), {"spec": {"suspend": True}})
    suspended = until(api, none_left)
    before = {pod["metadata"]["uid"] for pod in pods_of(api)}
    resume(api)
    again = until(api, ready(2))

    for job in (suspended, again):
        assert job["status"]["failedIndexes"] == ""
        assert job["status"]["completedIndexes"] == "0"
        assert "failed" not in job["status"]
    ran = [pod for pod in pods_of(api) if pod["metadata"]["uid"] not in before and not is_leaving(pod)]
    assert {index_of(pod) for pod in ran} == {1, 2}


def suspended_while_it_ran(api: Asker) -> Object:
    api.have_job(indexed(completions=2, parallelism=2, pod=runs(*LASTS, **NOWHERE)))
    until(api, lambda job: job["status"].get("active") == 2)
    api.merge(api.jobs("j"), {"spec": {"suspend": True}})
    return until(api, none_left)


def test_74_and_r5_the_place_of_a_job_that_ran_changes_while_it_is_suspended_since_1_36(api: Asker) -> None:
    """By version: before 1.36 another place for a Job that has run is refused with 422 at spec.template."""
    suspended_while_it_ran(api)
    change = {
        "suspend": False,
        "template": {"spec": {"nodeSelector": None, "tolerations": [{"operator": "Exists"}]}},
    }

    answer = api.merge(api.jobs("j"), {"spec": change})

    if api.minor >= 36:
        assert answer.code == 200, answer.body
        until(api, ready(2))
    else:
        assert (answer.code, answer.causes) == (422, {("spec.template", "Invalid")})


def test_r6_before_1_36_it_changes_once_the_start_is_taken_back(api: Asker) -> None:
    """By version: since 1.36 the start is gone anyway, and taking it back changes nothing."""
    suspended_while_it_ran(api)
    api.merge(api.jobs("j", "status"), {"status": {"startTime": None}})
    change = {
        "suspend": False,
        "template": {"spec": {"nodeSelector": None}, "metadata": {"labels": {"a": "b"}}},
    }

    answer = api.merge(api.jobs("j"), {"spec": change})

    assert answer.code == 200, answer.body
    until(api, ready(2))
    assert [pod["metadata"]["labels"]["a"] for pod in pods_of(api) if not is_leaving(pod)] == ["b", "b"]


def test_69_a_suspension_takes_the_start_away_since_1_36(api: Asker) -> None:
    """By version: before 1.36 the start stays."""
    job = suspended_while_it_ran(api)

    assert ("startTime" in job["status"]) == (api.minor < 36)


@pytest.mark.parametrize("completions", [10_000, 100_000])
def test_r15_every_second_index_of_many_is_done(api: Asker, completions: int) -> None:
    done = ",".join(str(index) for index in range(0, completions, 2))
    api.have_job(indexed(completions=completions, parallelism=2, suspend=True, pod=runs(*LASTS, **NOWHERE)))

    answer = api.merge(api.jobs("j", "status"), {"status": {"completedIndexes": done}})
    assert answer.code == 200, answer.body
    resume(api)
    job = until(api, lambda job: job["status"].get("active") == 2)

    assert {index_of(pod) for pod in pods_of(api)} == {1, 3}
    assert job["status"]["completedIndexes"] == done
    assert job["status"]["succeeded"] == completions // 2


def test_70_a_resumed_job_starts_anew_for_its_deadline(api: Asker) -> None:
    api.have_job(indexed(completions=1, activeDeadlineSeconds=8, pod=runs(*LASTS)))
    first = until(api, ready(1))
    api.eventually(lambda: _seconds_since(first["status"]["startTime"]) >= 5)

    api.merge(api.jobs("j"), {"spec": {"suspend": True}})
    until(api, none_left)
    resume(api)
    job = until(api, ready(1))
    api.eventually(lambda: _seconds_since(first["status"]["startTime"]) >= 10)

    assert job["status"]["startTime"] > first["status"]["startTime"]
    assert conditions(api.ask("GET", api.jobs("j")).body) == []
    over = ended(api)
    assert conditions(over)[-1] == ("Failed", "DeadlineExceeded")
    [decided] = [one for one in over["status"]["conditions"] if one["type"] == "FailureTarget"]
    began, end = (
        datetime.fromisoformat(at.replace("Z", "+00:00"))
        for at in (over["status"]["startTime"], decided["lastTransitionTime"])
    )
    assert (end - began).total_seconds() >= 8


def _seconds_since(time: str) -> float:
    return (
        datetime.now(tz=timezone.utc) - datetime.fromisoformat(time.replace("Z", "+00:00"))
    ).total_seconds()


def test_r3_of_a_job_that_is_suspended_already_the_count_comes_with_the_resumption(api: Asker) -> None:
    """Not as described: told ranges as the controller writes them, it fills in no count at once.

    The count comes with its next write, and that is when the Job is resumed.
    """
    api.have_job(indexed(completions=10, parallelism=3, suspend=True, pod=runs(*LASTS, **NOWHERE)))
    until(api, conditions)
    api.merge(api.jobs("j", "status"), {"status": {"completedIndexes": "0-2,5-8"}})
    other = api.have_job(indexed("other", completions=1, pod=runs(*SUCCEEDS)))
    ended(api, other["metadata"]["name"])  # by now the controller would have counted
    waiting = api.ask("GET", api.jobs("j")).body
    resume(api)

    going = until(api, lambda job: job["status"].get("active") == 3)

    assert "succeeded" not in waiting["status"]
    assert (going["status"]["succeeded"], going["status"]["completedIndexes"]) == (7, "0-2,5-8")
