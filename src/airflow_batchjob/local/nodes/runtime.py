"""The nodes at work: shown in the store, lost at once or with a warning, brought back; lost pods cleared.

Whoever deletes a Node object, by command, by the seeded rate or with kubectl, has lost that machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow_batchjob.local.agent.runtime import NodeAgent
from airflow_batchjob.local.events import EventRecorder
from airflow_batchjob.local.nodes.machines import Machine
from airflow_batchjob.local.nodes.objects import node_object
from airflow_batchjob.local.pod_deletion import begin_deletion
from airflow_batchjob.local.scheduling.matching import tolerates
from airflow_batchjob.local.store import Change, Store, format_time

Object = dict[str, Any]

# On a real cluster about 50 s pass until the pods of a node that is gone are marked. Nothing here
# has to be waited for; one second keeps the state visible in which they still look alive.
GONE_AFTER_SECONDS = 1.0
# There the pods have been unready for that long by then, so the Job controller, which counts its delay
# of 10 s from there, replaces them at once. The same is told here, or a loss would cost 10 s more.
UNREADY_FOR = timedelta(seconds=50)
RECLAIM_TAINT = "airflow-batchjob/reclaim"
RECLAIM_GRACE_SECONDS = 2.0

_OVER = ("Succeeded", "Failed")


class UnknownMachineError(KeyError):
    """No machine of that name was declared."""


class NodeKeeper:
    """Keeps a Node for every machine that is there.

    Args:
        store: The cluster's state.
        agent: Runs the nodes' pods.
        events: Where it tells what happens.
        machines: All machines, each of them there at the start.
        clock: Gives the time, aware.
    """

    def __init__(
        self,
        store: Store,
        agent: NodeAgent,
        events: EventRecorder,
        machines: Iterable[Machine],
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        self._store = store
        self._agent = agent
        self._events = events
        self._machines = {machine.name: machine for machine in machines}
        self._clock = clock
        self._timers: dict[object, asyncio.TimerHandle] = {}
        self._unsubscribe: Callable[[], None] | None = None

    @property
    def machines(self) -> tuple[Machine, ...]:
        """All declared machines, lost ones too."""
        return tuple(self._machines.values())

    def start(self) -> None:
        """Show the nodes and follow the store. Needs a running event loop."""
        self._unsubscribe = self._store.subscribe(self._heard)
        for name in self._machines:
            self.bring_back(name)

    def stop(self) -> None:
        """Lose and bring back nothing any more."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def is_there(self, name: str) -> bool:
        """Return whether a machine is there now.

        Raises:
            UnknownMachineError: There never was one of that name.
        """
        self._declared(name)
        return self._store.get("nodes", "", name) is not None

    def lose(self, name: str, *, back_after_seconds: float | None = None) -> bool:
        """Lose a machine as in a power cut; return False where it was not there.

        Args:
            name: Whose.
            back_after_seconds: When it comes back; None: by `bring_back` only.

        Raises:
            UnknownMachineError: There never was one of that name.
        """
        self._declared(name)
        if back_after_seconds is not None:
            self._later(("back", name), back_after_seconds, self.bring_back, name)
        return self._store.delete("nodes", "", name) is not None

    def reclaim(
        self,
        name: str,
        *,
        grace_seconds: float = RECLAIM_GRACE_SECONDS,
        back_after_seconds: float | None = None,
    ) -> bool:
        """Take a machine back with a warning: taint it, evict its pods, lose it when the time is over.

        Args:
            name: Whose.
            grace_seconds: From the warning to the loss.
            back_after_seconds: When it comes back, counted from the loss; None: by `bring_back` only.

        Raises:
            UnknownMachineError: There never was one of that name.
        """
        self._declared(name)
        node = self._store.get("nodes", "", name)
        if node is None:
            return False
        spec = node.get("spec") or {}
        taint = {"key": RECLAIM_TAINT, "effect": "NoExecute", "timeAdded": format_time(self._clock())}
        self._store.update(
            "nodes", {**node, "spec": {**spec, "taints": [*(spec.get("taints") or ()), taint]}}
        )
        self._later(("lose", name), grace_seconds, self._lose_later, name, back_after_seconds)
        return True

    def bring_back(self, name: str) -> bool:
        """Bring a lost machine back; return False where it is there.

        Raises:
            UnknownMachineError: There never was one of that name.
        """
        machine = self._declared(name)
        if self._store.get("nodes", "", name) is not None:
            return False
        self._store.create("nodes", node_object(machine, self._clock()))
        return True

    def _declared(self, name: str) -> Machine:
        if name not in self._machines:
            known = ", ".join(self._machines)
            raise UnknownMachineError(f"{name!r} is no machine of this cluster. There are: {known}")
        return self._machines[name]

    def _lose_later(self, name: str, back_after_seconds: float | None) -> None:
        self.lose(name, back_after_seconds=back_after_seconds)

    def _later(self, key: object, seconds: float, act: Callable[..., object], *arguments: object) -> None:
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()

        def run() -> None:
            self._timers.pop(key, None)
            act(*arguments)

        self._timers[key] = asyncio.get_running_loop().call_later(seconds, run)

    def _heard(self, change: Change) -> None:
        if change.kind == "nodes":
            name, uid = change.object["metadata"]["name"], change.object["metadata"]["uid"]
            if change.type == "DELETED":
                self._agent.drop_node(name)
                pods = [pod["metadata"]["uid"] for pod in self._pods_on(name)]
                self._later(("gone", uid), GONE_AFTER_SECONDS, self._clear, name, frozenset(pods))
            elif change.type == "MODIFIED" and _evicting_taints(change.object):
                asyncio.get_running_loop().call_soon(self._evict_intolerant, name)
        elif change.kind == "pods" and change.type == "ADDED":
            node, uid = change.object["spec"].get("nodeName"), change.object["metadata"]["uid"]
            if node and self._store.get("nodes", "", node) is None:
                self._later(("gone", uid), GONE_AFTER_SECONDS, self._clear, node, frozenset([uid]))

    def _pods_on(self, node: str) -> list[Object]:
        return [pod for pod in self._store.list("pods") if pod["spec"].get("nodeName") == node]

    def _clear(self, node: str, uids: frozenset[str]) -> None:
        """Mark the pods of a node that is gone, and delete them: nobody else can."""
        for pod in self._pods_on(node):
            if pod["metadata"]["uid"] not in uids:
                continue
            if (pod.get("status") or {}).get("phase") not in _OVER:
                now = self._clock()
                marked = _disrupted(pod, "DeletionByPodGC", "PodGC: node no longer exists", now)
                self._store.update("pods", _failed(marked, now - UNREADY_FOR))
            left = self._store.get("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
            if left is not None:
                begin_deletion(self._store, left, self._clock(), grace_seconds=0)

    def _evict_intolerant(self, name: str) -> None:
        node = self._store.get("nodes", "", name)
        if node is None:
            return
        taints = _evicting_taints(node)
        for pod in self._pods_on(name):
            over = (pod.get("status") or {}).get("phase") in _OVER
            if over or pod["metadata"].get("deletionTimestamp"):
                continue
            tolerations = pod["spec"].get("tolerations") or ()
            if all(tolerates(tolerations, taint) for taint in taints):
                continue
            words = "Taint manager: deleting due to NoExecute taint"
            marked = _disrupted(pod, "DeletionByTaintManager", words, self._clock())
            begin_deletion(self._store, self._store.update("pods", marked), self._clock())
            self._events.record(
                pod,
                "Pod",
                "TaintManagerEviction",
                f"Marking for deletion Pod {pod['metadata']['namespace']}/{pod['metadata']['name']}",
                component="taint-eviction-controller",
            )


def _evicting_taints(node: Object) -> list[Object]:
    taints = (node.get("spec") or {}).get("taints") or ()
    return [taint for taint in taints if taint.get("effect") == "NoExecute"]


def _disrupted(pod: Object, reason: str, message: str, now: datetime) -> Object:
    status = pod.get("status") or {}
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": format_time(now),
    }
    others = [one for one in status.get("conditions") or () if one["type"] != "DisruptionTarget"]
    return {**pod, "status": {**status, "conditions": [*others, condition]}}


def _failed(pod: Object, unready_since: datetime) -> Object:
    status = pod["status"]
    conditions = [
        {**one, "status": "False", "lastTransitionTime": format_time(unready_since)}
        if one["type"] in ("Ready", "ContainersReady")
        else one
        for one in status["conditions"]
    ]
    return {**pod, "status": {**status, "phase": "Failed", "conditions": conditions}}
