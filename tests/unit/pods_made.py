"""Pods as an API server would write them, one line each."""

from __future__ import annotations

from typing import Any

import msgspec

from airflow_batchjob.core.reading.pods import INDEX_KEY, Pod

START = "2026-03-01T12:00:00Z"


def pod(
    index: int | None = 0,
    phase: str = "Running",
    *statuses: dict[str, Any],
    name: str | None = None,
    created: str = START,
    node: str = "node-1",
    **more: Any,
) -> Pod:
    """A pod; `statuses` are its containers' (see `container`), `more` goes into status, spec or metadata."""
    name = name or f"embed-{index}-x"
    metadata: dict[str, Any] = {
        "name": name, "namespace": "ml", "uid": f"u-{name}", "creationTimestamp": created,
        "annotations": {} if index is None else {INDEX_KEY: str(index)},
    }  # fmt: skip
    limits = more.pop("limits", {})
    spec: dict[str, Any] = {
        "nodeName": node, "restartPolicy": more.pop("restartPolicy", "Never"),
        "containers": [{"name": s["name"], "resources": {"limits": limits}} for s in statuses],
        "initContainers": more.pop("initContainers", []),
        "schedulingGates": more.pop("schedulingGates", []),
    }  # fmt: skip
    if "deleted" in more:
        metadata["deletionTimestamp"] = more.pop("deleted")
    status = {"phase": phase, "containerStatuses": list(statuses), **more}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod)


def container(name: str = "main", *, last: dict[str, Any] | None = None, **state: Any) -> dict[str, Any]:
    """A container's status, e.g. `container(terminated={"exitCode": 1})`."""
    return {"name": name, "state": state, "lastState": {"terminated": last} if last else {}}


def exited(code: int, reason: str = "", message: str = "", at: str = START, **more: Any) -> dict[str, Any]:
    """A terminated state."""
    reason = reason or ("Error" if code else "Completed")
    return {"exitCode": code, "reason": reason, "message": message, "finishedAt": at, **more}


def condition(kind: str, status: str = "True", reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}
