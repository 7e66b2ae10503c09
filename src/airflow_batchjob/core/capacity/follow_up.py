"""The Job that takes over where its predecessor cannot be moved: made from the living Job alone."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import msgspec

from airflow_batchjob.core.capacity.capacity import Kind
from airflow_batchjob.core.capacity.marks import CAPACITY, FELL_BACK, LOSSES, FellBack, LossMark, Plan
from airflow_batchjob.core.capacity.placement import CAPACITY_LABEL
from airflow_batchjob.core.capacity.spot_rules import with_placement
from airflow_batchjob.core.deciding.clocks import Sent
from airflow_batchjob.core.identity.marks import (
    DEADLINE,
    GENERATION,
    REPORTED,
    RESUMES,
    STOP,
    UNDER_WAY,
    read_marks,
)
from airflow_batchjob.core.identity.names import job_name
from airflow_batchjob.core.reading.job import Job

# Set by the server for one Job and its pods; another Job must have its own.
_SERVERS_LABELS = frozenset(
    {"controller-uid", "batch.kubernetes.io/controller-uid", "job-name", "batch.kubernetes.io/job-name"}
)
_OF_ONE_JOB = frozenset({STOP, UNDER_WAY, REPORTED, RESUMES, DEADLINE})
_NAME_TAIL = 11  # a hyphen and ten digits, which `job_name` has put there


def follow_up(
    job: Job, plan: Plan, fell_back: FellBack, losses: LossMark | None, sent: Sent | None
) -> dict[str, Any]:
    """Return the manifest of the next generation of `job`, on demand.

    Args:
        job: As read: it is suspended, or was stopped in favour of this one.
        plan: Of its capacity.
        fell_back: What is said of the move.
        losses: As counted so far: a try's losses go on counting.
        sent: The deadline of what this try has left.
    """
    marks = read_marks(job)
    generation = marks.generation + 1
    metadata, spec = job.metadata, _spec(job)
    template = deepcopy(spec["template"])
    pods = template.setdefault("metadata", {})
    pods["labels"] = _labels(pods.get("labels") or {}, generation) | {CAPACITY_LABEL: Kind.ON_DEMAND.value}
    template["spec"] = with_placement(template["spec"], plan.on_demand)
    annotations = {key: text for key, text in metadata.annotations.items() if key not in _OF_ONE_JOB}
    annotations |= {CAPACITY: plan.moved().to_text(), FELL_BACK: fell_back.to_text()}
    if losses is not None:
        annotations[LOSSES] = losses.of_a_new_job().to_text()
    spec.pop("activeDeadlineSeconds", None)
    if sent is not None:
        annotations[DEADLINE] = sent.mark.to_text()
        spec["activeDeadlineSeconds"] = sent.seconds
    name = job_name(
        metadata.name[:-_NAME_TAIL],
        marks.identity,
        generation,
        completions=job.spec.completions,
        indexed=job.spec.completion_mode == "Indexed",
    )
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": metadata.namespace,
            "labels": _labels(metadata.labels, generation),
            "annotations": annotations,
        },
        "spec": {**spec, "template": template},
    }


def _spec(job: Job) -> dict[str, Any]:
    """Return the spec as it was sent: fields that are not there are left out."""
    plain: dict[str, Any] = msgspec.to_builtins(job.spec)
    return {field: value for field, value in plain.items() if value is not None and field != "suspend"}


def _labels(labels: Mapping[str, str], generation: int) -> dict[str, str]:
    kept = {key: value for key, value in labels.items() if key not in _SERVERS_LABELS}
    return {**kept, GENERATION: str(generation)}
