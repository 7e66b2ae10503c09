"""The selector and labels that tie a Job to its own pods, made when it is created."""

from __future__ import annotations

from airflow_batchjob.local.api.selectors import matches_label_selector
from airflow_batchjob.local.api.status import OMITTED, Problems, invalid
from airflow_batchjob.local.store import Object

UID = "batch.kubernetes.io/controller-uid"
NAME = "batch.kubernetes.io/job-name"
LEGACY_UID = "controller-uid"
LEGACY_NAME = "job-name"


def _wanted(job: Object) -> dict[str, str]:
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    return {LEGACY_NAME: name, NAME: name, LEGACY_UID: uid, UID: uid}


def with_generated_selector(job: Object) -> Object:
    """Return a Job (named, with uid) with its selector and the labels that it selects by."""
    spec = job["spec"]
    template = spec["template"]
    labels = template["metadata"].get("labels") or {}
    given = job["metadata"].get("labels") or labels
    taken_over = given is labels  # then they get what the template gets
    if not spec["manualSelector"]:
        labels = {**_wanted(job), **labels}
        selector = spec.get("selector") or {}
        uid = {UID: job["metadata"]["uid"]}
        selector = {**selector, "matchLabels": {**uid, **(selector.get("matchLabels") or {})}}
        metadata = {**template["metadata"], "labels": labels}
        spec = {**spec, "selector": selector, "template": {**template, "metadata": metadata}}
    metadata = job["metadata"]
    if labels and taken_over:
        metadata = {**metadata, "labels": dict(labels)}
    return {**job, "metadata": metadata, "spec": spec}


def generated_selector_problems(job: Object) -> Problems:
    """Return where the author's own labels or selector contradict the generated ones."""
    if job["spec"].get("manualSelector") or "selector" not in job["spec"]:
        return []
    labels = job["spec"]["template"]["metadata"].get("labels") or {}
    path = "spec.template.metadata.labels"
    problems = [
        invalid(path, labels.get(key, OMITTED), f"must be '{value}' for label {key}")
        for key, value in _wanted(job).items()
        if labels.get(key) != value
    ]
    selector = job["spec"]["selector"]
    if not matches_label_selector(selector, _wanted(job)):
        problems.append(invalid("spec.selector", selector, "`selector` not auto-generated"))
    return problems
