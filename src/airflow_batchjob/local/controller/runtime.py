"""The Job controller at work: hears of changes, syncs each Job some milliseconds later, carries out the plan.

What is known of a Job's pods is kept up to date change by change, and a pod that has ended and been
counted is dropped from it: a sync costs what is alive, not what ever was.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from airflow_batchjob.local.controller.conditions import is_finished
from airflow_batchjob.local.controller.facts import TRACKING_FINALIZER, PodFacts, read_pod
from airflow_batchjob.local.controller.model import MOST_PODS_PER_SYNC, Memory, Plan
from airflow_batchjob.local.controller.sync import sync
from airflow_batchjob.local.controller.template import PodTemplate
from airflow_batchjob.local.controller.ttl import expires_at, foreground_deleted
from airflow_batchjob.local.events import EventRecorder
from airflow_batchjob.local.pod_deletion import begin_deletion
from airflow_batchjob.local.store import AlreadyExists, Change, Store

Object = dict[str, Any]

# Kubernetes waits 1 s to gather changes of pods; here a pod may live for milliseconds only, and
# nothing else shares the controller. Still long enough to count dozens of pods in one write.
BATCH_SECONDS = 0.03
# A Job with thousands of live pods syncs more rarely, so that syncing never takes more than a fifth
# of the processor's time.
REST_PER_SECOND_OF_SYNC = 4.0
REFUSED_RETRY_SECONDS = 1.0

COMPONENT = "job-controller"

_log = logging.getLogger(__name__)


class _Known:
    """What is kept of one Job between syncs."""

    __slots__ = ("cost", "due", "key", "memory", "pods", "template", "timer")

    def __init__(self, key: tuple[str, str]) -> None:
        self.key = key
        self.pods: dict[str, PodFacts] = {}
        self.memory = Memory()
        self.template: tuple[Object, PodTemplate] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.due = 0.0
        self.cost = 0.0


class JobController:
    """Keeps every Job of the store going.

    Args:
        store: The cluster's state.
        events: Where it tells what it does.
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
        self._known: dict[str, _Known] = {}
        self._applying = False
        self._unsubscribe: Callable[[], None] | None = None

    def start(self) -> None:
        """Take up what the store has and follow it. Needs a running event loop."""
        self._unsubscribe = self._store.subscribe(self._heard)
        for job in self._store.list("jobs"):
            self._heard(Change("ADDED", "jobs", job, None, 0))
        for pod in self._store.list("pods"):
            self._heard(Change("ADDED", "pods", pod, None, 0))

    def stop(self) -> None:
        """Do nothing any more."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        for known in self._known.values():
            if known.timer is not None:
                known.timer.cancel()
        self._known.clear()

    def _heard(self, change: Change) -> None:
        if change.kind == "jobs":
            self._heard_of_job(change)
        elif change.kind == "pods":
            self._heard_of_pod(change)

    def _heard_of_job(self, change: Change) -> None:
        metadata = change.object["metadata"]
        uid = metadata["uid"]
        if change.type == "DELETED":
            known = self._known.pop(uid, None)
            if known is not None and known.timer is not None:
                known.timer.cancel()
            asyncio.get_running_loop().call_soon(self._release_pods_of, uid)
            return
        known = self._known.get(uid)
        if known is None:
            known = self._known[uid] = _Known((metadata.get("namespace") or "", metadata["name"]))
        if self._applying:
            return
        old = change.old
        at_once = old is None or old["spec"] != change.object["spec"]
        self._sync_in(uid, known, 0.0 if at_once else BATCH_SECONDS)

    def _heard_of_pod(self, change: Change) -> None:
        pod = change.object
        uid = _controller_of(pod)
        if uid is None:
            return
        known = self._known.get(uid)
        if known is None:
            if change.type != "DELETED" and TRACKING_FINALIZER in (pod["metadata"].get("finalizers") or ()):
                asyncio.get_running_loop().call_soon(self._release_pods_of, uid)
            return
        facts = read_pod(pod)
        was = known.pods.get(facts.name)
        if change.type == "DELETED" or not facts.relevant:
            known.pods.pop(facts.name, None)
        else:
            known.pods[facts.name] = facts
        if not self._applying and (change.type != "MODIFIED" or was != facts):
            self._sync_in(uid, known, max(BATCH_SECONDS, REST_PER_SECOND_OF_SYNC * known.cost))

    def _sync_in(self, uid: str, known: _Known, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if known.timer is not None:
            if known.due <= due:
                return
            known.timer.cancel()
        known.due = due
        known.timer = loop.call_at(due, self._sync, uid)

    def _sync(self, uid: str) -> None:
        known = self._known.get(uid)
        if known is None:
            return
        known.timer = None
        job = self._store.get("jobs", *known.key)
        if job is None or job["metadata"]["uid"] != uid:
            return
        if is_finished(job):
            self._expire(uid, known, job)
            return
        began = time.perf_counter()
        try:
            again = self._carry_out(
                job, known, sync(job, tuple(known.pods.values()), known.memory, self._clock())
            )
        except Exception:  # noqa: BLE001  one Job must not take the controller with it
            _log.exception("Sync of Job %s/%s failed", *known.key)
            again = REFUSED_RETRY_SECONDS
        known.cost = time.perf_counter() - began
        if again is not None and uid in self._known:
            self._sync_in(uid, known, again)

    def _carry_out(self, job: Object, known: _Known, plan: Plan) -> float | None:
        """Do what is planned; return when to look again."""
        self._applying = True
        try:
            self._delete(job, plan)
            self._create(job, known, plan)
            known.memory = plan.memory
            if plan.status is not None and not self._write_status(known, plan.status):
                return REFUSED_RETRY_SECONDS
            for name in plan.strip:
                self._strip(known.key[0], name)
            if plan.final_status is not None:
                self._write_status(known, plan.final_status)
        finally:
            self._applying = False
        for event in plan.events:
            self._tell(job, event.reason, event.message, warning=event.warning)
        if plan.final_status is not None and is_finished({"status": plan.final_status}):
            return 0.0
        if plan.delete or len(plan.create) >= MOST_PODS_PER_SYNC:
            return BATCH_SECONDS
        return plan.look_again_seconds

    def _delete(self, job: Object, plan: Plan) -> None:
        namespace = job["metadata"]["namespace"]
        for deletion in plan.delete:
            if deletion.untracked:
                self._strip(namespace, deletion.name)
            pod = self._store.get("pods", namespace, deletion.name)
            if pod is not None:
                begin_deletion(self._store, pod, self._clock())
                self._tell(job, "SuccessfulDelete", f"Deleted pod: {deletion.name}")

    def _create(self, job: Object, known: _Known, plan: Plan) -> None:
        if not plan.create:
            return
        template = job["spec"]["template"]
        if known.template is None or known.template[0] is not template:
            known.template = (template, PodTemplate(job))
        for new in plan.create:
            while True:
                pod = known.template[1].pod(new)
                try:
                    self._store.create("pods", pod)
                except AlreadyExists:  # five random letters met a pod that is there
                    continue
                break
            self._tell(job, "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")

    def _write_status(self, known: _Known, status: Object) -> bool:
        job = self._store.get("jobs", *known.key)
        if job is None:
            return True
        was, now = (job.get("status") or {}).get("succeeded") or 0, status.get("succeeded") or 0
        elastic = job["spec"].get("completions") == job["spec"]["parallelism"]
        if now < was and not elastic:
            # The API server refuses it, whoever wrote the higher number: the counter only rises.
            _log.error(
                "Job %s/%s: status.succeeded: Invalid value: %s: cannot decrease the succeeded counter",
                *known.key,
                now,
            )
            return False
        self._store.update("jobs", {**job, "status": status})
        return True

    def _strip(self, namespace: str, name: str) -> None:
        pod = self._store.get("pods", namespace, name)
        if pod is None:
            return
        finalizers = pod["metadata"].get("finalizers") or []
        if TRACKING_FINALIZER not in finalizers:
            return
        metadata = {key: value for key, value in pod["metadata"].items() if key != "finalizers"}
        rest = [finalizer for finalizer in finalizers if finalizer != TRACKING_FINALIZER]
        if rest:
            metadata["finalizers"] = rest
        self._store.update("pods", {**pod, "metadata": metadata})

    def _release_pods_of(self, uid: str) -> None:
        """Let go of the pods of a Job that is gone: nobody will count them."""
        if uid in self._known:
            return
        for pod in self._store.pods_of(uid):
            self._strip(pod["metadata"].get("namespace") or "", pod["metadata"]["name"])

    def _expire(self, uid: str, known: _Known, job: Object) -> None:
        """Delete a finished Job whose time is over, or look again when it will be."""
        known.memory = Memory()
        expiry = expires_at(job)
        if expiry is None or job["metadata"].get("deletionTimestamp"):
            return
        now = self._clock()
        if now >= expiry:
            self._store.update("jobs", foreground_deleted(job, now))
        else:
            self._sync_in(uid, known, (expiry - now).total_seconds())

    def _tell(self, job: Object, reason: str, message: str, *, warning: bool = False) -> None:
        self._events.record(job, "Job", reason, message, component=COMPONENT, warning=warning)


def _controller_of(pod: Object) -> str | None:
    for owner in pod["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner["uid"])
    return None
