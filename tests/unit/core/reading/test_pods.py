"""What one pod says of its index."""

from __future__ import annotations

import msgspec
import pytest

from airflow_batchjob.core.reading.pods import (
    FAILURE_COUNT_KEY,
    IGNORED_FAILURE_COUNT_KEY,
    INDEX_KEY,
    Lifecycle,
    Pod,
    failures_before,
    index_of,
    lifecycle_of,
    losses_before,
)
from tests.unit.pods_made import condition, container, pod

LIFECYCLES = {
    "just created": (pod(phase="Pending", node=""), Lifecycle.QUEUED),
    "not seen by anyone yet": (pod(phase="", node=""), Lifecycle.QUEUED),
    "no node fits": (
        pod(phase="Pending", node="", conditions=[condition("PodScheduled", "False", "Unschedulable")]),
        Lifecycle.QUEUED,
    ),
    "on a node, pulling": (
        pod(0, "Pending", container(waiting={"reason": "ContainerCreating"})),
        Lifecycle.STARTING,
    ),
    "running": (pod(phase="Running"), Lifecycle.RUNNING),
    "back to pending: all containers are restarted": (pod(phase="Pending"), Lifecycle.STARTING),
    "succeeded": (pod(phase="Succeeded"), Lifecycle.SUCCEEDED),
    "succeeded while being deleted": (
        pod(phase="Succeeded", deleted="2026-03-01T12:01:00Z"),
        Lifecycle.SUCCEEDED,
    ),
    "failed": (pod(phase="Failed"), Lifecycle.FAILED),
    "taken away": (pod(phase="Failed", conditions=[condition("DisruptionTarget")]), Lifecycle.STOPPED),
    "about to be taken away, not yet": (
        pod(phase="Running", conditions=[condition("DisruptionTarget", "False")]),
        Lifecycle.RUNNING,
    ),
    "being deleted": (pod(phase="Running", deleted="2026-03-01T12:01:00Z"), Lifecycle.STOPPED),
    "its node is silent": (pod(phase="Unknown"), Lifecycle.UNKNOWN),
    "a phase of the future": (pod(phase="Hibernating"), Lifecycle.UNKNOWN),
}


@pytest.mark.parametrize(("seen", "want"), LIFECYCLES.values(), ids=LIFECYCLES.keys())
def test_lifecycle(seen: Pod, want: Lifecycle) -> None:
    assert lifecycle_of(seen) is want


def marked(annotations: dict[str, str], labels: dict[str, str] | None = None) -> Pod:
    return msgspec.convert({"metadata": {"annotations": annotations, "labels": labels or {}}}, Pod)


INDEXES = {
    "annotation": (marked({INDEX_KEY: "17"}), 17),
    "label alone": (marked({}, {INDEX_KEY: "4"}), 4),
    "not indexed": (marked({}), None),
    "not a number": (marked({INDEX_KEY: "x"}), None),
    "negative": (marked({INDEX_KEY: "-1"}), None),
    "digits of another script": (marked({INDEX_KEY: "٣"}), None),
    "more digits than Python reads": (marked({INDEX_KEY: "1" * 5_000}), None),
}


@pytest.mark.parametrize(("seen", "want"), INDEXES.values(), ids=INDEXES.keys())
def test_index(seen: Pod, want: int | None) -> None:
    assert index_of(seen) == want


def test_earlier_failures_and_losses_are_counted_by_the_controller() -> None:
    replaced = marked({FAILURE_COUNT_KEY: "2", IGNORED_FAILURE_COUNT_KEY: "1"})

    assert (failures_before(replaced), losses_before(replaced)) == (2, 1)
    assert (failures_before(marked({})), losses_before(marked({}))) == (0, 0)


@pytest.mark.parametrize("text", ["many", "²", "-1", "1" * 5_000])
def test_a_count_that_makes_no_sense_is_none(text: str) -> None:
    edited = marked({FAILURE_COUNT_KEY: text, IGNORED_FAILURE_COUNT_KEY: text})

    assert (failures_before(edited), losses_before(edited)) == (0, 0)


def test_only_what_is_declared_is_read() -> None:
    raw = b"""{"kind": "Pod", "metadata": {"name": "a", "managedFields": [{"x": 1}]},
        "spec": {"containers": [{"name": "m", "env": [{"name": "P", "value": "hunter2"}],
                                 "resources": {"limits": {"cpu": 2, "memory": "1Gi"}}}]},
        "status": {"phase": "Running", "hostIP": "10.0.0.1"}}"""

    got = msgspec.json.decode(raw, type=Pod)

    assert got.spec.containers[0].resources.limits == {"cpu": 2, "memory": "1Gi"}
    assert "hunter2" not in repr(got)
