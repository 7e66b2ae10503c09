"""Loss or fault: each row of the classification, and what it does not prove."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from airflow_batchjob.core.capacity.capacity import Signs
from airflow_batchjob.core.capacity.losses import loss_of
from airflow_batchjob.core.capacity.profiles import KNOWN_SIGNS
from airflow_batchjob.core.reading.endings import Confidence, Ending, Node, classify
from airflow_batchjob.core.reading.pods import Pod
from tests.unit.pods_made import condition, container, exited, pod

HIGH, LOW = Confidence.HIGH, Confidence.LOW
SPOT_LABELS = {"karpenter.sh/capacity-type": "spot"}


def disrupted(why: str, **more: Any) -> dict[str, Any]:
    return {"conditions": [condition("DisruptionTarget", reason=why)], **more}


def killed(code: int = 137, how: str = "", **more: Any) -> Any:
    return pod(0, "Failed", container(terminated=exited(code, how)), **more)


NODE = {
    "gone": Node(labels=SPOT_LABELS, is_missing=True),
    "not ready": Node(labels=SPOT_LABELS, is_ready=False),
    "tainted": Node(labels=SPOT_LABELS, taints=frozenset({"aws-node-termination-handler/spot-itn"})),
    "well": Node(labels=SPOT_LABELS),
    "gone, on demand": Node(labels={"karpenter.sh/capacity-type": "on-demand"}, is_missing=True),
}
BY_API = disrupted("EvictionByEvictionAPI")

MARKED = {
    "1: out of memory, though 137": (killed(137, "OOMKilled"), Ending.OUT_OF_MEMORY, False),
    "1: out of memory while it was evicted": (
        killed(137, "OOMKilled", **BY_API), Ending.OUT_OF_MEMORY, False,
    ),
    "2: preempted": (killed(**disrupted("PreemptionByScheduler")), Ending.PREEMPTED, True),
    "2: preempted, old word": (killed(**disrupted("PreemptionByKubeScheduler")), Ending.PREEMPTED, True),
    "3: a NoExecute taint": (killed(143, **disrupted("DeletionByTaintManager")), Ending.NODE_TAINTED, True),
    "4: drained": (killed(143, **BY_API), Ending.DRAINED, True),
    "4: drained, and its program ended as it pleased": (killed(3, **BY_API), Ending.DRAINED, True),
    "5: its node is gone": (pod(0, "Failed", **disrupted("DeletionByPodGC")), Ending.NODE_GONE, True),
    "6: graceful node shutdown": (
        killed(**disrupted("TerminationByKubelet", reason="Terminated")), Ending.NODE_SHUTDOWN, True,
    ),
    "6: node pressure": (
        pod(0, "Failed", **disrupted(
            "TerminationByKubelet", reason="Evicted", message="The node was low on resource: memory.",
        )),
        Ending.NODE_PRESSURE, True,
    ),
    "6: a critical pod's claim": (
        killed(**disrupted("TerminationByKubelet", reason="Preempting")), Ending.PREEMPTED, True,
    ),
    "7: over its own storage limit": (
        pod(0, "Failed", reason="Evicted",
            message="Pod ephemeral local storage usage exceeds the total limit of containers 1Gi."),
        Ending.STORAGE_LIMIT, False,
    ),
    "8: node shutdown, older clusters": (pod(0, "Failed", reason="NodeShutdown"), Ending.NODE_SHUTDOWN, True),
    "8: node lost, older clusters": (pod(0, "Failed", reason="NodeLost"), Ending.NODE_GONE, True),
    "8: not admitted": (pod(0, "Failed", reason="UnexpectedAdmissionError"), Ending.NOT_ADMITTED, True),
    "8: a full node": (pod(0, "Failed", reason="OutOfcpu"), Ending.NOT_ADMITTED, True),
    "8: its node has changed": (pod(0, "Failed", reason="NodeAffinity"), Ending.NOT_ADMITTED, True),
    "9: its queue took it back": (
        killed(143, conditions=[condition("TerminationTarget", reason="WorkloadEvicted")]),
        Ending.BY_QUEUE, True,
    ),
    "its own deadline": (pod(0, "Failed", reason="DeadlineExceeded"), Ending.POD_DEADLINE, False),
}  # fmt: skip


@pytest.mark.parametrize(("ended", "want", "is_loss"), MARKED.values(), ids=MARKED.keys())
def test_what_marks_a_pod_decides_and_is_sure(ended: Any, want: Ending, is_loss: bool) -> None:
    found = classify(ended, on_spot=True)

    assert (found.ending, found.is_loss, found.confidence) == (want, is_loss, HIGH)
    assert found.sign


UNMARKED = {
    "10: killed on a spot node that is gone": (137, "gone", None, Ending.RECLAIMED, HIGH),
    "10: ended on a spot node that is not ready": (1, "not ready", None, Ending.RECLAIMED, HIGH),
    "10: killed on a spot node that is being reclaimed": (143, "tainted", None, Ending.RECLAIMED, HIGH),
    "10: gone, known as spot by where it was sent": (137, "gone, on demand", True, Ending.RECLAIMED, HIGH),
    "an on-demand node that is gone proves nothing": (
        137, "gone, on demand", None, Ending.PROGRAM, LOW,
    ),
    "12: killed on a spot node that is well": (137, "well", None, Ending.KILLED_ON_SPOT, LOW),
    "12: told to end on a spot node": (143, "", True, Ending.KILLED_ON_SPOT, LOW),
    "137 elsewhere is the program's, and nobody can be sure": (137, "", False, Ending.PROGRAM, LOW),
    "13: another exit code on a spot node": (1, "well", True, Ending.PROGRAM, HIGH),
    "13: a segmentation fault on a spot node": (139, "", True, Ending.PROGRAM, HIGH),
}  # fmt: skip


@pytest.mark.parametrize(("code", "node", "on_spot", "want", "sure"), UNMARKED.values(), ids=UNMARKED.keys())
def test_without_a_mark_the_node_and_the_exit_code_tell(
    code: int, node: str, on_spot: bool | None, want: Ending, sure: Confidence
) -> None:
    found = classify(killed(code), NODE.get(node), on_spot=on_spot)

    assert (found.ending, found.confidence) == (want, sure)


def test_a_pod_that_left_no_record_is_unknown() -> None:
    found = classify(pod(0, "Failed"), on_spot=True)

    assert (found.ending, found.confidence, found.is_loss) == (Ending.UNKNOWN, LOW, False)


def test_its_queue_having_evicted_the_job_explains_an_unmarked_end() -> None:
    assert classify(killed(143), by_queue=True).ending is Ending.BY_QUEUE


def test_a_cluster_can_bring_labels_and_taints_of_its_own() -> None:
    own = Signs(
        spot_labels={"example.com/life": frozenset({"short"})}, reclaim_taints=frozenset({"example.com/bye"})
    )
    node = Node(labels={"example.com/life": "short"}, taints=frozenset({"example.com/bye"}))

    assert classify(killed(), node, signs=own).ending is Ending.RECLAIMED
    assert classify(killed(), node, signs=KNOWN_SIGNS).ending is Ending.PROGRAM


RECORDED = {
    "evicted.yaml": Ending.DRAINED,
    "node-lost.yaml": Ending.NODE_GONE,
    "evicted-over-storage.yaml": Ending.STORAGE_LIMIT,
    "out-of-memory.yaml": Ending.OUT_OF_MEMORY,
    "failed-indexes.yaml": Ending.PROGRAM,
    "cannot-start.yaml": Ending.PROGRAM,
    "failure-policy.yaml": Ending.PROGRAM,
    "suspended.yaml": Ending.PROGRAM,  # killed with its Job's suspension: nobody takes that for sure
}
FOLDER = Path(__file__).parents[3] / "data" / "jobs"


def recorded(name: str) -> list[Any]:
    documents = [
        one for file in sorted(FOLDER.glob(f"*-{name}")) for one in yaml.safe_load_all(file.read_text())
    ]
    pods = [msgspec.convert(one, Pod, strict=False) for one in documents if one["kind"] == "Pod"]
    return [one for one in pods if one.status.phase == "Failed"]


@pytest.mark.parametrize(("name", "want"), RECORDED.items(), ids=RECORDED.keys())
def test_pods_recorded_from_real_clusters_are_told_apart(name: str, want: Ending) -> None:
    pods = recorded(name)

    assert pods, f"nothing is recorded as {name}"
    assert {classify(one).ending for one in pods} == {want}


def test_what_a_suspension_killed_is_never_a_loss() -> None:
    lost = [loss_of(one, now=0.0, signs=KNOWN_SIGNS) for one in recorded("suspended.yaml")]

    assert lost == [None] * len(lost)
