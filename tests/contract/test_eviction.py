"""Evictions, and machines that go: what becomes of pods, Jobs and budgets. R12 to R14."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.target import Target
from tests.contract.asking import Asker, Object, indexed, job, waiting_pod
from tests.contract.living import (
    FAILURES,
    IGNORE_LOSSES,
    IGNORED,
    LASTS,
    SUCCEEDS,
    conditions,
    ended,
    evict,
    has_begun,
    index_of,
    is_leaving,
    is_running,
    none_left,
    pods_of,
    ready,
    runs,
    until,
)

BY_EVICTION = ("True", "EvictionByEvictionAPI", "Eviction API: evicting")
BY_NODE_LOSS = ("True", "DeletionByPodGC", "PodGC: node no longer exists")
CAPACITY = "airflow-batchjob/capacity"
SAYS_UP = ("sh", "-c", "trap 'exit 143' TERM; echo up; while :; do sleep 0.1; done")


def disruption(pod: Object) -> tuple[str, str, str] | None:
    found = [c for c in pod["status"].get("conditions", ()) if c["type"] == "DisruptionTarget"]
    return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else None


def replacement_of(api: Asker, pod: Object) -> Object:
    found: Object = api.eventually(
        lambda: next(
            (
                other
                for other in pods_of(api)
                if index_of(other) == index_of(pod) and other["metadata"]["uid"] != pod["metadata"]["uid"]
            ),
            None,
        ),
        seconds=40,
    )
    return found


def test_r12_an_evicted_pod_of_a_budgeted_index_stays_until_its_replacement_is_there(api: Asker) -> None:
    api.have_job(
        indexed(completions=1, backoffLimitPerIndex=0, podFailurePolicy=IGNORE_LOSSES, pod=runs(*SAYS_UP))
    )
    until(api, ready(1))
    [pod] = pods_of(api)
    has_begun(api, pod)
    path = api.core("pods", pod["metadata"]["name"])

    assert evict(api, pod).code == 201
    api.eventually(lambda: api.ask("GET", path).body["status"]["phase"] == "Failed")
    dead = api.ask("GET", path).body
    new = replacement_of(api, pod)
    api.eventually(lambda: api.ask("GET", path).code == 404)

    assert is_leaving(dead)
    assert disruption(dead) == BY_EVICTION
    assert dead["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143
    assert new["metadata"]["annotations"][FAILURES] == "0"
    assert new["metadata"]["annotations"][IGNORED] == "1"
    status = api.ask("GET", api.jobs("j")).body["status"]
    assert "failed" not in status
    assert status["failedIndexes"] == ""


def test_60_an_evicted_pod_of_an_ignoring_job_is_replaced_within_no_budget(api: Asker) -> None:
    api.have_job(indexed(completions=1, backoffLimit=0, podFailurePolicy=IGNORE_LOSSES, pod=runs(*LASTS)))
    until(api, ready(1))
    [pod] = pods_of(api)

    evict(api, pod)
    new = replacement_of(api, pod)

    assert FAILURES not in new["metadata"]["annotations"]
    assert IGNORED not in new["metadata"]["annotations"]
    assert "failed" not in api.ask("GET", api.jobs("j")).body["status"]


def test_an_evicted_pod_counts_where_nothing_ignores_it(api: Asker) -> None:
    api.have_job(job(backoffLimit=0, pod=runs(*LASTS)))
    until(api, ready(1))
    [pod] = pods_of(api)

    evict(api, pod)

    assert conditions(ended(api))[-1] == ("Failed", "BackoffLimitExceeded")


def test_a_pod_that_waits_goes_at_once_when_it_is_evicted(api: Asker) -> None:
    pod = api.have("pods", waiting_pod())

    assert evict(api, pod).code == 201
    assert api.ask("GET", api.core("pods", "p")).code == 404


def test_a_pod_that_has_ended_is_not_marked_when_it_is_evicted(api: Asker) -> None:
    api.have_job(job(pod=runs(*SUCCEEDS)))
    ended(api)
    [pod] = pods_of(api)

    assert evict(api, pod).code == 201
    api.eventually(lambda: pods_of(api) == [])
    assert conditions(api.ask("GET", api.jobs("j")).body)[-1] == ("Complete", "CompletionsReached")


def test_an_eviction_of_no_pod_is_not_found(api: Asker) -> None:
    answer = evict(api, {"metadata": {"name": "p"}})

    assert (answer.code, answer.body["reason"]) == (404, "NotFound")


def test_an_eviction_of_another_uid_is_a_conflict(api: Asker) -> None:
    pod = api.have("pods", waiting_pod())

    answer = evict(api, pod, deleteOptions={"preconditions": {"uid": "other"}})

    assert (answer.code, answer.body["reason"]) == (409, "Conflict")
    assert api.ask("GET", api.core("pods", "p")).code == 200


def test_an_eviction_may_shorten_the_grace(api: Asker) -> None:
    stubborn = ("sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done")
    api.have_job(job(pod=runs(*stubborn, terminationGracePeriodSeconds=100)))
    until(api, ready(1))
    [pod] = pods_of(api)
    has_begun(api, pod)

    assert evict(api, pod, deleteOptions={"gracePeriodSeconds": 1}).code == 201

    api.eventually(lambda: all(other["metadata"]["uid"] != pod["metadata"]["uid"] for other in pods_of(api)))


@pytest.fixture
def spot(cluster: Target, server: Asker) -> Iterator[str]:
    """A spot machine to lose; it is there again afterwards."""
    nodes = server.ask("GET", "/api/v1/nodes", labelSelector=f"{CAPACITY}=spot").body["items"]
    name = min(node["metadata"]["name"] for node in nodes)
    yield name
    if server.ask("GET", f"/api/v1/nodes/{name}").code == 404:
        cluster.bring_back_node(name)


@pytest.mark.timeout(300)  # pods of a machine that is gone are noticed within a minute or so
def test_r13_and_r14_a_machine_is_lost_and_the_job_goes_on_elsewhere(
    api: Asker, cluster: Target, spot: str
) -> None:
    """By version: before 1.36 the Job's start must be taken back before it gets another place."""
    on_spot: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": spot}}
    created = api.have_job(
        indexed(
            completions=2,
            parallelism=2,
            backoffLimitPerIndex=0,
            podFailurePolicy=IGNORE_LOSSES,
            pod=knows_its_node(runs("sh", "-c", LASTS_ON_SPOT, **on_spot)),
        )
    )
    until(api, ready(2))
    old = pods_of(api)

    cluster.lose_node(spot)
    replacements = [replacement_of_lost(api, pod) for pod in old]
    waiting = api.eventually(lambda: unschedulable(api, replacements), seconds=30)
    lost = api.ask("GET", api.jobs("j")).body
    api.merge(api.jobs("j"), {"spec": {"suspend": True}})
    until(api, none_left)
    place = {"kubernetes.io/hostname": None, CAPACITY: "on-demand"}
    change = {"suspend": False, "template": {"spec": {"nodeSelector": place}}}
    if api.minor < 36:
        api.merge(api.jobs("j", "status"), {"status": {"startTime": None}})
    answer = api.merge(api.jobs("j"), {"spec": change})
    assert answer.code == 200, answer.body
    over = ended(api)

    for pod in replacements:
        assert pod["metadata"]["annotations"][IGNORED] == "1"
    assert all(message.startswith("0/") for message in waiting)
    assert "failed" not in lost["status"]
    assert over["metadata"]["uid"] == created["metadata"]["uid"]
    assert conditions(over)[-1] == ("Complete", "CompletionsReached")
    assert over["status"]["completedIndexes"] == "0,1"
    assert "failed" not in over["status"]
    assert over["status"]["failedIndexes"] == ""


LASTS_ON_SPOT = "case $NODE in *spot*) trap 'exit 143' TERM; while :; do sleep 0.1; done;; *) exit 0;; esac"


def knows_its_node(pod: Object) -> Object:
    pod["containers"][0]["env"] = [
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    ]
    return pod


def replacement_of_lost(api: Asker, pod: Object) -> Object:
    def look() -> Object | None:
        others = [other for other in pods_of(api) if index_of(other) == index_of(pod)]
        return next((other for other in others if other["metadata"]["uid"] != pod["metadata"]["uid"]), None)

    found: Object = api.eventually(look, seconds=180)
    return found


def unschedulable(api: Asker, pods: list[Object]) -> list[str] | None:
    names = {pod["metadata"]["name"] for pod in pods}
    said = [
        condition["message"]
        for pod in pods_of(api)
        if pod["metadata"]["name"] in names and not is_running(pod)
        for condition in pod["status"].get("conditions", ())
        if condition.get("reason") == "Unschedulable"
    ]
    return said if len(said) == len(pods) else None
