"""The scheduler at work: binds pods to nodes, tells why it cannot, tries again when something changes.

Pods that ask for the same are one group: when the first of them finds no place, none of the others
does, so ten thousand waiting pods cost as much as one.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from airflow_batchjob.local.events import EventRecorder
from airflow_batchjob.local.scheduling.choice import (
    Placed,
    Resident,
    Room,
    Unplaced,
    Wish,
    choose,
    required_anti_affinity,
)
from airflow_batchjob.local.scheduling.requests import Amounts, in_units, pod_requests
from airflow_batchjob.local.store import Change, Store, format_time

Object = dict[str, Any]

COMPONENT = "default-scheduler"
INDEX_LABEL = "batch.kubernetes.io/job-completion-index"  # differs among pods that ask for the same
PLACED_PER_TURN = 8  # of the event loop: requests are not to wait until hundreds have their place
GATED = "Scheduling is blocked due to non-empty scheduling gates"

_log = logging.getLogger(__name__)


class _Group:
    """Pods that ask for the same, in the order they came."""

    __slots__ = ("message", "pods", "told", "wish")

    def __init__(self, wish: Wish) -> None:
        self.wish = wish
        self.pods: dict[str, tuple[str, str]] = {}
        self.message = ""
        self.told: set[str] = set()
        """Uids of the pods that say `message` already."""


class Scheduler:
    """Places the pods of the store on its nodes.

    Args:
        store: The cluster's state.
        events: Where it tells what it does, and what it cannot do.
        clock: Gives the time, aware.
    """

    def __init__(
        self,
        store: Store,
        events: EventRecorder,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        self._store = store
        self._events = events
        self._clock = clock
        self._rooms: dict[str, Room] = {}
        self._placed: dict[str, tuple[str, Amounts, Resident]] = {}
        self._groups: dict[str, _Group] = {}
        self._group_of: dict[str, str] = {}
        self._due: asyncio.Handle | None = None
        self._unsubscribe: Callable[[], None] | None = None

    def start(self) -> None:
        """Take up what the store has and follow it. Needs a running event loop."""
        self._unsubscribe = self._store.subscribe(self._heard)
        for node in self._store.list("nodes"):
            self._heard_of_node("ADDED", node)
        for pod in self._store.list("pods"):
            self._heard_of_pod("ADDED", pod)

    def stop(self) -> None:
        """Place no pod any more."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _heard(self, change: Change) -> None:
        if change.kind == "pods":
            self._heard_of_pod(change.type, change.object)
        elif change.kind == "nodes":
            self._heard_of_node(change.type, change.object)

    def _heard_of_node(self, type_: str, node: Object) -> None:
        name = node["metadata"]["name"]
        before = self._rooms.pop(name, None)
        if type_ != "DELETED":
            room = _room(node)
            if before is not None:
                room.used, room.residents, room.wary = before.used, before.residents, before.wary
            else:
                for uid, (where, requests, resident) in self._placed.items():
                    if where == name:
                        _add(room, uid, requests, resident)
            self._rooms[name] = room
        self._run_soon()

    def _heard_of_pod(self, type_: str, pod: Object) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        uid = metadata["uid"]
        leaving = bool(metadata.get("deletionTimestamp")) and not spec.get("nodeName")
        over = (
            type_ == "DELETED" or leaving or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        )
        if over:
            self._forget_waiting(uid)
            if self._release(uid):
                self._run_soon()
        elif spec.get("nodeName"):
            if uid not in self._placed:
                self._forget_waiting(uid)
                self._take(uid, spec["nodeName"], pod_requests(spec), _resident(pod))
        elif uid not in self._group_of and spec.get("schedulerName", COMPONENT) == COMPONENT:
            self._wait(pod)

    def _wait(self, pod: Object) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        if spec.get("schedulingGates"):
            # Not from within the listener: what is told now would reach the others before this change.
            asyncio.get_running_loop().call_soon(self._tell_gated, metadata["namespace"], metadata["name"])
            return
        signature = _signature(pod)
        group = self._groups.get(signature)
        if group is None:
            wish = Wish(
                namespace=metadata["namespace"],
                labels=metadata.get("labels") or {},
                spec=spec,
                requests=pod_requests(spec),
            )
            group = self._groups[signature] = _Group(wish)
        group.pods[metadata["uid"]] = (metadata["namespace"], metadata["name"])
        self._group_of[metadata["uid"]] = signature
        self._run_soon()

    def _tell_gated(self, namespace: str, name: str) -> None:
        pod = self._store.get("pods", namespace, name)
        if pod is not None and pod["spec"].get("schedulingGates"):
            self._store.update("pods", self._scheduled(pod, "False", "SchedulingGated", GATED))

    def _forget_waiting(self, uid: str) -> None:
        signature = self._group_of.pop(uid, None)
        if signature is None:
            return
        group = self._groups[signature]
        del group.pods[uid]
        group.told.discard(uid)
        if not group.pods:
            del self._groups[signature]

    def _run_soon(self) -> None:
        if self._due is None and self._groups:
            self._due = asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._due = None
        left = PLACED_PER_TURN
        for group in list(self._groups.values()):
            try:
                left -= self._run_group(group, left)
            except Exception:  # noqa: BLE001  one pod must not take the scheduler with it
                _log.exception("Scheduling %s failed", next(iter(group.pods.values()), ""))
            if not left:
                self._run_soon()
                return

    def _run_group(self, group: _Group, most: int) -> int:
        """Place up to so many pods of a group; return how many."""
        placed = 0
        while group.pods and placed < most:
            uid, key = next(iter(group.pods.items()))
            choice = choose(group.wish, tuple(self._rooms.values()))
            if isinstance(choice, Unplaced):
                self._tell_unplaced(group, choice.message)
                break
            self._forget_waiting(uid)
            self._bind(key, choice)
            placed += 1
        return placed

    def _bind(self, key: tuple[str, str], choice: Placed) -> None:
        pod = self._store.get("pods", *key)
        if pod is None or pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"):
            return
        bound = {**pod, "spec": {**pod["spec"], "nodeName": choice.node}}
        self._store.update("pods", self._scheduled(bound, "True", "", ""))
        words = f"Successfully assigned {key[0]}/{key[1]} to {choice.node}"
        self._events.record(pod, "Pod", "Scheduled", words, component=COMPONENT)

    def _tell_unplaced(self, group: _Group, message: str) -> None:
        if group.message != message:
            group.message, group.told = message, set()
            pod = self._store.get("pods", *next(iter(group.pods.values())))
            if pod is not None:
                self._events.record(
                    pod, "Pod", "FailedScheduling", message, component=COMPONENT, warning=True
                )
        if len(group.told) == len(group.pods):
            return
        for uid, key in list(group.pods.items()):
            if uid in group.told:
                continue
            pod = self._store.get("pods", *key)
            if pod is not None:
                self._store.update("pods", self._scheduled(pod, "False", "Unschedulable", message))
            group.told.add(uid)

    def _scheduled(self, pod: Object, status: str, reason: str, message: str) -> Object:
        was = pod.get("status") or {}
        conditions = was.get("conditions") or []
        old = next((one for one in conditions if one["type"] == "PodScheduled"), None)
        now = format_time(self._clock())
        new: Object = {"type": "PodScheduled", "status": status, "lastProbeTime": None}
        new["lastTransitionTime"] = old["lastTransitionTime"] if old and old["status"] == status else now
        if reason:
            new |= {"reason": reason, "message": message}
        others = [one for one in conditions if one["type"] != "PodScheduled"]
        return {**pod, "status": {**was, "conditions": [*others, new]}}

    def _take(self, uid: str, node: str, requests: Amounts, resident: Resident) -> None:
        self._placed[uid] = (node, requests, resident)
        room = self._rooms.get(node)
        if room is not None:
            _add(room, uid, requests, resident)

    def _release(self, uid: str) -> bool:
        placed = self._placed.pop(uid, None)
        if placed is None:
            return False
        node, requests, _ = placed
        room = self._rooms.get(node)
        if room is not None:
            room.residents.pop(uid, None)
            room.wary.pop(uid, None)
            for name, amount in requests.items():
                room.used[name] = room.used.get(name, 0) - amount
        return True


