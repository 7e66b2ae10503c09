"""Why pods do not start or do not end: pods, Job and events in, words out.

Each diagnosis says what is the matter, in whose words, and the mend. Most states here never end by
themselves, and none of them fails a pod: Kubernetes waits for ever.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.pods import ContainerStatus, Lifecycle, Pod, lifecycle_of
from airflow_batchjob.core.reading.status import read_status
from airflow_batchjob.core.wording import counted

LONGEST_DETAIL = 400  # characters
NODE_SILENT_AFTER = timedelta(minutes=5)  # a deletion timestamp has the grace period in it
SIDECAR_AFTER = timedelta(minutes=10)


class Category(str, Enum):
    """What kind of trouble; in order of how much it explains."""

    REJECTED = "rejected"  # a webhook or policy does not let pods be created
    QUOTA = "quota"
    NOT_CREATED = "not_created"  # for another reason
    IMAGE = "image"  # the image can't be had, surely
    CONFIG = "config"  # a ConfigMap, Secret or key is missing, surely
    CONTAINER = "container"  # the runtime can't make or start the container
    PULLING = "pulling"  # the pull fails, and is tried again
    PULL_LIMIT = "pull_limit"  # the registry asks for patience
    VOLUME = "volume"
    SANDBOX = "sandbox"  # no network or sandbox for the pod
    CRASH_LOOP = "crash_loop"  # fails again and again in place
    GATED = "gated"
    UNSCHEDULABLE = "unschedulable"
    NODE_SILENT = "node_silent"
    SIDECAR = "sidecar"

    @property
    def is_sure(self) -> bool:
        """True where waiting alone will not help: someone has to change something."""
        return self in {Category.REJECTED, Category.IMAGE, Category.CONFIG}


_ORDER = {category: place for place, category in enumerate(Category)}

_MEND = {
    Category.REJECTED: "Change what the policy refuses, or have it make an exception",
    Category.QUOTA: "Wait until others have finished, ask for less, or have the quota raised",
    Category.NOT_CREATED: "The server's message says what to change",
    Category.IMAGE: "Check the image's name and that it exists where the nodes may pull it",
    Category.CONFIG: "Create the ConfigMap, Secret or key that is named, in the Job's namespace",
    Category.CONTAINER: "Check command, working directory, mounts and security context",
    Category.PULLING: "Check name, tag and imagePullSecrets, if it goes on",
    Category.PULL_LIMIT: "It passes by itself; a mirror or an image pull secret avoids it",
    Category.VOLUME: "Check that the volume's source exists and is free",
    Category.SANDBOX: "Have the node's network or runtime looked at, if it goes on",
    Category.CRASH_LOOP: "Look at the container's log; it is restarted with growing pauses",
    Category.GATED: "It starts when whoever set the gate (a queue, mostly) takes it away",
    Category.UNSCHEDULABLE: "Add such nodes, ask for less, or bound the wait with pending_seconds",
    Category.NODE_SILENT: (
        "Delete the Node if its machine is gone, or taint it node.kubernetes.io/out-of-service"
    ),
    Category.SIDECAR: (
        "Make it a native sidecar (an init container with restartPolicy: Always), "
        "or opt the pod template out of injection"
    ),
}

# https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/images/types.go
_WAITING = {
    "InvalidImageName": Category.IMAGE,
    "ErrImageNeverPull": Category.IMAGE,
    "CreateContainerConfigError": Category.CONFIG,
    "CreateContainerError": Category.CONTAINER,
    "RunContainerError": Category.CONTAINER,
    "PreStartHookError": Category.CONTAINER,
    "PostStartHookError": Category.CONTAINER,
    "ErrImagePull": Category.PULLING,
    "ImagePullBackOff": Category.PULLING,
    "ImageInspectError": Category.PULLING,
    "RegistryUnavailable": Category.PULLING,
    "SignatureValidationFailed": Category.IMAGE,
    "CrashLoopBackOff": Category.CRASH_LOOP,
}
_EVENTS = {
    "FailedMount": Category.VOLUME,
    "FailedAttachVolume": Category.VOLUME,
    "FailedCreatePodSandBox": Category.SANDBOX,
}
_PULL_LIMIT = re.compile(r"QPS exceeded|toomanyrequests|too many requests|rate.?limit|\b429\b", re.IGNORECASE)
_SIDECARS = re.compile(
    r"istio-proxy|linkerd-proxy|kuma-sidecar|consul-dataplane|envoy.*|.*-sidecar|vault-agent|daprd|"
    r"cloud-?sql-proxy|datadog-agent|fluent-?bit|fluentd|filebeat|otel-collector|aws-otel-collector|xray-daemon"
)
_SAID_BY_POD = re.compile(r"^pods? \"[^\"]+\" is forbidden: |^Error creating: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One trouble: what is the matter, in Kubernetes' words, and the mend."""

    category: Category
    summary: str  # e.g. "14 pods wait for a machine"
    detail: str = ""  # e.g. "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    mend: str = ""
    pods: int = 0  # how many it concerns; 0: none could be created

    def __str__(self) -> str:
        said = f"{self.summary}: {self.detail.rstrip('.')}" if self.detail else self.summary
        return f"{said}. {self.mend}." if self.mend else f"{said}."


