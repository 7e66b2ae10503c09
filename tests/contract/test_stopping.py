"""Stopping a Job and keeping what it has done, in one request that checks what it stops. R7 to R17."""

from __future__ import annotations

from tests.contract.asking import JSON_PATCH, MERGE_PATCH, Asker, Object, indexed, job
from tests.contract.living import (
    LASTS,
    UNTIL_TERM,
    by_index,
    conditions,
    ended,
    has_begun,
    index_of,
    is_over,
    none_left,
    pods_of,
    ready,
    runs,
    until,
)

STOP = {"activeDeadlineSeconds": 0}
SLOW_TO_LEAVE = "trap 'sleep 3; exit 143' TERM; echo up; while :; do sleep 0.1; done"
NOTE = "airflow-batchjob/stop"


def stop_where(uid: str, holder: str) -> list[Object]:
    """Return a JSON Patch that stops the Job of this uid and holder, and says why."""
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": "/metadata/annotations/holder", "value": holder},
        {"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 0},
        {"op": "add", "path": f"/metadata/annotations/{NOTE.replace('/', '~1')}", "value": "enough"},
    ]


def held(**spec: object) -> Object:
    sent = indexed(completions=2, parallelism=2, pod=runs(*LASTS), **spec)
    sent["metadata"]["annotations"] = {"holder": "me"}
    return sent


def test_r16_a_running_job_is_told_to_end_with_its_version_and_keeps_what_is_done(api: Asker) -> None:
    lasting = runs("sh", "-c", f"[ $JOB_COMPLETION_INDEX -lt 2 ] && exit 0; {SLOW_TO_LEAVE}")
    lasting["terminationGracePeriodSeconds"] = 10
    api.have_job(indexed(completions=4, parallelism=4, backoffLimitPerIndex=0, pod=lasting))
    until(api, lambda job: job["status"].get("completedIndexes") == "0,1" and ready(2)(job))
    for pod in pods_of(api):
        if index_of(pod) in (2, 3):
            has_begun(api, pod)
    version = api.ask("GET", api.jobs("j")).body["metadata"]["resourceVersion"]
    seen = api.ask("GET", api.jobs("j")).body
    answer = api.merge(api.jobs("j"), {"metadata": {"resourceVersion": version}, "spec": STOP})
    if answer.code == 409:  # a status was written in between; a client asks again
        version = api.ask("GET", api.jobs("j")).body["metadata"]["resourceVersion"]
        answer = api.merge(api.jobs("j"), {"metadata": {"resourceVersion": version}, "spec": STOP})
    assert answer.code == 200, answer.body

    decided = until(api, conditions)
    over = ended(api)

    assert seen["status"]["completedIndexes"] == "0,1"
    assert conditions(decided) == [("FailureTarget", "DeadlineExceeded")]
    assert (decided["status"].get("active"), decided["status"]["terminating"]) == (None, 2)
    assert conditions(over) == [("FailureTarget", "DeadlineExceeded"), ("Failed", "DeadlineExceeded")]
    assert over["status"]["conditions"][-1]["message"] == "Job was active longer than specified deadline"
    assert (over["status"]["completedIndexes"], over["status"]["failedIndexes"]) == ("0,1", "")
    assert (over["status"]["failed"], over["status"]["terminating"]) == (2, 0)
    assert "completionTime" not in over["status"]


def test_r16_a_suspended_job_is_not_stopped_before_it_is_resumed(api: Asker) -> None:
    api.have_job(job(suspend=True, pod=runs(*LASTS)))
    until(api, conditions)

    api.merge(api.jobs("j"), {"spec": STOP})
    other = api.have_job(job("other", activeDeadlineSeconds=0, pod=runs(*LASTS)))
    ended(api, other["metadata"]["name"])  # by now the first would be over, too
    waiting = api.ask("GET", api.jobs("j")).body
    api.merge(api.jobs("j"), {"spec": {"suspend": False}})
    over = ended(api)

    assert conditions(waiting) == [("Suspended", "JobSuspended")]
    assert conditions(over)[-1] == ("Failed", "DeadlineExceeded")
    assert pods_of(api) == []


