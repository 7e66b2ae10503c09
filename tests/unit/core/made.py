"""Jobs, pods and orders for tests, in one line each."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import msgspec

from airflow_batchjob.core.event import Order
from airflow_batchjob.core.identity.marks import (
    DEADLINE,
    DIGESTS,
    GENERATION,
    HOLDER,
    INCARNATION,
    QUEUE_LABEL,
    REPORTED,
    STOP,
)
from airflow_batchjob.core.reading.job import Job, JobRef
from airflow_batchjob.core.reading.pods import Pod

NOW = 1_800_000_000.0
REF = JobRef("batch", "embed-3f2a", "uid-1")
HOLDER_NOW = "ti/1"


def when(seconds: float) -> str:
    """Return a time as Kubernetes writes it; whole seconds."""
    return datetime.fromtimestamp(int(seconds), tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(
    kind: str, reason: str = "", *, at: float = NOW, status: str = "True", message: str = ""
) -> Any:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": when(at),
    }


def failed(reason: str, *, at: float = NOW, message: str = "") -> list[Any]:
    return [condition(kind, reason, at=at, message=message) for kind in ("FailureTarget", "Failed")]


def complete(reason: str = "CompletionsReached") -> list[Any]:
    return [condition("SuccessCriteriaMet", reason), condition("Complete", reason)]


def suspended(*, at: float = NOW) -> list[Any]:
    return [condition("Suspended", "JobSuspended", at=at)]


def job(*conditions: Any, spec: dict[str, Any] | None = None, **fields: Any) -> Job:
    """Return an Indexed Job of ten completions, held by `HOLDER_NOW`.

    Args:
        conditions: Of its status.
        spec: Over the spec.
        fields: `generation`, `holder`, `incarnation`, `digests`, `stop`, `deadline`, `reported`, `queue`,
            `deleted_at`, `uid`; the rest is its status, with Kubernetes' names.
    """
    marks = {
        HOLDER: fields.pop("holder", HOLDER_NOW),
        INCARNATION: fields.pop("incarnation", ""),
        DIGESTS: json.dumps(fields.pop("digests", {})),
        **{
            key: json.dumps(fields.pop(name))
            for name, key in (("stop", STOP), ("deadline", DEADLINE), ("reported", REPORTED))
            if name in fields
        },
    }
    labels = {GENERATION: str(fields.pop("generation", 0))}
    if "queue" in fields:
        labels[QUEUE_LABEL] = fields.pop("queue")
    metadata: dict[str, Any] = {
        "name": REF.name,
        "namespace": REF.namespace,
        "uid": fields.pop("uid", REF.uid),
        "labels": labels,
        "annotations": marks,
    }
    if "deleted_at" in fields:
        metadata["deletionTimestamp"] = when(fields.pop("deleted_at"))
    started_at = fields.pop("started_at", None)
    status = fields | {"conditions": list(conditions)}
    if started_at is not None:
        status["startTime"] = when(started_at)
    asked = {"completions": 10, "parallelism": 5, "completionMode": "Indexed", **(spec or {})}
    return msgspec.convert({"metadata": metadata, "spec": asked, "status": status}, Job)


def order(**fields: Any) -> Order:
    return Order(
        **{
            "job": REF,
            "identity": "abc",
            "generation": 0,
            "holder": HOLDER_NOW,
            "completions": 10,
            "indexed": True,
            **fields,
        }
    )


def pod(
    name: str = "pod", phase: str = "Pending", *conditions: Any, created_at: float = NOW, **spec: Any
) -> Pod:
    metadata: dict[str, Any] = {"name": name, "uid": f"uid-{name}", "creationTimestamp": when(created_at)}
    if "deleted_at" in spec:
        metadata["deletionTimestamp"] = when(spec.pop("deleted_at"))
    status = {"phase": phase, "conditions": list(conditions)}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod)


def unscheduled(name: str = "waiting", *, since: float = NOW, words: str = "0/3 nodes are available") -> Pod:
    said = condition("PodScheduled", "Unschedulable", status="False", message=words)
    return pod(name, "Pending", said, created_at=since)


def scheduled(name: str = "placed", *, at: float = NOW, phase: str = "Pending") -> Pod:
    return pod(name, phase, condition("PodScheduled", at=at), nodeName="node-1")