def _add(room: Room, uid: str, requests: Amounts, resident: Resident) -> None:
    room.residents[uid] = resident
    if resident.keeps_away:
        room.wary[uid] = resident
    for name, amount in requests.items():
        room.used[name] = room.used.get(name, 0) + amount


def _resident(pod: Object) -> Resident:
    metadata = pod["metadata"]
    return Resident(metadata["namespace"], metadata.get("labels") or {}, required_anti_affinity(pod["spec"]))


def _room(node: Object) -> Room:
    spec = node.get("spec") or {}
    return Room(
        name=node["metadata"]["name"],
        labels=node["metadata"].get("labels") or {},
        taints=tuple(spec.get("taints") or ()),
        unschedulable=bool(spec.get("unschedulable")),
        allocatable=in_units((node.get("status") or {}).get("allocatable") or {}),
    )


def _signature(pod: Object) -> str:
    """Return what decides a pod's place, as text: pods with the same text share their fate."""
    metadata, spec = pod["metadata"], pod["spec"]
    asked = [
        metadata["namespace"],
        {key: value for key, value in (metadata.get("labels") or {}).items() if key != INDEX_LABEL},
        {
            key: spec.get(key)
            for key in ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints")
        },
        pod_requests(spec),
    ]
    return json.dumps(asked, sort_keys=True)
