"""Everything that Kubernetes would refuse about a finished Job, found before it is sent, at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from airflow_batchjob.core.errors import Problem
from airflow_batchjob.core.rules.fields import unknown_fields
from airflow_batchjob.core.rules.job_rules import job_problems
from airflow_batchjob.core.rules.pod_rules import metadata_problems, namespace_problems, pod_problems


def manifest_problems(job: Mapping[str, Any], *, resources_known: bool = True) -> Iterator[Problem]:
    """Yield every problem, each with the path of its field in the Job.

    Args:
        job: In the right shape (`fields.shape_problems`).
        resources_known: False where requests and limits are still to be worked out.
    """
    yield from unknown_fields(job)
    metadata = job.get("metadata") or {}
    yield from metadata_problems(metadata, "metadata")
    if metadata.get("namespace") is not None:
        yield from namespace_problems("metadata.namespace", metadata["namespace"])
    yield from job_problems(job)
    template = (job.get("spec") or {}).get("template") or {}
    yield from metadata_problems(template.get("metadata") or {}, "spec.template.metadata")
    pod = template.get("spec") or {}
    yield from pod_problems(pod, resources_known=resources_known)
    if (
        pod.get("restartPolicy") == "OnFailure"
        and (job.get("spec") or {}).get("podFailurePolicy") is not None
    ):
        why = "a podFailurePolicy judges failed pods, and with OnFailure containers restart in place"
        mend = "Write restartPolicy: Never, or take the podFailurePolicy (exit_codes) out"
        yield Problem("spec.template.spec.restartPolicy", "OnFailure", why, mend)


def once_each(problems: Iterable[Problem], names: Mapping[str, str]) -> Iterator[Problem]:
    """Yield each problem once, under the name that the author wrote.

    Args:
        problems: The first of those on one field with one value stays.
        names: Path in the Job to the parameter that put the value there; also holds for what lies below.
    """
    seen: set[tuple[str, str]] = set()
    for problem in problems:
        field = _as_written(problem.field, names)
        # Numbers may have been given as text.
        if (key := (field, str(problem.value))) not in seen:
            seen.add(key)
            yield replace(problem, field=field)


def _as_written(path: str, names: Mapping[str, str]) -> str:
    for end in sorted(names, key=len, reverse=True):
        if path == end or path.startswith((f"{end}.", f"{end}[")):
            return names[end] + path[len(end) :]
    return path