@dataclass(frozen=True, slots=True)
class _Sign:
    category: Category
    where: str  # what the summary is about: a container, a node
    detail: str


def diagnose(
    job: Job, pods: Sequence[Pod], events: Sequence[Mapping[str, Any]] = (), *, now: datetime
) -> tuple[Diagnosis, ...]:
    """Return what keeps a Job's pods from starting or from ending, the most telling first.

    Args:
        job: A suspended or ended Job has no trouble with starting.
        pods: All its pods.
        events: v1 Events of the Job and its pods, as JSON gives them; those of pods that have started
            since are left out.
        now: An aware time.
    """
    found = [_summed_up(signs) for signs in _grouped(_signs_of_pods(pods, now)).values()]
    status = read_status(job)
    if not status.phase.is_final and not status.suspend_asked and not status.being_deleted:
        starting = {pod.name for pod in pods if lifecycle_of(pod) is Lifecycle.STARTING}
        found += [_summed_up(signs) for signs in _grouped(_signs_of_events(events, starting)).values()]
        found += _not_created(job, events)
    return tuple(sorted(found, key=lambda one: (_ORDER[one.category], -one.pods)))


def _signs_of_pods(pods: Sequence[Pod], now: datetime) -> Iterator[_Sign]:
    for pod in pods:
        if pod.is_over:
            continue
        sign = _leaving(pod, now) if pod.is_leaving else _waiting(pod) or _held_open(pod, now)
        if sign is not None:
            yield sign


def _leaving(pod: Pod, now: datetime) -> _Sign | None:
    deleted = pod.metadata.deletion_timestamp
    if deleted is None or now - deleted < NODE_SILENT_AFTER or not pod.spec.node_name:
        return None
    return _Sign(Category.NODE_SILENT, pod.spec.node_name, "")


def _waiting(pod: Pod) -> _Sign | None:
    scheduled = pod.condition("PodScheduled")
    if pod.spec.scheduling_gates or (scheduled and scheduled.reason == "SchedulingGated"):
        gates = ", ".join(str(gate.get("name", "")) for gate in pod.spec.scheduling_gates)
        return _Sign(Category.GATED, "", gates)
    if scheduled is not None and scheduled.status == "False" and scheduled.reason == "Unschedulable":
        return _Sign(Category.UNSCHEDULABLE, "", scheduled.message)
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        sign = _container_waiting(status)
        if sign is not None:
            return sign
    return None


def _container_waiting(status: ContainerStatus) -> _Sign | None:
    waiting = status.state.waiting
    category = _WAITING.get(waiting.reason) if waiting is not None else None
    if waiting is None or category is None:
        return None
    if category is Category.PULLING and _PULL_LIMIT.search(waiting.message):
        category = Category.PULL_LIMIT
    if category is Category.CRASH_LOOP and (last := status.last_state.terminated) is not None:
        return _Sign(category, status.name, last.reason or f"exit {last.exit_code}")
    return _Sign(category, status.name, waiting.message or waiting.reason)


def _held_open(pod: Pod, now: datetime) -> _Sign | None:
    """Find a sidecar of the old kind that runs on after the work is done."""
    running = [one.name for one in pod.status.container_statuses if one.state.running is not None]
    ended = [one.state.terminated for one in pod.status.container_statuses if one.state.terminated]
    last = max((one.finished_at for one in ended if one.finished_at is not None), default=None)
    if not running or last is None or now - last < SIDECAR_AFTER:
        return None
    if not all(_SIDECARS.fullmatch(name) for name in running):
        return None
    return _Sign(Category.SIDECAR, ", ".join(running), "")


