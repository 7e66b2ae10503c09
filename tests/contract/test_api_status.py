"""Writing a Job's status from outside: how a follow-up Job is told what is done, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.asking import Asker, Object, indexed

NOBODY = "example.com/nobody"  # the controller leaves such a Job alone, so that only the test writes
TIME = "2024-01-01T00:00:00Z"


def condition(type_: str) -> Object:
    return {"type": type_, "status": "True", "lastProbeTime": TIME, "lastTransitionTime": TIME}


def ten(**spec: Any) -> Object:
    return indexed(completions=10, suspend=True, backoffLimitPerIndex=0, managedBy=NOBODY, **spec)


ACCEPTED: dict[str, Object] = {
    "R3 what is done": {"completedIndexes": "0-1"},
    "R1 what is done, in two ranges": {"completedIndexes": "0-2,5-8"},
    "R3 what has failed": {"failedIndexes": "0-1"},
    "both, side by side": {"completedIndexes": "0-1,3", "failedIndexes": "2"},
    "R3 a number that does not fit": {"completedIndexes": "0-1", "succeeded": 7},
    "a pair as a range": {"completedIndexes": "0-1"},
}


@pytest.mark.parametrize("status", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_a_suspended_job_is_told_what_is_done(api: Asker, status: Object) -> None:
    api.have_job(ten())

    answer = api.merge(api.jobs("j", "status"), {"status": status})

    assert answer.code == 200, answer.body
    assert status.items() <= answer.body["status"].items()
    assert answer.body["metadata"]["generation"] == 1


REFUSED: dict[str, tuple[Object, str]] = {
    "R3 an index that is not there": ({"completedIndexes": "9-10"}, "status.completedIndexes"),
    "indexes out of order": ({"completedIndexes": "5,1"}, "status.completedIndexes"),
    "a range of one": ({"completedIndexes": "3-3"}, "status.completedIndexes"),
    "no indexes": ({"completedIndexes": "some"}, "status.completedIndexes"),
    "R3 done and failed at once": ({"completedIndexes": "0-3", "failedIndexes": "2"}, "status.failedIndexes"),
    "more ready than active": ({"ready": 1}, "status.ready"),
    "failed without notice": (
        {"startTime": TIME, "conditions": [condition("Failed")]},
        "status.conditions",
    ),
    "complete without notice": (
        {"startTime": TIME, "completionTime": TIME, "conditions": [condition("Complete")]},
        "status.conditions",
    ),
    "finished and never started": (
        {"conditions": [condition("FailureTarget"), condition("Failed")]},
        "status.startTime",
    ),
    "finished with pods": (
        {
            "startTime": TIME,
            "active": 1,
            "conditions": [condition("FailureTarget"), condition("Failed")],
        },
        "status.active",
    ),
    "an end without completion": ({"startTime": TIME, "completionTime": TIME}, "status.completionTime"),
    "met and failing": (
        {"conditions": [condition("SuccessCriteriaMet"), condition("FailureTarget")]},
        "status.conditions",
    ),
}


@pytest.mark.parametrize(("status", "field"), REFUSED.values(), ids=REFUSED.keys())
def test_a_status_that_contradicts_itself_is_refused(api: Asker, status: Object, field: str) -> None:
    api.have_job(ten())

    answer = api.merge(api.jobs("j", "status"), {"status": status})

    assert answer.code == 422, answer.body
    assert field in {field for field, _ in answer.causes}


LASTING: dict[str, tuple[Object, Object, str]] = {
    "fewer failed": ({"failed": 2}, {"failed": 1}, "status.failed"),
    "fewer succeeded": ({"succeeded": 2}, {"succeeded": 1}, "status.succeeded"),
    "a verdict taken back": (
        {"conditions": [condition("FailureTarget")]},
        {"conditions": []},
        "status.conditions",
    ),
}


@pytest.mark.parametrize(("before", "after", "field"), LASTING.values(), ids=LASTING.keys())
def test_what_has_been_counted_stays_counted(api: Asker, before: Object, after: Object, field: str) -> None:
    api.have_job(ten(parallelism=2))
    assert api.merge(api.jobs("j", "status"), {"status": before}).code == 200

    answer = api.merge(api.jobs("j", "status"), {"status": after})

    assert answer.code == 422, answer.body
    assert field in {field for field, _ in answer.causes}


def test_r6_the_start_of_a_suspended_job_may_be_taken_back(api: Asker) -> None:
    api.have_job(ten())
    api.merge(api.jobs("j", "status"), {"status": {"startTime": TIME}})

    answer = api.merge(api.jobs("j", "status"), {"status": {"startTime": None}})

    assert answer.code == 200
    assert "startTime" not in answer.body["status"]


def test_the_start_of_a_running_job_stays(api: Asker) -> None:
    """By version: 1.34 says Required, as if it were removed; from 1.35 on a change is Invalid."""
    api.have_job({**ten(), "spec": {**ten()["spec"], "suspend": False}})
    api.merge(api.jobs("j", "status"), {"status": {"startTime": TIME}})

    answer = api.merge(api.jobs("j", "status"), {"status": {"startTime": "2024-01-02T00:00:00Z"}})

    assert answer.code == 422
    assert ("status.startTime", "Invalid" if api.minor >= 35 else "Required") in answer.causes
