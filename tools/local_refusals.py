"""What the local cluster refuses, for a page: the tables that it refuses by, and its answers to requests."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_batchjob.local.agent import refusals
from airflow_batchjob.local.api import local_rules
from airflow_batchjob.local.api.api import Api
from airflow_batchjob.local.api.patching import STRATEGIC_PATCH
from airflow_batchjob.local.api.request import Request, Response
from airflow_batchjob.local.logs import LogStore
from airflow_batchjob.local.scheduling.choice import Room, Unplaced, Wish, choose
from airflow_batchjob.local.store import Store
from tools.markdown import table

CORE = "/api/v1/namespaces/default"
JOB = "/apis/batch/v1/namespaces/default/jobs/j"
_PROTOBUF = "application/vnd.kubernetes.protobuf"
_MAIN = {"name": "main", "image": "busybox:1.37", "command": ["true"]}


def fields(_: str) -> str:
    """Return a table of the fields that are refused wherever they are given, and why."""
    of_container = {**refusals.REFUSED_OF_CONTAINER, **local_rules.REFUSED_OF_CONTAINER}
    return _table("why it is refused", local_rules.REFUSED_OF_POD, of_container)


def without_effect(_: str) -> str:
    """Return a table of the fields that are taken with a warning, and what that says."""
    return _table("the warning", local_rules.WARNED_OF_POD, local_rules.WARNED_OF_CONTAINER)


def _table(head: str, of_pod: Mapping[str, str], of_container: Mapping[str, str]) -> str:
    names: dict[str, list[str]] = {}
    for whose, some in (("", of_pod), ("containers[].", of_container)):
        for name, why in some.items():
            names.setdefault(why, []).append(f"`{whose}{name}`")
    return table(("field", head), [(", ".join(some), why) for why, some in names.items()])


def _pod(container: Mapping[str, Any] = _MAIN, **spec: Any) -> bytes:
    return json.dumps({"metadata": {"name": "p"}, "spec": {"containers": [container], **spec}}).encode()


def _new_pod(body: bytes) -> Request:
    return Request(method="POST", path=f"{CORE}/pods", body=body, query={"dryRun": "All"})


_MOUNTED = _new_pod(
    _pod(
        {**_MAIN, "volumeMounts": [{"name": "v", "mountPath": "/data"}]},
        volumes=[{"name": "v", "emptyDir": {}}],
    )
)
REQUESTS: Mapping[str, Request] = {
    "a kind that is not in the table": Request(
        method="GET", path="/apis/apps/v1/namespaces/default/deployments"
    ),
    "a part that is not, such as `exec`, `attach` and `portforward`": Request(
        method="POST", path=f"{CORE}/pods/p/exec"
    ),
    "a verb that a kind has not": Request(
        method="PATCH",
        path="/apis/events.k8s.io/v1/namespaces/default/events/e",
        headers={"content-type": STRATEGIC_PATCH},
    ),
    "server-side apply": Request(
        method="PATCH", path=JOB, headers={"content-type": "application/apply-patch+yaml"}
    ),
    "an answer in protocol buffers": Request(
        method="GET", path=f"{CORE}/pods/p", headers={"accept": _PROTOBUF}
    ),
    "a Service with an address": Request(
        method="POST",
        path=f"{CORE}/services",
        body=b'{"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}',
    ),
    "a Node that no machine was declared for": Request(
        method="POST", path="/api/v1/nodes", body=b'{"metadata": {"name": "n"}}'
    ),
    "a container without a command": _new_pod(_pod({"name": "main", "image": "busybox:1.37"})),
    "a volume of another kind": _new_pod(
        _pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    ),
    "a restart rule with another action than Restart": _new_pod(
        _pod(
            {
                **_MAIN,
                "restartPolicy": "Never",
                "restartPolicyRules": [
                    {
                        "action": "RestartAllContainers",
                        "exitCodes": {"operator": "In", "values": [1]},
                    }
                ],
            }
        )
    ),
    "a mount, where the system has no private mounts": _MOUNTED,
}


def answers(_: str) -> str:
    """Return a table of requests that are refused, with what the local cluster answers to them."""
    rows = []
    for what, request in REQUESTS.items():
        status = answer(request, private_mounts=request is not _MOUNTED)
        rows.append((what, f"{status['code']} {status['reason']}", status["message"]))
    return table(("request", "answer", "message"), rows)


def answer(request: Request, *, private_mounts: bool = True) -> dict[str, Any]:
    """Return the Status that an API of an empty cluster answers to a request."""
    store = Store()
    store.create("namespaces", {"metadata": {"name": "default"}, "status": {"phase": "Active"}})
    with tempfile.TemporaryDirectory() as folder:
        api = Api(store, log_store=LogStore(Path(folder)), private_mounts=private_mounts)
        given = api.handle(request)
        api.close()
    if not isinstance(given, Response) or not isinstance(given.body, dict) or given.code < 400:
        message = (
            f"the local cluster does not refuse {request.method} {request.path}: mend tools/local_refusals.py"
        )
        raise SystemExit(message)
    return given.body


def unplaced(_: str) -> str:
    """Return what a pod says whose placing asks for more than the local cluster's scheduler knows."""
    spread = [{"topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
    wish = Wish(namespace="default", labels={}, spec={"topologySpreadConstraints": spread}, requests={})
    chosen = choose(wish, [Room(name="local", labels={}, taints=(), unschedulable=False, allocatable={})])
    if not isinstance(chosen, Unplaced):
        message = "the local cluster places pods by topology now: mend tools/local_refusals.py"
        raise SystemExit(message)
    return f"> {chosen.message}"