def _signs_of_events(events: Sequence[Mapping[str, Any]], starting: set[str]) -> Iterator[_Sign]:
    last: dict[str, _Sign] = {}
    for event in sorted(events, key=_time_of):
        about = event.get("involvedObject") or {}
        category = _EVENTS.get(str(event.get("reason")))
        if category is not None and about.get("kind") == "Pod" and about.get("name") in starting:
            last[str(about["name"])] = _Sign(category, "", str(event.get("message") or ""))
    yield from last.values()


def _not_created(job: Job, events: Sequence[Mapping[str, Any]]) -> list[Diagnosis]:
    """Read the newest word on the Job's attempts to create pods; a later success settles it."""
    about = [
        event
        for event in events
        if (event.get("involvedObject") or {}).get("uid") in {job.metadata.uid, None}
        and event.get("reason") in {"FailedCreate", "SuccessfulCreate"}
    ]
    newest = max(about, key=_time_of, default=None)
    if newest is None or newest.get("reason") != "FailedCreate":
        return []
    message = str(newest.get("message") or "")
    category = _category_of_refusal(message)
    detail = _SAID_BY_POD.sub("", _SAID_BY_POD.sub("", message))
    return [_diagnosis(category, _SUMMARY[category](0, ""), detail, 0)]


def _category_of_refusal(message: str) -> Category:
    if "exceeded quota" in message:
        return Category.QUOTA
    # A webhook that can't be reached ("failed calling webhook") may be back in a moment.
    if "denied the request" in message or "violates PodSecurity" in message:
        return Category.REJECTED
    return Category.NOT_CREATED


def _grouped(signs: Iterator[_Sign]) -> dict[tuple[Category, str], list[_Sign]]:
    groups: dict[tuple[Category, str], list[_Sign]] = {}
    for sign in signs:
        groups.setdefault((sign.category, sign.where), []).append(sign)
    return groups


def _summed_up(signs: Sequence[_Sign]) -> Diagnosis:
    category, where, count = signs[0].category, signs[0].where, len(signs)
    detail = Counter(sign.detail for sign in signs).most_common(1)[0][0]
    return _diagnosis(category, _SUMMARY[category](count, where), detail, count)


def _diagnosis(category: Category, summary: str, detail: str, pods: int) -> Diagnosis:
    detail = " ".join(detail.split())
    cut = detail if len(detail) <= LONGEST_DETAIL else f"{detail[: LONGEST_DETAIL - 1]}…"
    return Diagnosis(category=category, summary=summary, detail=cut, mend=_MEND[category], pods=pods)


def _pods(count: int) -> str:
    return counted(count, "pod")


def _do(count: int, one: str, many: str) -> str:
    return f"{_pods(count)} {one if count == 1 else many}"


_SUMMARY: Mapping[Category, Callable[[int, str], str]] = {
    Category.REJECTED: lambda _count, _where: "pods may not be created",
    Category.QUOTA: lambda _count, _where: "no pods can be created, a quota is used up",
    Category.NOT_CREATED: lambda _count, _where: "pods cannot be created",
    Category.IMAGE: lambda count, where: f"{_do(count, 'has', 'have')} no usable image for {where}",
    Category.CONFIG: lambda count, where: f"{_do(count, 'lacks', 'lack')} configuration for {where}",
    Category.CONTAINER: lambda count, where: f"{_do(count, 'cannot', 'cannot')} start container {where}",
    Category.PULLING: lambda count, where: (
        f"{_do(count, 'cannot', 'cannot')} pull the image of {where} so far"
    ),
    Category.PULL_LIMIT: lambda count, where: f"{_do(count, 'waits', 'wait')} for the registry ({where})",
    Category.VOLUME: lambda count, _where: f"{_do(count, 'waits', 'wait')} for a volume",
    Category.SANDBOX: lambda count, _where: f"{_do(count, 'gets', 'get')} no sandbox",
    Category.CRASH_LOOP: lambda count, where: f"{where} fails again and again in {_pods(count)}",
    Category.GATED: lambda count, _where: f"{_do(count, 'is', 'are')} held by a scheduling gate",
    Category.UNSCHEDULABLE: lambda count, _where: f"{_do(count, 'waits', 'wait')} for a machine",
    Category.NODE_SILENT: lambda count, where: (
        f"node {where} does not answer, {_do(count, 'is', 'are')} stuck on it"
    ),
    Category.SIDECAR: lambda count, where: f"{where} keeps {_pods(count)} open although the work is done",
}


def _time_of(event: Mapping[str, Any]) -> str:
    # All are RFC 3339 in UTC, so text orders them; events of the newer API have eventTime and a series.
    series = event.get("series") or {}
    metadata = event.get("metadata") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return str(next(filter(None, times), metadata.get("creationTimestamp") or ""))
