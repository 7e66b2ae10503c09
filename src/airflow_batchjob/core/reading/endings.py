"""How one pod ended: by its own doing, or taken away; the first sign that matches decides.

Exit codes alone prove nothing: 137 is out of memory, eviction, preemption and kill alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from airflow_batchjob.core.capacity.capacity import Signs
from airflow_batchjob.core.capacity.profiles import KNOWN_SIGNS
from airflow_batchjob.core.reading.pods import ContainerStatus, Pod, Terminated


class Ending(str, Enum):
    """Why a pod is over, and whether its node or its program is to blame."""

    OUT_OF_MEMORY = "out of memory"  # over its own limit
    PREEMPTED = "preempted"  # by a pod of higher priority
    NODE_TAINTED = "node tainted"
    DRAINED = "drained"  # through the eviction API: a drain, an autoscaler, a spot handler
    NODE_GONE = "node gone"
    NODE_SHUTDOWN = "node shut down"
    NODE_PRESSURE = "node pressure"  # the node ran low on memory, disk or processes
    STORAGE_LIMIT = "storage limit"  # over its own ephemeral-storage limit
    NOT_ADMITTED = "not admitted"  # the kubelet would not take it: a race on a full or changed node
    BY_QUEUE = "taken back by its queue"
    RECLAIMED = "spot node reclaimed"  # nothing marks the pod: its node tells
    KILLED_ON_SPOT = "killed on a spot node"  # by a signal of unknown origin: a suspicion
    POD_DEADLINE = "pod deadline"
    PROGRAM = "program"  # a container failed
    UNKNOWN = "unknown"

    @property
    def is_loss(self) -> bool:
        """True where capacity was taken away; another run elsewhere may well succeed."""
        return self in _LOSSES


_LOSSES = frozenset(
    {
        Ending.PREEMPTED,
        Ending.NODE_TAINTED,
        Ending.DRAINED,
        Ending.NODE_GONE,
        Ending.NODE_SHUTDOWN,
        Ending.NODE_PRESSURE,
        Ending.NOT_ADMITTED,
        Ending.BY_QUEUE,
        Ending.RECLAIMED,
        Ending.KILLED_ON_SPOT,
    }
)

# https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
_DISRUPTIONS = {
    "PreemptionByScheduler": Ending.PREEMPTED,
    "PreemptionByKubeScheduler": Ending.PREEMPTED,
    "DeletionByTaintManager": Ending.NODE_TAINTED,
    "EvictionByEvictionAPI": Ending.DRAINED,
    "DeletionByPodGC": Ending.NODE_GONE,
}
_POD_REASONS = {
    "Preempting": Ending.PREEMPTED,
    "Terminated": Ending.NODE_SHUTDOWN,
    "Shutdown": Ending.NODE_SHUTDOWN,
    "NodeShutdown": Ending.NODE_SHUTDOWN,
    "NodeLost": Ending.NODE_GONE,
    "NodeAffinity": Ending.NOT_ADMITTED,
    "NodeName": Ending.NOT_ADMITTED,
    "UnexpectedAdmissionError": Ending.NOT_ADMITTED,
    "DeadlineExceeded": Ending.POD_DEADLINE,
}


# SIGKILL and SIGTERM, as exit codes: of a machine that goes, of a limit, of the program's own doing.
_KILLED = frozenset({137, 143})


class Confidence(str, Enum):
    """How sure a classification is."""

    HIGH = "high"
    LOW = "low"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node, looked at about when a pod on it ended.

    Attributes:
        labels: Also of one that is gone, if they were seen while it was there.
        is_missing: There is no Node object any more.
        is_ready: Its condition Ready is "True".
        taints: Keys.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    is_missing: bool = False
    is_ready: bool = True
    taints: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Classified:
    """Why a pod is over, how sure that is, and the sign that decided."""

    ending: Ending
    confidence: Confidence
    sign: str = ""

    @property
    def is_loss(self) -> bool:
        return self.ending.is_loss


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFailure:
    """The container that failed first, and how."""

    name: str
    is_init: bool
    terminated: Terminated


def classify(
    pod: Pod,
    node: Node | None = None,
    *,
    signs: Signs = KNOWN_SIGNS,
    on_spot: bool | None = None,
    by_queue: bool = False,
) -> Classified:
    """Return why `pod` is over, as sure as that can be said.

    Args:
        pod: As seen last.
        node: Its node, about when it ended; None: nobody looked.
        signs: Labels of spot nodes and taints of nodes that go.
        on_spot: It was sent to spot machines; None: only the node's labels tell.
        by_queue: The queue that manages its Job has evicted that.
    """
    ending = ending_of(pod)
    spot = bool(on_spot) or (node is not None and signs.is_spot(node.labels))
    if ending not in {Ending.PROGRAM, Ending.UNKNOWN}:
        return Classified(ending=ending, confidence=Confidence.HIGH, sign=_sign(pod))
    if by_queue or pod.holds("TerminationTarget"):
        return Classified(ending=Ending.BY_QUEUE, confidence=Confidence.HIGH, sign="evicted by its queue")
    if spot and node is not None and (why := _is_going(node, signs)):
        return Classified(ending=Ending.RECLAIMED, confidence=Confidence.HIGH, sign=why)
    if ending is Ending.UNKNOWN:
        return Classified(ending=ending, confidence=Confidence.LOW, sign="no record")
    failure = first_failure(pod)
    code = failure.terminated.exit_code if failure is not None else 0
    sign = f"exit {code}"
    if code not in _KILLED:
        return Classified(ending=ending, confidence=Confidence.HIGH, sign=sign)
    # By whom, nothing says: on a spot node its end is likelier than elsewhere.
    killed = Ending.KILLED_ON_SPOT if spot else ending
    return Classified(ending=killed, confidence=Confidence.LOW, sign=sign)


def _sign(pod: Pod) -> str:
    disrupted = pod.condition("DisruptionTarget")
    if disrupted is not None and disrupted.status == "True":
        return f"DisruptionTarget/{disrupted.reason}"
    if pod.status.reason:
        return f"status.reason {pod.status.reason}"
    failure = first_failure(pod)
    return failure.terminated.reason if failure is not None else ""


def _is_going(node: Node, signs: Signs) -> str:
    if node.is_missing:
        return "its node is gone"
    if not node.is_ready:
        return "its node is not ready"
    taints = sorted(node.taints & signs.reclaim_taints)
    return f"taint {taints[0]}" if taints else ""


def ending_of(pod: Pod) -> Ending:
    """Return why `pod` is over, by what it says itself; of one that is not over, its signs so far."""
    failure = first_failure(pod)
    if failure is not None and failure.terminated.reason == "OOMKilled":
        return Ending.OUT_OF_MEMORY
    disrupted = pod.condition("DisruptionTarget")
    if disrupted is not None and disrupted.status == "True":
        return _DISRUPTIONS.get(disrupted.reason) or _by_kubelet(pod)
    reason = pod.status.reason
    if reason == "Evicted":
        return _evicted(pod)
    if reason.startswith("OutOf"):
        return Ending.NOT_ADMITTED
    if reason in _POD_REASONS:
        return _POD_REASONS[reason]
    if failure is not None and failure.terminated.reason == "ContainerStatusUnknown":
        return Ending.NODE_GONE
    return Ending.PROGRAM if failure is not None else Ending.UNKNOWN


def first_failure(pod: Pod) -> ContainerFailure | None:
    """Return the container whose failure came first; others are often killed because of it.

    A container that was restarted in place shows its failure in its last state alone.
    """
    sidecars = {one.name for one in pod.spec.init_containers if one.restart_policy == "Always"}
    failures = [
        *_failures(
            (one for one in pod.status.init_container_statuses if one.name not in sidecars), init=True
        ),
        *_failures(pod.status.container_statuses, init=False),
    ]
    return min(failures, key=_when, default=None)


def _failures(statuses: Iterable[ContainerStatus], *, init: bool) -> list[ContainerFailure]:
    found = []
    for status in statuses:
        terminated = _failed_state(status)
        if terminated is not None:
            found.append(ContainerFailure(name=status.name, is_init=init, terminated=terminated))
    return found


def _failed_state(status: ContainerStatus) -> Terminated | None:
    now, before = status.state.terminated, status.last_state.terminated
    if now is not None:
        return now if _has_failed(now) else None
    return before if before is not None and _has_failed(before) else None


def _has_failed(terminated: Terminated) -> bool:
    return terminated.exit_code != 0 or terminated.reason == "OOMKilled"


def _when(failure: ContainerFailure) -> tuple[bool, float]:
    # Out of memory first: the kernel may have killed a child, and its parent ended later.
    finished = failure.terminated.finished_at
    return failure.terminated.reason != "OOMKilled", finished.timestamp() if finished else float("inf")


def _by_kubelet(pod: Pod) -> Ending:
    """Part what the kubelet ends: a node that goes, one under pressure, or a critical pod's claim."""
    reason = pod.status.reason
    if reason == "Evicted":
        return _evicted(pod)
    return _POD_REASONS.get(reason, Ending.NODE_SHUTDOWN)


def _evicted(pod: Pod) -> Ending:
    # An eviction for its own limit carries no DisruptionTarget, only these words.
    own_limit = "exceeds the total limit" in pod.status.message or "exceeds the limit" in pod.status.message
    return Ending.STORAGE_LIMIT if own_limit else Ending.NODE_PRESSURE
