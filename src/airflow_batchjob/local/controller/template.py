"""A Job's pod as its template makes it, before it has a name."""

from __future__ import annotations

import secrets
from typing import Any

from airflow_batchjob.local.controller.facts import FAILURE_COUNT, IGNORED_COUNT, INDEX, TRACKING_FINALIZER
from airflow_batchjob.local.controller.look import is_indexed
from airflow_batchjob.local.controller.model import NewPod

Object = dict[str, Any]

LONGEST_PREFIX = 58  # 63 less the five letters that make a name unique
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels: no words come about; Kubernetes' own alphabet

_COMPLETION_INDEX = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}},
}


class PodTemplate:
    """What all pods of a Job have in common, worked out once.

    Args:
        job: As stored, with its defaults filled in.
    """

    def __init__(self, job: Object) -> None:
        template = job["spec"]["template"]
        metadata = template.get("metadata") or {}
        self._job = job["metadata"]
        self._indexed = is_indexed(job)
        self._labels = metadata.get("labels") or {}
        self._annotations = metadata.get("annotations") or {}
        finalizers = metadata.get("finalizers") or []
        self._finalizers = [*(f for f in finalizers if f != TRACKING_FINALIZER), TRACKING_FINALIZER]
        self._owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": self._job["name"],
            "uid": self._job["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        self._spec = _prepare(template["spec"], indexed=self._indexed)

    def pod(self, new: NewPod) -> Object:
        """Return a pod to create, under a new name."""
        job = self._job
        stem, labels, annotations, spec = f"{job['name']}-", self._labels, self._annotations, self._spec
        if self._indexed:
            index = str(new.index)
            stem = f"{job['name'][: LONGEST_PREFIX - len(index) - 2]}-{index}-"
            labels = {**labels, INDEX: index}
            annotations = {**annotations, **_index_annotations(new)}
            spec = {**spec, "hostname": f"{job['name']}-{index}"}
        stem = stem[:LONGEST_PREFIX]
        metadata = {
            "name": stem + "".join(secrets.choice(_LETTERS) for _ in range(5)),
            "generateName": stem,
            "namespace": job["namespace"],
            "labels": labels,
            "finalizers": self._finalizers,
            "ownerReferences": [self._owner],
        }
        if annotations:
            metadata["annotations"] = annotations
        status = {"phase": "Pending"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def _index_annotations(new: NewPod) -> dict[str, str]:
    annotations = {INDEX: str(new.index)}
    if new.failure_count is not None:
        annotations[FAILURE_COUNT] = str(new.failure_count)
    if new.ignored_count:
        annotations[IGNORED_COUNT] = str(new.ignored_count)
    return annotations


def _prepare(spec: Object, *, indexed: bool) -> Object:
    prepared = {**spec}
    for field in ("initContainers", "containers"):
        if spec.get(field):
            prepared[field] = [_container(container, indexed=indexed) for container in spec[field]]
    return prepared


def _container(container: Object, *, indexed: bool) -> Object:
    env = container.get("env") or []
    if indexed and all(entry["name"] != _COMPLETION_INDEX["name"] for entry in env):
        container = {**container, "env": [*env, _COMPLETION_INDEX]}
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if any(name not in requests for name in limits):  # on pods, never in the template itself
        container = {**container, "resources": {**resources, "requests": {**limits, **requests}}}
    return container
