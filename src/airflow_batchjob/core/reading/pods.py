"""A Pod as the API server returns it: only the fields that are read, and what one pod says of its index.

Like `job`: frozen msgspec structs that skip whatever is not declared.

Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Any

import msgspec

from airflow_batchjob.core.digits import digits
from airflow_batchjob.core.reading.job import Condition, Metadata, Read

INDEX_KEY = "batch.kubernetes.io/job-completion-index"
FAILURE_COUNT_KEY = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURE_COUNT_KEY = "batch.kubernetes.io/job-index-ignored-failure-count"


class Waiting(Read, frozen=True):
    reason: str = ""
    message: str = ""


class Running(Read, frozen=True):
    started_at: datetime | None = None


class Terminated(Read, frozen=True):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""  # the termination message, at most 4 kB
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerState(Read, frozen=True):
    """At most one of the three is set; none means waiting."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Read, frozen=True):
    name: str
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()  # before the latest restart in place
    restart_count: int = 0
    ready: bool = False


class Resources(Read, frozen=True):
    limits: dict[str, str | int | float] = {}
    requests: dict[str, str | int | float] = {}


class Container(Read, frozen=True):
    name: str
    restart_policy: str = ""  # "Always" on an init container: a native sidecar
    resources: Resources = Resources()


class PodFields(Read, frozen=True):
    """`.spec`."""

    node_name: str = ""
    containers: list[Container] = []
    init_containers: list[Container] = []
    restart_policy: str = ""
    scheduling_gates: list[dict[str, Any]] = []
    termination_grace_period_seconds: int | None = None


class PodStatusFields(Read, frozen=True):
    """`.status` as written by the scheduler, the kubelet and the control plane."""

    phase: str = ""  # Pending, Running, Succeeded, Failed, Unknown
    reason: str = ""
    message: str = ""
    conditions: list[Condition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []
    start_time: datetime | None = None


class Pod(Read, frozen=True):
    """A v1 Pod."""

    metadata: Metadata
    spec: PodFields = msgspec.field(default_factory=PodFields)
    status: PodStatusFields = msgspec.field(default_factory=PodStatusFields)

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def is_over(self) -> bool:
        """True once no container of it can run any more."""
        return self.status.phase in {"Succeeded", "Failed"}

    @property
    def is_leaving(self) -> bool:
        """True while it is being deleted and its containers may still run."""
        return self.metadata.deletion_timestamp is not None and not self.is_over

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of type `kind`, whatever its status."""
        return next((c for c in self.status.conditions if c.type == kind), None)

    def holds(self, kind: str) -> bool:
        """Tell whether the condition of type `kind` has the status "True"."""
        found = self.condition(kind)
        return found is not None and found.status == "True"


class Lifecycle(str, Enum):
    """How far an index has come."""

    QUEUED = "queued"  # no pod, or one without a node
    STARTING = "starting"  # on a node: images, init containers
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"  # ended from outside, with nothing to say about its work
    UNKNOWN = "unknown"

    @property
    def is_final(self) -> bool:
        return self in {Lifecycle.SUCCEEDED, Lifecycle.FAILED, Lifecycle.STOPPED}


def index_of(pod: Pod) -> int | None:
    """Return the completion index of `pod`; None where its Job is not indexed."""
    text = pod.metadata.annotations.get(INDEX_KEY) or pod.metadata.labels.get(INDEX_KEY) or ""
    return digits(text)


def lifecycle_of(pod: Pod) -> Lifecycle:
    """Return how far this one pod has come; see `lifecycle` for an index over all its pods."""
    match pod.status.phase:
        case "Succeeded":
            return Lifecycle.SUCCEEDED
        case "Failed":
            return Lifecycle.STOPPED if pod.holds("DisruptionTarget") else Lifecycle.FAILED
        case _ if pod.is_leaving:
            return Lifecycle.STOPPED
        case "Running":
            return Lifecycle.RUNNING
        case "Pending" | "":
            scheduled = pod.spec.node_name or pod.holds("PodScheduled")
            return Lifecycle.STARTING if scheduled else Lifecycle.QUEUED
        case _:
            return Lifecycle.UNKNOWN


def failures_before(pod: Pod) -> int:
    """Return how many pods of this index failed before `pod` (counted with a per-index budget only)."""
    return _count(pod, FAILURE_COUNT_KEY)


def losses_before(pod: Pod) -> int:
    """Return how many pods of this index were lost and ignored before `pod`, since the last suspension."""
    return _count(pod, IGNORED_FAILURE_COUNT_KEY)


def _count(pod: Pod, key: str) -> int:
    return digits(pod.metadata.annotations.get(key, "")) or 0
