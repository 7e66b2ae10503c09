"""A Kubernetes of a few lines: keeps Jobs and pods, applies JSON Patches, watches, and can be told to fail.

Its controller knows one rule: a Job whose deadline is 0 and that is not suspended ends. All else is
told by the test.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import msgspec

from airflow_batchjob.client.protocol import EventType, Page, WatchEvent
from airflow_batchjob.core.errors import (
    ApiConflictError,
    ApiError,
    ApiRefusedError,
    ApiUnavailableError,
    ExpiredError,
    NotFoundError,
)
from airflow_batchjob.core.reading.job import Job, JobRef
from airflow_batchjob.core.reading.pods import Pod
from tests.unit.supervisor.virtual import clock

Object = dict[str, Any]


def refused(code: int, reason: str = "Forbidden") -> ApiRefusedError:
    return ApiRefusedError("ask", code=code, reason=reason, message="no")


def down() -> ApiUnavailableError:
    return ApiUnavailableError("ask", code=503, reason="ServiceUnavailable", message="try again later")


def when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class SmallCluster:
    """A `JobClient` on nothing. `fail` scripts errors, `asked` remembers requests."""

    namespace = "batch"
    server = "https://small.example.com"

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.pods: list[Object] = []
        self.events: list[Object] = []
        self.logs: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.fail: dict[str, list[ApiError]] = {}  # by method; the first goes with each call
        self.always_fail: dict[str, ApiError] = {}
        self.lose_answer_of: set[str] = set()  # the request is done, its answer lost
        self.after: dict[str, Callable[[], object]] = {}  # happens once, before the answer arrives
        self.slow_to_die = False  # stopped Jobs stay FailureTarget until `gone`
        self.clears_start = True  # on a suspension, as Kubernetes does from 1.36 on
        self.mute = False  # watches stay open and say nothing more
        self._changes: list[tuple[int, EventType, Object]] = []
        self._oldest = 0
        self._versions = itertools.count(1)
        self._version = 0
        self._uids = itertools.count(1)
        self._news: list[asyncio.Event] = []

    # What tests say and see

    def job(self, name: str) -> Object:
        return self.objects[self.namespace, name]

    def only(self) -> Object:
        (found,) = self.objects.values()
        return found

    def names(self) -> list[str]:
        return sorted(name for _, name in self.objects)

    def count(self, method: str) -> int:
        return self.asked.count(method)

    def put(self, manifest: Mapping[str, Any]) -> Job:
        """Store a Job without being asked by a client."""
        made: Object = copy.deepcopy(dict(manifest))
        made["metadata"] = {"namespace": self.namespace, **made["metadata"], "uid": f"uid-{next(self._uids)}"}
        made["metadata"]["creationTimestamp"] = when(clock())
        made["spec"] = {"suspend": False, **made.get("spec", {})}
        made.setdefault("status", {})
        return self._store(made, EventType.ADDED)

    def update(self, name: str, *, spec: Object | None = None, **status: Any) -> Job:
        """Change status fields and spec of a Job, as its controller or a person would."""
        changed = copy.deepcopy(self.job(name))
        changed["spec"] |= spec or {}
        changed["status"] |= status
        return self._store(changed, EventType.MODIFIED)

    def label(self, name: str, **labels: str | None) -> None:
        changed = copy.deepcopy(self.job(name))
        held = changed["metadata"]["labels"] | labels
        changed["metadata"]["labels"] = {key: value for key, value in held.items() if value is not None}
        self._store(changed, EventType.MODIFIED)

    def annotate(self, name: str, key: str, text: str) -> None:
        changed = copy.deepcopy(self.job(name))
        changed["metadata"]["annotations"][key] = text
        self._store(changed, EventType.MODIFIED)

    def start(self, name: str, *, active: int = 1, ready: int = 0, **status: Any) -> None:
        self.update(name, active=active, ready=ready, startTime=when(clock()), **status)

    def end(
        self, name: str, kind: str = "Complete", reason: str = "CompletionsReached", **status: Any
    ) -> None:
        """End a Job: `kind` is Complete or Failed."""
        reason = reason or {"Complete": "CompletionsReached", "Failed": "FailedIndexes"}[kind]
        before = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
        old = [c for c in self.job(name)["status"].get("conditions", []) if c["type"] not in {before, kind}]
        self.update(
            name,
            conditions=[*old, condition(before, reason), condition(kind, reason)],
            **{"active": 0, "ready": 0, "terminating": 0} | status,
        )

    def suspend(self, name: str) -> None:
        held = [condition("Suspended", "JobSuspended")]
        start = {"startTime": None} if self.clears_start else {}
        self.update(name, spec={"suspend": True}, conditions=held, active=0, ready=0, **start)

    def resume(self, name: str) -> None:
        over = [condition("Suspended", "JobResumed", status="False")]
        self.update(name, spec={"suspend": False}, conditions=over, startTime=when(clock()), active=1)

    def remove(self, name: str) -> None:
        """Delete a Job as a person would; its watchers get the last state."""
        self._remove(self.namespace, name)

    def forget_changes(self) -> None:
        """Compact: watches from before now are answered with 410."""
        self._oldest = self._version
        self._changes.clear()
        self._wake()

    def end_watches(self) -> None:
        self._changes.append((self._version, EventType.BOOKMARK, {}))
        self._wake()

    # JobClient

    async def create_job(self, manifest: Mapping[str, Any]) -> Job:
        await self._ask("create_job")
        metadata = manifest["metadata"]
        key = (metadata.get("namespace") or self.namespace, metadata["name"])
        if key in self.objects:
            raise ApiConflictError("create", code=409, reason="AlreadyExists", message="exists")
        made = self.put(manifest)
        self._lose("create_job")
        return made

    async def get_job(self, namespace: str, name: str) -> Job:
        await self._ask("get_job")
        return _as_job(self._found(namespace, name))

    async def list_jobs(self, namespace: str, label_selector: str) -> Page[Job]:
        await self._ask("list_jobs")
        found = (o for (where, _), o in self.objects.items() if where == namespace)
        page = Page(tuple(_as_job(o) for o in found if _matches(o, label_selector)), str(self._version))
        self._happen_after("list_jobs")
        return page

    async def watch_jobs(
        self, namespace: str, label_selector: str, resource_version: str
    ) -> AsyncIterator[WatchEvent[Job]]:
        await self._ask("watch_jobs")
        at, news = int(resource_version), asyncio.Event()
        self._news.append(news)
        try:
            while True:
                if at < self._oldest:
                    raise ExpiredError("watch", code=410, reason="Expired", message="too old")
                fresh = [] if self.mute else [c for c in self._changes if c[0] > at]
                for version, kind, changed in fresh:
                    at = version
                    if _matches(changed, label_selector) and changed["metadata"]["namespace"] == namespace:
                        yield WatchEvent(kind, _as_job(changed))
                if self._changes and not self._changes[-1][2]:
                    self._changes.pop()
                    return
                await news.wait()
                news.clear()
                await self._ask("watching")
        finally:
            self._news.remove(news)

    async def patch_job(self, namespace: str, name: str, operations: Sequence[Mapping[str, Any]]) -> Job:
        await self._ask("patch_job")
        changed = patched(self._found(namespace, name), operations)
        done = self._store(changed, EventType.MODIFIED)
        self._let_die(name)
        self._lose("patch_job")
        return done

    async def patch_job_status(
        self, namespace: str, name: str, operations: Sequence[Mapping[str, Any]]
    ) -> Job:
        await self._ask("patch_job_status")
        changed = patched(self._found(namespace, name), operations)
        done = self._store(changed, EventType.MODIFIED)
        self._lose("patch_job_status")
        return done

    async def delete_job(self, namespace: str, name: str, *, uid: str) -> None:
        await self._ask("delete_job")
        found = self.objects.get((namespace, name))
        if found is not None and found["metadata"]["uid"] == uid:
            self._remove(namespace, name)

    async def list_pods(self, namespace: str, label_selector: str) -> Page[Pod]:
        await self._ask("list_pods")
        found = [msgspec.convert(pod, Pod) for pod in self.pods if _matches(pod, label_selector)]
        return Page(tuple(found), str(self._version))

    async def watch_pods(
        self, namespace: str, label_selector: str, resource_version: str
    ) -> AsyncIterator[WatchEvent[Pod]]:
        for pod in (await self.list_pods(namespace, label_selector)).items:
            yield WatchEvent(EventType.ADDED, pod)

    async def pod_log(
        self,
        namespace: str,
        pod: str,
        *,
        container: str,
        tail_lines: int | None = None,
        limit_bytes: int | None = None,
    ) -> bytes:
        await self._ask("pod_log")
        return self.logs.get(pod, b"")

    async def follow_log(
        self, namespace: str, pod: str, *, container: str, since_time: str | None = None
    ) -> AsyncIterator[bytes]:
        await self._ask("follow_log")
        for line in self.logs.get(pod, b"").splitlines():
            yield b"2027-01-15T08:00:00.000000000Z " + line

    async def list_events(self, namespace: str, field_selector: str) -> list[Object]:
        await self._ask("list_events")
        return self.events

    async def close(self) -> None:
        """Nothing to close."""

    # Inside

    async def _ask(self, method: str) -> None:
        self.asked.append(method)
        await asyncio.sleep(0.01)  # every answer takes a little, so that others get their turn
        if script := self.fail.get(method):
            raise script.pop(0)
        if method in self.always_fail:
            raise self.always_fail[method]

    def _happen_after(self, method: str) -> None:
        if method in self.after:
            self.after.pop(method)()

    def _lose(self, method: str) -> None:
        if method in self.lose_answer_of:
            self.lose_answer_of.discard(method)
            raise down()

    def _found(self, namespace: str, name: str) -> Object:
        if (namespace, name) not in self.objects:
            raise NotFoundError("get", code=404, reason="NotFound", message=name)
        return self.objects[namespace, name]

    def _store(self, changed: Object, kind: EventType) -> Job:
        self._version = next(self._versions)
        changed["metadata"]["resourceVersion"] = str(self._version)
        self.objects[changed["metadata"]["namespace"], changed["metadata"]["name"]] = changed
        self._changes.append((self._version, kind, changed))
        self._wake()
        return _as_job(changed)

    def _remove(self, namespace: str, name: str) -> None:
        gone = copy.deepcopy(self.objects.pop((namespace, name)))
        self._version = next(self._versions)
        gone["metadata"]["resourceVersion"] = str(self._version)
        self._changes.append((self._version, EventType.DELETED, gone))
        self._wake()

    def _wake(self) -> None:
        for news in self._news:
            news.set()

    def _let_die(self, name: str) -> None:
        job = self.job(name)
        over = any(c["type"] in {"Failed", "Complete"} for c in job["status"].get("conditions", []))
        if over or job["spec"].get("suspend") or job["spec"].get("activeDeadlineSeconds") != 0:
            return
        if self.slow_to_die:
            self.update(name, conditions=[condition("FailureTarget", "DeadlineExceeded")])
        else:
            self.end(name, "Failed", "DeadlineExceeded")


def condition(kind: str, reason: str = "", *, status: str = "True", message: str = "") -> Object:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message or f"{reason} happened",
        "lastTransitionTime": when(clock()),
    }


def pod_of(job: Job | JobRef, index: int, phase: str = "Pending", **status: Any) -> Object:
    """Return a pod of a Job, with its completion index."""
    uid = job.uid if isinstance(job, JobRef) else job.metadata.uid
    return {
        "metadata": {
            "name": f"pod-{index}",
            "namespace": "batch",
            "uid": f"pod-uid-{index}",
            "creationTimestamp": when(clock()),
            "labels": {"batch.kubernetes.io/controller-uid": uid},
            "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
        },
        "spec": {"containers": [{"name": "main"}]},
        "status": {"phase": phase, **status},
    }


def unschedulable(message: str = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.") -> Object:
    return condition("PodScheduled", "Unschedulable", status="False", message=message)


def patched(document: Object, operations: Sequence[Mapping[str, Any]]) -> Object:
    """Return the document after a JSON Patch; 422 if a test fails or a path is missing."""
    result = copy.deepcopy(document)
    for operation in operations:
        *way, last = [p.replace("~1", "/").replace("~0", "~") for p in operation["path"].split("/")[1:]]
        place: Any = result
        try:
            for part in way:
                place = place[part]
            if operation["op"] == "remove":
                del place[last]
            holds = operation["op"] != "test" or place[last] == operation["value"]
        except KeyError:
            holds = False
        if not holds:
            message = "the server rejected our request due to an error in our request"
            raise ApiRefusedError("patch", code=422, reason="Invalid", message=message)
        if operation["op"] in {"add", "replace"}:
            place[last] = copy.deepcopy(operation["value"])
    return result


def _matches(found: Object, selector: str) -> bool:
    if not found:
        return False
    labels = found["metadata"].get("labels", {})
    parts = [part.split("=", 1) for part in selector.split(",")]
    return all(
        labels.get(key[:-1]) != value if key.endswith("!") else labels.get(key) == value
        for key, value in parts
    )


def _as_job(found: Object) -> Job:
    return msgspec.convert(found, Job)
