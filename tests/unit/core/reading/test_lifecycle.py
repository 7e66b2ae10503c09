"""How far each index has come."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.lifecycle import state_of, states_of
from airflow_batchjob.core.reading.pods import FAILURE_COUNT_KEY, IGNORED_FAILURE_COUNT_KEY, Lifecycle, Pod
from airflow_batchjob.core.reading.status import JobStatus, read_status
from tests.unit.pods_made import condition, container, exited, pod


def status(*conditions: str, **counts: Any) -> JobStatus:
    tree = {
        "metadata": {},
        "spec": {"completionMode": "Indexed", "completions": 10},
        "status": {"conditions": [condition(kind) for kind in conditions], **counts},
    }
    return read_status(msgspec.convert(tree, Job))


ALIVE = status(active=1)
FAILED_POD = pod(3, "Failed", container(terminated=exited(1)))

STATES: dict[str, tuple[JobStatus, list[Pod], Lifecycle]] = {
    "no pod yet": (ALIVE, [], Lifecycle.QUEUED),
    "running": (ALIVE, [pod(3)], Lifecycle.RUNNING),
    "a failed pod that will be replaced": (ALIVE, [FAILED_POD], Lifecycle.QUEUED),
    "a lost pod that will be replaced": (
        ALIVE, [pod(3, "Failed", conditions=[condition("DisruptionTarget")])], Lifecycle.QUEUED,
    ),
    "its replacement": (
        ALIVE, [FAILED_POD, pod(3, name="new", created="2026-03-01T13:00:00Z")], Lifecycle.RUNNING,
    ),
    "completed, whatever its pods say": (
        status(active=1, completedIndexes="3"), [FAILED_POD], Lifecycle.SUCCEEDED,
    ),
    "failed for good": (status(active=1, failedIndexes="3"), [FAILED_POD], Lifecycle.FAILED),
    "failed, its pods are gone": (status("Failed", failedIndexes="3"), [], Lifecycle.FAILED),
    "killed by the Job's end": (status("Failed"), [pod(3, "Failed")], Lifecycle.STOPPED),
    "never begun before the Job's end": (status("Failed"), [], Lifecycle.STOPPED),
    "being killed": (
        status("FailureTarget"), [pod(3, deleted="2026-03-01T12:01:00Z")], Lifecycle.STOPPED,
    ),
    "suspended": (status("Suspended"), [], Lifecycle.QUEUED),
    "just succeeded, not counted yet": (ALIVE, [pod(3, "Succeeded")], Lifecycle.SUCCEEDED),
}  # fmt: skip


@pytest.mark.parametrize(("seen", "pods", "want"), STATES.values(), ids=STATES.keys())
def test_lifecycle(seen: JobStatus, pods: list[Pod], want: Lifecycle) -> None:
    assert state_of(3, seen, pods).lifecycle is want


def test_where_and_why() -> None:
    again = pod(3, name="again", created="2026-03-01T13:00:00Z", node="node-2")

    state = state_of(3, ALIVE, [FAILED_POD, again])

    assert (state.pod, state.node, state.reason, state.attempts) == ("again", "node-2", "exit 1 in main", 2)


def test_attempts_are_counted_though_earlier_pods_are_gone() -> None:
    seen = msgspec.structs.replace(
        again := pod(3),
        metadata=msgspec.structs.replace(
            again.metadata, annotations={FAILURE_COUNT_KEY: "2", IGNORED_FAILURE_COUNT_KEY: "1"}
        ),
    )

    assert state_of(3, ALIVE, [seen]).attempts == 4
    assert state_of(3, ALIVE, []).attempts == 0


def test_states_come_in_order_of_index() -> None:
    pods = [pod(10, name="a"), pod(2, name="b"), pod(2, name="c"), pod(None, name="d")]

    assert list(states_of(ALIVE, pods)) == [2, 10]
