"""A pod in one line: how many containers are ready, and the one word that says where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from airflow_batchjob.local.api.durations import age, human_duration, moment
from airflow_batchjob.local.store import Object

_ENDED = ("Succeeded", "Failed")


def pod_cells(pod: Object, now: datetime) -> list[Any]:
    """Return the cells of a pod's row."""
    spec, status = pod["spec"], pod.get("status") or {}
    statuses: list[Object] = status.get("containerStatuses") or []
    sidecars = {one["name"] for one in spec.get("initContainers", ()) if one.get("restartPolicy") == "Always"}
    init: list[Object] = status.get("initContainerStatuses") or []
    ready = sum(bool(one.get("ready")) for one in statuses)
    ready += sum(bool(one.get("ready")) for one in init if one["name"] in sidecars)
    counted = [*statuses, *(one for one in init if one["name"] in sidecars or not statuses)]
    return [
        pod["metadata"]["name"],
        f"{ready}/{len(spec.get('containers', ())) + len(sidecars)}",
        _state(pod, sidecars),
        _restarts(counted, now),
        age(pod, now),
        status.get("podIP") or "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        "<none>",
    ]


def _restarts(statuses: Sequence[Object], now: datetime) -> str:
    count = sum(one.get("restartCount") or 0 for one in statuses)
    ends = [
        one["lastState"]["terminated"]["finishedAt"]
        for one in statuses
        if (one.get("lastState") or {}).get("terminated")
    ]
    return f"{count} ({human_duration(now - moment(max(ends)))} ago)" if count and ends else str(count)


def _state(pod: Object, sidecars: set[str]) -> str:
    status = pod.get("status") or {}
    phase = status.get("phase") or ""
    if pod["metadata"].get("deletionTimestamp") and phase not in _ENDED:
        return "Terminating"
    conditions = {one["type"]: one for one in status.get("conditions", ())}
    state = status.get("reason") or phase
    if (conditions.get("PodScheduled") or {}).get("reason") == "SchedulingGated":
        state = "SchedulingGated"
    initializing = _init_state(pod, sidecars)
    if initializing and (conditions.get("Initialized") or {}).get("status") != "True":
        return initializing
    return _container_state(state, status.get("containerStatuses") or [], conditions)


def _init_state(pod: Object, sidecars: set[str]) -> str:
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or ()
    for number, one in enumerate(statuses):
        state = one.get("state") or {}
        ended, waiting = state.get("terminated"), (state.get("waiting") or {}).get("reason", "")
        if (ended and ended["exitCode"] == 0) or (one["name"] in sidecars and one.get("started")):
            continue
        if ended:
            return f"Init:{ended.get('reason') or 'ExitCode:' + str(ended['exitCode'])}"
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{number}/{len(pod['spec'].get('initContainers', ()))}"
    return ""


def _container_state(state: str, statuses: Sequence[Object], conditions: dict[str, Object]) -> str:
    running, failed = False, ""
    for one in reversed(statuses):
        now = one.get("state") or {}
        if (now.get("waiting") or {}).get("reason"):
            state = now["waiting"]["reason"]
        elif ended := now.get("terminated"):
            state = ended.get("reason") or f"ExitCode:{ended['exitCode']}"
            failed = state if ended["exitCode"] else failed
        elif one.get("ready") and now.get("running"):
            running = True
    if state != "Completed":
        return state
    if running:
        return "Running" if (conditions.get("Ready") or {}).get("status") == "True" else "NotReady"
    return failed or state
