"""Why pods do not start, in words."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

from airflow_batchjob.core.reading.diagnosis import Category, diagnose
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.pods import Pod
from tests.unit.pods_made import condition, container, exited, pod

NOW = datetime(2026, 3, 1, 13, 0, 0, tzinfo=timezone.utc)
LONG_AGO = "2026-03-01T12:00:00Z"
JUST_NOW = "2026-03-01T12:59:50Z"


def job(**tree: Any) -> Job:
    return msgspec.convert({"metadata": {"name": "embed", "uid": "u"}, **tree}, Job)


def pending(reason: str = "Unschedulable", message: str = "", **more: Any) -> Pod:
    said = [condition("PodScheduled", "False", reason, message)]
    return pod(0, "Pending", node="", conditions=said, **more)


def waiting(reason: str, message: str = "", **more: Any) -> Pod:
    return pod(0, "Pending", container(waiting={"reason": reason, "message": message}), **more)


NO_GPU = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."

PODS: dict[str, tuple[Pod, Category | None, str]] = {
    "no node fits": (pending(message=NO_GPU), Category.UNSCHEDULABLE, "3 Insufficient nvidia.com/gpu"),
    "held by a gate": (
        pending("SchedulingGated", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]),
        Category.GATED,
        "kueue.x-k8s.io/admission",
    ),
    "not scheduled yet, for no reason": (pod(phase="Pending", node=""), None, ""),
    "a name that is none": (waiting("InvalidImageName", "couldn't parse"), Category.IMAGE, "couldn't parse"),
    "an image that is not there and not pulled": (waiting("ErrImageNeverPull"), Category.IMAGE, "main"),
    "a Secret that is missing": (
        waiting("CreateContainerConfigError", 'secret "db" not found'), Category.CONFIG, 'secret "db"',
    ),
    "a pull that fails": (waiting("ErrImagePull", "manifest unknown"), Category.PULLING, "manifest unknown"),
    "a pull that waits": (waiting("ImagePullBackOff", "Back-off"), Category.PULLING, "so far"),
    "a node that pulls too much": (
        waiting("ErrImagePull", "pull QPS exceeded"), Category.PULL_LIMIT, "waits for the registry",
    ),
    "a registry that asks for patience": (
        waiting("ImagePullBackOff", "toomanyrequests: You have reached your pull rate limit"),
        Category.PULL_LIMIT,
        "waits for the registry",
    ),
    "a pull that fails for a digest with 429 in it": (
        waiting("ErrImagePull", "sha256:a4291 not found"), Category.PULLING, "not found",
    ),
    "being created": (waiting("ContainerCreating"), None, ""),
    "an init container's image": (
        pod(
            0, "Pending", container(waiting={"reason": "PodInitializing"}),
            initContainerStatuses=[container("fetch", waiting={"reason": "InvalidImageName"})],
        ),
        Category.IMAGE,
        "fetch",
    ),
    "failing again and again in place": (
        pod(0, "Running", container(waiting={"reason": "CrashLoopBackOff"}, last=exited(137, "OOMKilled"))),
        Category.CRASH_LOOP,
        "OOMKilled",
    ),
    "running": (pod(0, "Running", container(running={})), None, ""),
    "over": (pod(0, "Failed", container(waiting={"reason": "InvalidImageName"})), None, ""),
    "a node that is silent": (
        pod(phase="Running", deleted=LONG_AGO, node="node-7"), Category.NODE_SILENT, "node-7 does not answer",
    ),
    "just being deleted": (pod(phase="Running", deleted=JUST_NOW), None, ""),
    "a mesh that stays": (
        pod(0, "Running", container(terminated=exited(0)), container("istio-proxy", running={})),
        Category.SIDECAR,
        "istio-proxy keeps 1 pod open",
    ),
    "a mesh that has not had time to end": (
        pod(0, "Running", container(terminated=exited(0, at=JUST_NOW)), container("istio-proxy", running={})),
        None,
        "",
    ),
    "a second worker that works on": (
        pod(0, "Running", container("prepare", terminated=exited(0)), container("train", running={})),
        None,
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("seen", "want", "says"), PODS.values(), ids=PODS.keys())
def test_a_pod(seen: Pod, want: Category | None, says: str) -> None:
    found = diagnose(job(), [seen], now=NOW)

    assert [one.category for one in found] == ([want] if want else [])
    assert says in "".join(map(str, found))


def test_a_diagnosis_reads_as_a_sentence_with_its_mend() -> None:
    (found,) = diagnose(job(), [pending(message=NO_GPU)] * 14, now=NOW)

    assert str(found) == (
        "14 pods wait for a machine: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu. "
        "Add such nodes, ask for less, or bound the wait with pending_seconds."
    )


@pytest.mark.parametrize("category", Category)
def test_sure_is_only_what_someone_has_to_change(category: Category) -> None:
    assert category.is_sure == (category in {Category.IMAGE, Category.CONFIG, Category.REJECTED})


def test_the_most_frequent_words_stand_for_a_group_and_the_most_telling_comes_first() -> None:
    pods = [pending(message="rare"), *[pending(message="often")] * 3, waiting("InvalidImageName")]

    found = diagnose(job(), pods, now=NOW)

    assert [(one.category, one.pods) for one in found] == [(Category.IMAGE, 1), (Category.UNSCHEDULABLE, 4)]
    assert found[1].detail == "often"


def test_a_long_message_is_cut() -> None:
    (found,) = diagnose(job(), [pending(message="x " * 5000)], now=NOW)

    assert len(found.detail) <= 400


# ---------------------------------------------------------------- events


def event(reason: str, message: str = "", at: str = "2026-03-01T12:30:00Z", **about: str) -> dict[str, Any]:
    involved = about or {"kind": "Job", "uid": "u"}
    return {"reason": reason, "message": message, "lastTimestamp": at, "involvedObject": involved}


QUOTA = 'Error creating: pods "embed-0-x" is forbidden: exceeded quota: q, requested: cpu=4, used: cpu=8'
DENIED = 'Error creating: admission webhook "policy.example.com" denied the request: no root'

REFUSALS = {
    "a quota": (QUOTA, Category.QUOTA, "exceeded quota: q"),
    "a webhook": (DENIED, Category.REJECTED, "denied the request: no root"),
    "a policy": (
        'Error creating: pods "x" is forbidden: violates PodSecurity "restricted"',
        Category.REJECTED,
        "restricted",
    ),
    "a webhook that is away": (
        "Error creating: Internal error occurred: failed calling webhook", Category.NOT_CREATED, "webhook",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("message", "want", "says"), REFUSALS.values(), ids=REFUSALS.keys())
def test_pods_that_cannot_be_created(message: str, want: Category, says: str) -> None:
    (found,) = diagnose(job(), [], [event("FailedCreate", message)], now=NOW)

    assert (found.category, found.pods) == (want, 0)
    assert says in found.detail
    assert "Error creating" not in found.detail


def test_a_later_success_settles_a_failure_to_create() -> None:
    events = [event("SuccessfulCreate", at=JUST_NOW), event("FailedCreate", QUOTA)]

    assert diagnose(job(), [], events, now=NOW) == ()


def test_a_later_failure_does_not() -> None:
    events = [event("FailedCreate", QUOTA, at=JUST_NOW), event("SuccessfulCreate")]

    assert len(diagnose(job(), [], events, now=NOW)) == 1


def test_events_of_another_job_are_not_ours() -> None:
    events = [event("FailedCreate", QUOTA, kind="Job", uid="another")]

    assert diagnose(job(), [], events, now=NOW) == ()


QUIET = {
    "suspended": job(spec={"suspend": True}),
    "ended": job(status={"conditions": [condition("Failed")]}),
    "being deleted": job(metadata={"uid": "u", "deletionTimestamp": LONG_AGO}),
}


@pytest.mark.parametrize("quiet", QUIET.values(), ids=QUIET.keys())
def test_a_job_that_creates_no_pods_has_no_trouble_with_it(quiet: Job) -> None:
    assert diagnose(quiet, [], [event("FailedCreate", QUOTA)], now=NOW) == ()


def test_a_volume_that_does_not_come() -> None:
    starting = pod(0, "Pending", container(waiting={"reason": "ContainerCreating"}), name="p")
    events = [event("FailedMount", 'configmap "c" not found', kind="Pod", name="p")]

    (found,) = diagnose(job(), [starting], events, now=NOW)

    assert found.category is Category.VOLUME
    assert 'configmap "c" not found' in found.detail


def test_a_volume_that_came_in_the_end() -> None:
    events = [event("FailedMount", "not found", kind="Pod", name="p")]

    assert diagnose(job(), [pod(0, "Running", name="p")], events, now=NOW) == ()


def test_events_without_times_or_objects_do_no_harm() -> None:
    assert diagnose(job(), [], [{}, {"reason": "FailedCreate"}], now=NOW) != ()


def test_a_newer_kind_of_event_has_its_time_elsewhere() -> None:
    failed = {"reason": "FailedCreate", "message": QUOTA, "eventTime": "2026-03-01T12:10:00.123456Z"}
    made = {"reason": "SuccessfulCreate", "series": {"lastObservedTime": "2026-03-01T12:20:00.000000Z"}}

    assert diagnose(job(), [], [made, failed], now=NOW) == ()


def test_a_silent_node_shows_whatever_the_job_does() -> None:
    stuck = pod(phase="Running", deleted=LONG_AGO)

    assert len(diagnose(QUIET["suspended"], [stuck], now=NOW)) == 1
    assert diagnose(job(), [stuck], now=NOW - timedelta(minutes=59)) == ()
