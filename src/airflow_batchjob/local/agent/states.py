"""What a container is doing, and the pod status that its containers add up to. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

from airflow_batchjob.local.agent.environment import ADDRESS
from airflow_batchjob.local.store import format_time

Object = dict[str, Any]

NEVER = datetime.fromtimestamp(0, timezone.utc)  # the kubelet's start time of what never started

_ADDRESSES = [{"ip": ADDRESS}]
START_ERROR_CODE = 128
KILLED_CODE = 137


@dataclass(frozen=True, slots=True)
class Waiting:
    """Not running yet, or not again yet."""

    reason: str = "ContainerCreating"
    message: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """Running."""

    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminated:
    """Ended."""

    exit_code: int
    reason: str
    started_at: datetime
    finished_at: datetime
    message: str = ""


State = Waiting | Running | Terminated


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One container as the pod's status shows it."""

    name: str
    image: str
    state: State
    last: Terminated | None = None
    restarts: int = 0
    container_id: str = ""
    sidecar: bool = False
    """An init container that goes on beside the others."""

    @property
    def succeeded(self) -> bool:
        """Ended with exit code 0."""
        return isinstance(self.state, Terminated) and self.state.exit_code == 0


def not_started(container: Object, spec: Object, *, init: bool) -> View:
    """Return one container of a pod's spec before its first start."""
    return View(
        name=container["name"],
        image=container.get("image") or "",
        state=Waiting("PodInitializing") if spec.get("initContainers") else Waiting(),
        sidecar=init and container.get("restartPolicy") == "Always",
    )


def initialized(inits: tuple[View, ...]) -> bool:
    """Return whether all init containers are done, and sidecars have started."""
    return all(
        (isinstance(view.state, (Running, Terminated)) or view.last is not None)
        if view.sidecar
        else view.succeeded
        for view in inits
    )


def phase(restart_policy: str, inits: tuple[View, ...], mains: tuple[View, ...]) -> str:
    """Return the phase that the containers add up to."""
    for view in inits:
        if not view.sidecar and isinstance(view.state, Terminated) and view.state.exit_code:
            return "Failed" if restart_policy == "Never" else "Pending"
    if not initialized(inits):
        return "Pending"
    states = [view.state for view in mains]
    if any(isinstance(v.state, Waiting) and v.last is None for v in mains):
        return "Pending"
    if any(isinstance(state, Running) for state in states):
        return "Running"
    ended = [state for state in states if isinstance(state, Terminated)]
    if len(ended) < len(states) or restart_policy == "Always":
        return "Running"  # one waits for its next start
    if all(state.exit_code == 0 for state in ended):
        return "Succeeded"
    return "Failed" if restart_policy == "Never" else "Running"


def final_phase(mains: tuple[View, ...]) -> str:
    """Return the phase of a pod that was ended from outside: no restart will follow."""
    return "Succeeded" if mains and all(view.succeeded for view in mains) else "Failed"


def container_status(view: View) -> Object:
    """Return one entry of containerStatuses."""
    running = isinstance(view.state, Running)
    status: Object = {
        "name": view.name,
        "image": view.image,
        "imageID": "",
        "ready": running,
        "started": running,
        "restartCount": view.restarts,
        "state": _state(view.state, view.container_id),
        "lastState": _state(view.last, view.container_id) if view.last else {},
    }
    if view.container_id:
        status["containerID"] = view.container_id
    return status


def _state(state: State, container_id: str) -> Object:
    if isinstance(state, Waiting):
        waiting = {"reason": state.reason}
        return {"waiting": {**waiting, "message": state.message} if state.message else waiting}
    if isinstance(state, Running):
        return {"running": {"startedAt": format_time(state.started_at)}}
    ended: Object = {
        "exitCode": state.exit_code,
        "reason": state.reason,
        "startedAt": format_time(state.started_at),
        "finishedAt": format_time(state.finished_at),
    }
    if state.message:
        ended["message"] = state.message
    if container_id:
        ended["containerID"] = container_id
    return {"terminated": ended}


def pod_status(
    was: Object, inits: tuple[View, ...], mains: tuple[View, ...], phase_: str, now: datetime
) -> Object:
    """Return the status of a pod whose containers are so.

    Args:
        was: Its status so far; what the agent doesn't decide stays.
        inits: Its init containers.
        mains: Its containers.
        phase_: The phase.
        now: The time, aware; for conditions that change.
    """
    status = {
        **was,
        "phase": phase_,
        "conditions": _conditions(was.get("conditions") or [], _wanted_conditions(inits, mains, phase_), now),
        "hostIP": ADDRESS,
        "hostIPs": _ADDRESSES,
        "podIP": ADDRESS,
        "podIPs": _ADDRESSES,
        "startTime": was.get("startTime") or format_time(now),
        "containerStatuses": [container_status(view) for view in mains],
    }
    if inits:
        status["initContainerStatuses"] = [container_status(view) for view in inits]
    return status


_Wanted = tuple[str, bool, tuple[str, str]]
"""Type, whether it holds, and reason and message where it does not."""


def _wanted_conditions(inits: tuple[View, ...], mains: tuple[View, ...], phase_: str) -> tuple[_Wanted, ...]:
    over = phase_ in ("Succeeded", "Failed")
    unready = [view.name for view in mains if not isinstance(view.state, Running)]
    ready = phase_ == "Running" and not unready
    if over:
        not_ready = ("PodCompleted" if phase_ == "Succeeded" else "PodFailed", "")
    else:
        not_ready = ("ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]")
    incomplete = [view.name for view in inits if not view.sidecar and not view.succeeded]
    is_initialized = initialized(inits) or phase_ == "Succeeded"
    not_initialized = (
        "ContainersNotInitialized",
        f"containers with incomplete status: [{' '.join(incomplete)}]",
    )
    return (
        ("PodReadyToStartContainers", not over, ("", "")),
        ("Initialized", is_initialized, not_initialized),
        ("Ready", ready, not_ready),
        ("ContainersReady", ready, not_ready),
    )


def _conditions(was: list[Object], wanted: tuple[_Wanted, ...], now: datetime) -> list[Object]:
    old = {condition["type"]: condition for condition in was}
    new = []
    for kind, holds, (reason, message) in wanted:
        status = "True" if holds else "False"
        before = old.get(kind)
        since = before["lastTransitionTime"] if before and before["status"] == status else format_time(now)
        new.append(_condition(kind, status, since, *(("", "") if holds else (reason, message))))
    ours = {kind for kind, _, _ in wanted}
    return [*(condition for condition in was if condition["type"] not in ours), *new]


@lru_cache(maxsize=256)  # thousands of pods share a few: nothing in the store is ever changed in place
def _condition(kind: str, status: str, since: str, reason: str, message: str) -> Object:
    told = {name: text for name, text in (("reason", reason), ("message", message)) if text}
    return {"type": kind, "status": status, "lastProbeTime": None, **told, "lastTransitionTime": since}
