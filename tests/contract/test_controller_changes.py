"""Jobs that are suspended, scaled and deleted while they run. Through the API, with real containers."""

from __future__ import annotations

from typing import Any

from tests.contract.asking import Asker, Object, indexed, job
from tests.contract.test_controller_ends import LASTS, SUCCEEDS, conditions, ended, pods_of, runs, until


def active(count: int) -> Any:
    return lambda seen: (seen["status"].get("active") or 0) == count


def none_left(seen: Object) -> bool:
    return not seen["status"].get("active") and seen["status"].get("terminating") == 0


def indexes(api: Asker) -> set[str]:
    return {
        pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]
        for pod in pods_of(api)
        if "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] in ("Pending", "Running")
    }


def test_67_and_68_created_suspended_then_resumed(api: Asker) -> None:
    api.have_job(job(suspend=True, pod=runs(*SUCCEEDS)))
    suspended = until(api, lambda seen: ("Suspended", "JobSuspended") in conditions(seen))

    api.merge(api.jobs("j"), {"spec": {"suspend": False}})
    seen = ended(api)

    assert "startTime" not in suspended["status"]
    assert seen["status"]["startTime"]
    resumed = seen["status"]["conditions"][0]
    assert (resumed["type"], resumed["status"], resumed["reason"]) == ("Suspended", "False", "JobResumed")


def test_69_and_r4_suspending_kills_pods_uncounted_and_they_run_again(api: Asker) -> None:
    api.have_job(indexed(completions=3, parallelism=3, backoffLimitPerIndex=0, pod=runs(*LASTS)))
    until(api, lambda seen: seen["status"].get("ready") == 3)

    api.merge(api.jobs("j"), {"spec": {"suspend": True}})
    seen = until(api, none_left)
    api.merge(api.jobs("j"), {"spec": {"suspend": False}})
    until(api, active(3))

    assert conditions(seen) == [("Suspended", "JobSuspended")]
    assert "failed" not in seen["status"]
    assert seen["status"]["failedIndexes"] == ""
    assert indexes(api) == {"0", "1", "2"}


def test_71_lower_parallelism_deletes_pods_uncounted(api: Asker) -> None:
    api.have_job(job(completions=5, parallelism=5, pod=runs(*LASTS)))
    until(api, lambda seen: seen["status"].get("ready") == 5)

    api.merge(api.jobs("j"), {"spec": {"parallelism": 2}})
    seen = until(api, lambda seen: seen["status"].get("active") == 2 and seen["status"]["terminating"] == 0)

    assert "failed" not in seen["status"]


def test_71_pods_that_are_not_ready_go_first(api: Asker) -> None:
    waits = {
        "name": "first",
        "image": "busybox:1.36",
        "command": [*LASTS[:2], f"[ $JOB_COMPLETION_INDEX = 2 ] || {{ {LASTS[2]}; }}"],
    }
    api.have_job(indexed(completions=3, parallelism=3, pod=runs(*LASTS, initContainers=[waits])))
    until(api, lambda seen: seen["status"].get("ready") == 1)

    api.merge(api.jobs("j"), {"spec": {"parallelism": 1}})
    seen = until(api, lambda seen: seen["status"].get("active") == 1 and seen["status"]["terminating"] == 0)

    assert indexes(api) == {"2"}
    assert "failed" not in seen["status"]


def test_72_an_elastic_job_drops_its_highest_indexes(api: Asker) -> None:
    api.have_job(indexed(completions=5, parallelism=5, pod=runs(*LASTS)))
    until(api, lambda seen: seen["status"].get("ready") == 5)

    api.merge(api.jobs("j"), {"spec": {"completions": 3, "parallelism": 3}})
    seen = until(api, lambda seen: seen["status"].get("active") == 3 and seen["status"]["terminating"] == 0)

    assert indexes(api) == {"0", "1", "2"}
    assert "failed" not in seen["status"]


def test_64_a_deleted_pod_counts_as_failed_at_once(api: Asker) -> None:
    api.have_job(job(pod=runs(*LASTS)))
    until(api, lambda seen: seen["status"].get("ready") == 1)
    (pod,) = pods_of(api)

    api.ask("DELETE", api.core("pods", pod["metadata"]["name"]))

    until(api, lambda seen: seen["status"].get("failed") == 1)


def test_66_a_deleted_pod_that_ends_well_counts_as_success(api: Asker) -> None:
    ends_well = ["sh", "-c", "trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done"]
    api.have_job(job(podReplacementPolicy="Failed", pod=runs(*ends_well)))
    until(api, lambda seen: seen["status"].get("ready") == 1)
    (pod,) = pods_of(api)
    name = pod["metadata"]["name"]
    api.eventually(lambda: api.ask("GET", api.core("pods", name, "log")).body == "up\n")  # its trap is set

    api.ask("DELETE", api.core("pods", name))

    assert conditions(ended(api))[-1] == ("Complete", "CompletionsReached")


def test_r5_a_suspended_job_gets_a_new_place_and_goes_on(api: Asker) -> None:
    """By version: before 1.36 the start must be taken back first."""
    api.have_job(indexed(completions=2, parallelism=2, pod=runs(*LASTS)))
    until(api, lambda seen: seen["status"].get("ready") == 2)
    (node, *_) = {pod["spec"]["nodeName"] for pod in pods_of(api)}

    api.merge(api.jobs("j"), {"spec": {"suspend": True}})
    until(api, none_left)
    place = {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": node}}}}
    if api.minor < 36:
        api.merge(api.jobs("j", "status"), {"status": {"startTime": None}})
    answer = api.merge(api.jobs("j"), {"spec": {"suspend": False, **place}})
    until(api, lambda seen: seen["status"].get("ready") == 2)

    assert answer.code == 200, answer.body
    on = {pod["spec"]["nodeName"] for pod in pods_of(api) if "deletionTimestamp" not in pod["metadata"]}
    assert on == {node}


def test_78_a_finished_job_goes_with_its_pods_when_its_time_is_over(api: Asker) -> None:
    api.have_job(job(ttlSecondsAfterFinished=2, pod=runs(*SUCCEEDS)))
    ended(api)

    api.eventually(lambda: api.ask("GET", api.jobs("j")).code == 404)
    api.eventually(lambda: pods_of(api) == [])


def test_77_a_foreground_deletion_waits_for_the_pods(api: Asker) -> None:
    api.have_job(job(pod=runs(*LASTS)))
    until(api, lambda seen: seen["status"].get("ready") == 1)

    answer = api.ask("DELETE", api.jobs("j"), propagationPolicy="Foreground")
    api.eventually(lambda: api.ask("GET", api.jobs("j")).code == 404)

    assert "foregroundDeletion" in answer.body["metadata"]["finalizers"]
    assert pods_of(api) == []


def test_79_another_manager_is_left_alone(api: Asker) -> None:
    api.have_job(job("other", managedBy="acme.io/x", pod=runs(*SUCCEEDS)))
    api.have_job(job(pod=runs(*SUCCEEDS)))
    ended(api)

    assert api.ask("GET", api.jobs("other")).body.get("status") in (None, {})
    assert pods_of(api, "other") == []