def test_r17_a_stop_is_applied_where_all_that_it_tests_holds(api: Asker) -> None:
    created = api.have_job(held(suspend=True))

    answer = api.ask(
        "PATCH", api.jobs("j"), stop_where(created["metadata"]["uid"], "me"), content_type=JSON_PATCH
    )

    assert answer.code == 200, answer.body
    assert answer.body["spec"]["activeDeadlineSeconds"] == 0
    assert answer.body["metadata"]["annotations"] == {"holder": "me", NOTE: "enough"}


def test_r17_a_stop_of_what_another_holds_changes_nothing(api: Asker) -> None:
    created = api.have_job(held(suspend=True))

    answers = [
        api.ask("PATCH", api.jobs("j"), stop_where(uid, holder), content_type=JSON_PATCH)
        for uid, holder in (("other", "me"), (created["metadata"]["uid"], "another"))
    ]

    for answer in answers:
        assert (answer.code, answer.body["reason"]) == (422, "Invalid")
        assert answer.body["message"] == "the server rejected our request due to an error in our request"
    left = api.ask("GET", api.jobs("j")).body
    assert "activeDeadlineSeconds" not in left["spec"]
    assert left["metadata"]["annotations"] == {"holder": "me"}


def test_a_stop_with_another_uid_in_a_merge_patch_is_refused(api: Asker) -> None:
    """Not as described: the answer is 422 at metadata.uid, not 409.

    By version: 1.34 names the selector and the template's labels in that answer, too.
    """
    api.have_job(held(suspend=True))

    answer = api.ask(
        "PATCH", api.jobs("j"), {"metadata": {"uid": "other"}, "spec": STOP}, content_type=MERGE_PATCH
    )

    assert answer.code == 422
    assert ("metadata.uid", "Invalid") in answer.causes


def test_r7_the_fuse_burns_when_the_number_is_exceeded_not_reached(api: Asker) -> None:
    api.have_job(
        indexed(
            "reached", completions=3, parallelism=3, backoffLimitPerIndex=0, maxFailedIndexes=1,
            pod=by_index("exit 0", _0="exit 1"),
        )
    )  # fmt: skip
    api.have_job(
        indexed(
            "exceeded", completions=4, parallelism=4, backoffLimitPerIndex=0, maxFailedIndexes=1,
            pod=by_index(UNTIL_TERM, _0="exit 1", _1="exit 1"),
        )
    )  # fmt: skip

    reached, exceeded = ended(api, "reached"), ended(api, "exceeded")

    assert conditions(reached)[-1] == ("Failed", "FailedIndexes")
    assert reached["status"]["completedIndexes"] == "1,2"
    assert conditions(exceeded)[-1] == ("Failed", "MaxFailedIndexesExceeded")
    assert exceeded["status"]["failedIndexes"] == "0,1"
    assert exceeded["status"]["failed"] == 4


def test_r9_an_index_that_the_user_sets_is_kept(api: Asker) -> None:
    pod = runs("sh", "-c", "echo $JOB_COMPLETION_INDEX")
    pod["containers"][0]["env"] = [{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]
    api.have_job(indexed(completions=1, pod=pod))
    ended(api)

    [pod] = pods_of(api)

    assert pod["spec"]["containers"][0]["env"] == [{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]
    assert api.ask("GET", api.core("pods", pod["metadata"]["name"], "log")).body == "mine\n"


def test_r10_a_deletion_of_another_uid_is_a_conflict_and_what_runs_runs_on(api: Asker) -> None:
    api.have_job(indexed(completions=1, pod=runs(*LASTS)))
    until(api, ready(1))

    answer = api.ask(
        "DELETE", api.jobs("j"), {"preconditions": {"uid": "other"}, "propagationPolicy": "Background"}
    )

    assert (answer.code, answer.body["reason"]) == (409, "Conflict")
    assert ready(1)(api.ask("GET", api.jobs("j")).body)


def test_r11_a_verdict_comes_before_its_end_while_a_pod_leaves(api: Asker) -> None:
    pod = by_index(SLOW_TO_LEAVE, _0="sleep 2; exit 1")
    pod["terminationGracePeriodSeconds"] = 10
    api.have_job(indexed(completions=2, parallelism=2, backoffLimit=0, pod=pod))

    decided = until(api, conditions)
    over = until(api, is_over)

    assert conditions(decided) == [("FailureTarget", "BackoffLimitExceeded")]
    assert decided["status"]["terminating"] == 1
    assert conditions(over)[-1] == ("Failed", "BackoffLimitExceeded")
    assert none_left(over)
