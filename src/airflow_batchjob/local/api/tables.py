"""Rows for `kubectl get`: which columns each kind has, and what stands in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from airflow_batchjob.local.api.durations import age, human_duration, moment
from airflow_batchjob.local.api.pod_cells import pod_cells
from airflow_batchjob.local.api.resources import Resource
from airflow_batchjob.local.api.writing import shown
from airflow_batchjob.local.store import Object

Cells = list[Any]
_Row = Callable[[Object, datetime], Cells]
_WIDE = 1


def _columns(*names: str, wide: Sequence[str] = ()) -> list[Object]:
    narrow = [_column(name, 0) for name in names]
    return [*narrow, *(_column(name, _WIDE) for name in wide)]


def _column(name: str, priority: int) -> Object:
    format_ = "name" if name == "Name" else ""
    return {"name": name, "type": "string", "format": format_, "description": "", "priority": priority}


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def _job(job: Object, now: datetime) -> Cells:
    spec, status = job["spec"], job.get("status") or {}
    start, end = status.get("startTime"), status.get("completionTime")
    duration = human_duration((moment(end) if end else now) - moment(start)) if start else ""
    containers = spec["template"]["spec"].get("containers", ())
    selector = (spec.get("selector") or {}).get("matchLabels") or {}
    return [
        _name(job),
        _job_state(job),
        _job_completions(spec, status.get("succeeded") or 0),
        duration,
        age(job, now),
        ",".join(one.get("name", "") for one in containers),
        ",".join(one.get("image", "") for one in containers),
        ",".join(f"{key}={value}" for key, value in selector.items()),
    ]


def _job_completions(spec: Object, succeeded: int) -> str:
    if "completions" in spec:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism", 1)
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_state(job: Object) -> str:
    conditions = (job.get("status") or {}).get("conditions", ())
    true = {one["type"] for one in conditions if one["status"] == "True"}
    for type_ in ("Complete", "Failed"):
        if type_ in true:
            return type_
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next(
        (one for one in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if one in true), "Running"
    )


def _node(node: Object, now: datetime) -> Cells:
    status, info = node.get("status") or {}, (node.get("status") or {}).get("nodeInfo") or {}
    ready = next((one["status"] for one in status.get("conditions", ()) if one["type"] == "Ready"), "Unknown")
    state = {"True": "Ready", "False": "NotReady"}.get(ready, "Unknown")
    if (node.get("spec") or {}).get("unschedulable"):
        state += ",SchedulingDisabled"
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels") or {}
    roles = ",".join(sorted(key[len(prefix) :] for key in labels if key.startswith(prefix)))
    addresses = {one["type"]: one["address"] for one in status.get("addresses", ())}
    return [
        _name(node),
        state,
        roles or "<none>",
        age(node, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", "<none>"),
        addresses.get("ExternalIP", "<none>"),
        info.get("osImage", "<unknown>"),
        info.get("kernelVersion", "<unknown>"),
        info.get("containerRuntimeVersion", "<unknown>"),
    ]


def _event(event: Object, now: datetime) -> Cells:
    about = event.get("involvedObject") or {}
    first, last = event.get("firstTimestamp"), event.get("lastTimestamp")
    when = last or first or event.get("eventTime")
    source = event.get("source") or {}
    return [
        human_duration(now - moment(when)) if when else "<unknown>",
        event.get("type", ""),
        event.get("reason", ""),
        f"{about.get('kind', '').lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        source.get("component", ""),
        event.get("message", "").strip(),
        human_duration(now - moment(first)) if first else "<unknown>",
        str(event.get("count", 1)),
        _name(event),
    ]


def _service(service: Object, now: datetime) -> Cells:
    spec = service.get("spec") or {}
    ports = ",".join(f"{port['port']}/{port.get('protocol', 'TCP')}" for port in spec.get("ports", ()))
    selector = ",".join(f"{key}={value}" for key, value in (spec.get("selector") or {}).items())
    cells = [_name(service), spec.get("type", ""), spec.get("clusterIP", "<none>"), "<none>"]
    return [*cells, ports or "<none>", age(service, now), selector or "<none>"]


def _secret(secret: Object, now: datetime) -> Cells:
    return [_name(secret), secret.get("type", ""), str(len(secret.get("data") or {})), age(secret, now)]


def _config_map(config_map: Object, now: datetime) -> Cells:
    count = len(config_map.get("data") or {}) + len(config_map.get("binaryData") or {})
    return [_name(config_map), str(count), age(config_map, now)]


def _namespace(namespace: Object, now: datetime) -> Cells:
    return [_name(namespace), (namespace.get("status") or {}).get("phase", ""), age(namespace, now)]


def _plain(obj: Object, now: datetime) -> Cells:
    return [_name(obj), age(obj, now)]


_TABLES: Mapping[str, tuple[list[Object], _Row]] = {
    "jobs": (
        _columns(
            "Name", "Status", "Completions", "Duration", "Age", wide=("Containers", "Images", "Selector")
        ),
        _job,
    ),
    "pods": (
        _columns(
            "Name",
            "Ready",
            "Status",
            "Restarts",
            "Age",
            wide=("IP", "Node", "Nominated Node", "Readiness Gates"),
        ),
        pod_cells,
    ),
    "nodes": (
        _columns(
            "Name",
            "Status",
            "Roles",
            "Age",
            "Version",
            wide=("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
        ),
        _node,
    ),
    "events": (
        [
            *_columns("Last Seen", "Type", "Reason", "Object"),
            *_columns(wide=("Subobject", "Source")),
            *_columns("Message"),
            *_columns(wide=("First Seen", "Count", "Name")),
        ],
        _event,
    ),
    "services": (
        _columns("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", wide=("Selector",)),
        _service,
    ),
    "secrets": (_columns("Name", "Type", "Data", "Age"), _secret),
    "configmaps": (_columns("Name", "Data", "Age"), _config_map),
    "namespaces": (_columns("Name", "Status", "Age"), _namespace),
}


def table(
    resource: Resource, objects: Sequence[Object], metadata: Object, include: str, now: datetime
) -> Object:
    """Return objects as a Table.

    Args:
        resource: Their kind.
        objects: As stored.
        metadata: The list's own metadata.
        include: What stands beside the cells: "Object", "None", else (or empty) "Metadata".
        now: The time, for ages.
    """
    columns, cells = _TABLES.get(resource.store_kind, (_columns("Name", "Age"), _plain))
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": [{"cells": cells(obj, now), **_beside(shown(resource, obj), include)} for obj in objects],
    }


def _beside(obj: Object, include: str) -> Object:
    match include:
        case "None":
            return {"object": None}
        case "Object":
            return {"object": obj}
    head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    return {"object": {**head, "metadata": obj["metadata"]}}
