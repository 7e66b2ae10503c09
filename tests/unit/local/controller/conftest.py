"""A Job and its pods without a cluster: plans are carried out on dicts, pods end when the test says so."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_batchjob.local.controller.facts import TRACKING_FINALIZER, format_time, read_pod
from airflow_batchjob.local.controller.model import Memory, Plan
from airflow_batchjob.local.controller.sync import sync
from airflow_batchjob.local.controller.template import PodTemplate

Object = dict[str, Any]


class Simulated:
    """One Job, synced until nothing more is to be done."""

    def __init__(self, **spec: Any) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=timezone.utc)
        self.memory = Memory()
        self.pods: dict[str, Object] = {}
        self.gone: list[Object] = []
        self.statuses: list[Object] = []
        self.events: list[str] = []
        self.look_again: float | None = None
        restart_policy = spec.pop("restart_policy", "Never")
        template = {
            "metadata": {"labels": {"job-name": "j"}},
            "spec": {"restartPolicy": restart_policy, "containers": [{"name": "main", "command": ["x"]}]},
        }
        defaults: Object = {
            "completionMode": "NonIndexed",
            "backoffLimit": 6,
            "parallelism": 1,
            "completions": 1,
            "podReplacementPolicy": "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed",
            "template": template,
        }
        metadata = {"name": "j", "namespace": "ns", "uid": "job"}
        self.job: Object = {"metadata": metadata, "spec": {**defaults, **spec}, "status": {}}
        self.sync()

    def sync(self) -> Plan:
        """Sync until the plan does nothing; return the last plan that did something."""
        last = Plan()
        for _ in range(20):
            facts = [read_pod(pod) for pod in self.pods.values()]
            plan = sync(self.job, [one for one in facts if one.relevant], self.memory, self.now)
            self.memory, self.look_again = plan.memory, plan.look_again_seconds
            if not self._carry_out(plan):
                return last
            last = plan
        raise AssertionError("the controller does not come to rest")

    def _carry_out(self, plan: Plan) -> bool:
        for deletion in plan.delete:
            if deletion.untracked:
                self._strip(deletion.name)
            self.delete(deletion.name, sync=False)
        template = PodTemplate(self.job)
        for new in plan.create:
            pod = template.pod(new)
            name = pod["metadata"]["name"]
            pod["metadata"] |= {"uid": name, "creationTimestamp": format_time(self.now)}
            pod["spec"] = {**pod["spec"], "nodeName": "node"}
            pod["status"] = {"phase": "Running", "conditions": [_ready(self.now)]}
            self.pods[name] = pod
        self._write(plan.status)
        for name in plan.strip:
            self._strip(name)
        self._write(plan.final_status)
        self.events += [event.reason for event in plan.events]
        return bool(plan.delete or plan.create or plan.status or plan.strip or plan.final_status)

    def _write(self, status: Object | None) -> None:
        if status is not None:
            self.job = {**self.job, "status": status}
            self.statuses.append(status)

    def _strip(self, name: str) -> None:
        metadata = self.pods[name]["metadata"]
        metadata["finalizers"] = [one for one in metadata["finalizers"] if one != TRACKING_FINALIZER]

    @property
    def status(self) -> Object:
        """The Job's status."""
        status: Object = self.job["status"]
        return status

    @property
    def conditions(self) -> list[tuple[str, str, str]]:
        """Type, status and reason, in order."""
        return [(c["type"], c["status"], c["reason"]) for c in self.status.get("conditions") or ()]

    @property
    def live(self) -> dict[str, Object]:
        """Pods that have not ended, by index (else by name)."""
        live = {}
        for name, pod in self.pods.items():
            if pod["status"]["phase"] in ("Pending", "Running"):
                annotations = pod["metadata"].get("annotations") or {}
                live[annotations.get("batch.kubernetes.io/job-completion-index", name)] = pod
        return live

    @property
    def indexes(self) -> list[int]:
        """Indexes of the pods that are active, ascending."""
        active = {key: p for key, p in self.live.items() if "deletionTimestamp" not in p["metadata"]}
        return sorted(int(key) for key in active)

    def first(self) -> str:
        """Return the name of the pod that was created first of those that live."""
        return str(next(iter(self.live.values()))["metadata"]["name"])

    def _named(self, pod: int | str) -> str:
        return str(self.live[str(pod)]["metadata"]["name"])

    def end(self, pod: int | str, exit_code: int = 0, *, sync: bool = True, conditions: Any = ()) -> None:
        """End a pod, given by index or name."""
        name = pod if pod in self.pods else self._named(pod)
        now = format_time(self.now)
        ended = {"exitCode": exit_code, "finishedAt": now, "startedAt": now}
        self.pods[str(name)]["status"] = {
            "phase": "Failed" if exit_code else "Succeeded",
            "containerStatuses": [{"name": "main", "restartCount": 0, "state": {"terminated": ended}}],
            "conditions": [{"type": kind, "status": "True"} for kind in conditions],
        }
        if sync:
            self.sync()

    def fail(self, *pods: int | str, exit_code: int = 1) -> None:
        """Let pods end with an exit code, all at once."""
        for pod in pods:
            self.end(pod, exit_code, sync=False)
        self.sync()

    def succeed(self, *pods: int | str) -> None:
        """Let pods succeed, all at once."""
        for pod in pods:
            self.end(pod, sync=False)
        self.sync()

    def delete(self, pod: int | str, *, sync: bool = True, grace: int = 30) -> None:
        """Begin a pod's deletion."""
        name = pod if pod in self.pods else self._named(pod)
        marks = {
            "deletionTimestamp": format_time(self.now + timedelta(seconds=grace)),
            "deletionGracePeriodSeconds": grace,
        }
        self.pods[str(name)]["metadata"] |= marks
        if sync:
            self.sync()

    def leave(self, exit_code: int = 143) -> None:
        """Let every pod that is being deleted end and go."""
        for name, pod in list(self.pods.items()):
            if "deletionTimestamp" in pod["metadata"] and pod["status"]["phase"] == "Running":
                self.end(name, exit_code, sync=False)
        self.sync()
        for name, pod in list(self.pods.items()):
            if "deletionTimestamp" in pod["metadata"] and not pod["metadata"]["finalizers"]:
                self.gone.append(self.pods.pop(name))
        self.sync()

    def restart(self, pod: int | str, times: int) -> None:
        """Set how often a pod's container was started again."""
        self.pods[str(pod)]["status"]["containerStatuses"] = [
            {"name": "main", "restartCount": times, "state": {}}
        ]
        self.sync()

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)
        self.sync()

    def change(self, **spec: Any) -> None:
        """Edit the Job's spec."""
        self.job = {**self.job, "spec": {**self.job["spec"], **spec}}
        self.sync()


def _ready(now: datetime) -> Object:
    return {"type": "Ready", "status": "True", "lastTransitionTime": format_time(now)}


@pytest.fixture
def job() -> Callable[..., Simulated]:
    """Start a Job with these fields of its spec."""
    return Simulated


@pytest.fixture
def indexed() -> Callable[..., Simulated]:
    """Start an Indexed Job with these fields of its spec; as many pods at once as completions."""

    def start(completions: int, parallelism: int | None = None, **spec: Any) -> Simulated:
        if "backoffLimitPerIndex" in spec:
            spec.setdefault("backoffLimit", 2147483647)
        wide = completions if parallelism is None else parallelism
        return Simulated(completionMode="Indexed", completions=completions, parallelism=wide, **spec)

    return start
