"""The eviction API: a pod is marked as disrupted, then deleted with grace."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from airflow_batchjob.local.api.bodies import parse, read_tree
from airflow_batchjob.local.api.deleting import Deleter, Options
from airflow_batchjob.local.api.request import Request, Response
from airflow_batchjob.local.api.resources import PODS
from airflow_batchjob.local.api.status import bad_request, conflict, not_found
from airflow_batchjob.local.store import Object, Store, format_time

_ENDED = ("Succeeded", "Failed")


def evict(
    request: Request, store: Store, deleter: Deleter, clock: Callable[[], datetime], namespace: str, name: str
) -> Response:
    """Evict a pod. No disruption budgets here: an eviction is never turned away with 429.

    Raises:
        Refused: 400, 404 or 409.
    """
    tree = parse(request, "Eviction")
    body = read_tree(tree, request, "Eviction", "policy/v1", "Eviction").object
    if body["metadata"].get("name") not in (None, "", name):
        raise bad_request("name in URL does not match name in Eviction object")
    pod = store.get("pods", namespace, name)
    if pod is None:
        raise not_found("pods", "", name)
    sent = body.get("deleteOptions") or {}
    uid = (sent.get("preconditions") or {}).get("uid")
    if uid not in (None, pod["metadata"]["uid"]):
        raise conflict("pods", "", name, f"Precondition failed: UID in precondition: {uid}")
    answer = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    if request.dry_run or sent.get("dryRun"):
        return Response(code=201, body=answer)
    if (pod.get("status") or {}).get("phase") not in _ENDED and not pod["metadata"].get("deletionTimestamp"):
        pod = store.update("pods", _disrupted(pod, format_time(clock())))
    grace = sent.get("gracePeriodSeconds")
    deleter.delete(PODS, pod, Options(propagation=sent.get("propagationPolicy"), grace_seconds=grace))
    return Response(code=201, body=answer)


def _disrupted(pod: Object, now: str) -> Object:
    status = pod.get("status") or {}
    others = [one for one in status.get("conditions") or () if one["type"] != "DisruptionTarget"]
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": now,
    }
    return {**pod, "status": {**status, "conditions": [*others, condition]}}
