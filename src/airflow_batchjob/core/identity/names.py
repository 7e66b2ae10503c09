"""Whose Job it is: one task instance's identity, the Job's name, and the marks that say so.

A release that changes a digest or a name loses the Jobs that run while it is installed.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass
from typing import Any

from airflow_batchjob.core.identity.digests import changed_fields, digest_of, digests
from airflow_batchjob.core.identity.marks import (
    DIGESTS,
    GENERATION,
    HOLDER,
    IDENTITY,
    INCARNATION,
    MANAGED_BY,
    OURS,
    PREFIX,
    RESUMES,
    TASK,
    UNDER_WAY,
)

__all__ = [
    "READABLE_NOTE",
    "RESUMES",
    "TASK",
    "UNDER_WAY",
    "TaskIdentity",
    "changed_fields",
    "digests",
    "identify",
    "job_name",
    "label_value",
    "readable",
]

DAG_LABEL, TASK_LABEL, RUN_LABEL = (PREFIX + part for part in ("dag", "task", "run"))
"""For people and their selectors; cut where an id is no label value."""

# A Job's name is copied into its pods' labels, so a label's limit is the name's.
# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/
LONGEST = 63

READABLE_NOTE = (
    "when it is sent, ten digits are added to its name, and labels and annotations that say whose it is"
)

_IDENTITY_LENGTH = 16
_NAME_DIGEST_LENGTH = 10
_LABEL_DIGEST_LENGTH = 8
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?")


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """One task instance of one Airflow: it has one Job at a time.

    Args:
        instance: The Airflow, so that two of them can share a namespace.
        dag_id: Its DAG.
        run_id: Its run.
        task_id: The full task id, with its groups.
        map_index: -1 where the task isn't mapped.
    """

    instance: str
    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1

    @property
    def digest(self) -> str:
        """The label that finds its Jobs: 16 hexadecimal digits."""
        return digest_of(astuple(self), _IDENTITY_LENGTH)

    @property
    def stem(self) -> str:
        """What its Jobs are called where nobody gave a name."""
        return f"{self.dag_id}-{self.task_id}"


def job_name(
    stem: str, digest: str, generation: int, *, completions: int | None = None, indexed: bool = False
) -> str:
    """Return the name of a Job: readable, and the same for the same identity and generation.

    So a create whose answer was lost can be sent again: AlreadyExists then means that it went through.

    Args:
        stem: The readable part, any text; cut where it is too long.
        digest: Of the identity.
        generation: Counts the Jobs of the identity.
        completions: Of the Job.
        indexed: Whether pods are called name + "-" + index, which must fit into a label, too.

    Returns:
        A DNS label that starts with a letter, as a Service of the same name needs it.
    """
    index_suffix = f"-{completions - 1}" if indexed and completions else ""
    tail = "-" + digest_of([digest, generation, stem], _NAME_DIGEST_LENGTH)
    return _words_of(stem, LONGEST - len(tail) - len(index_suffix)) + tail


def readable(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Job with the readable part of its name, for people who look at it before it is sent.

    Whose Job it will be is not known then, nor the rest of its name: `READABLE_NOTE` says so.
    """
    metadata, spec = manifest.get("metadata") or {}, manifest.get("spec") or {}
    completions = spec.get("completions")
    indexed = spec.get("completionMode") == "Indexed"
    index_suffix = f"-{completions - 1}" if indexed and completions else ""
    room = LONGEST - 1 - _NAME_DIGEST_LENGTH - len(index_suffix)
    return {**manifest, "metadata": {**metadata, "name": _words_of(str(metadata.get("name") or ""), room)}}


def label_value(text: str) -> str:
    """Return `text` if it is a valid label value, else one that is, with a short digest of the text."""
    if len(text) <= LONGEST and _LABEL_VALUE.fullmatch(text):
        return text
    tail = digest_of(text, _LABEL_DIGEST_LENGTH)
    words = re.sub(r"[^-A-Za-z0-9_.]+", "-", text)[: LONGEST - len(tail) - 1].strip("-_.")
    return f"{words}-{tail}" if words else tail


def identify(
    manifest: Mapping[str, Any],
    identity: TaskIdentity,
    generation: int,
    *,
    holder: str,
    incarnation: str = "",
    extras: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the Job with its name, and with labels and annotations that say whose it is.

    Args:
        manifest: A batch/v1 Job; its `metadata.name`, if any, is the stem of the name. Not changed.
        identity: Whose Job it is.
        generation: Counts the Jobs of the identity, from 0.
        holder: Who sees it through.
        incarnation: Tells this run from a deleted one of the same name; "": left out.
        extras: More annotations of the Job. `DIGESTS` among them stands in for the manifest's own.
    """
    metadata = dict(manifest.get("metadata") or {})
    spec = manifest.get("spec") or {}
    template = spec.get("template") or {}
    stem = str(metadata.get("name") or metadata.pop("generateName", None) or identity.stem)
    metadata.pop("generateName", None)
    labels = _labels(identity, generation)
    annotations = {
        TASK: json.dumps(asdict(identity)),
        HOLDER: holder,
        DIGESTS: json.dumps(digests(manifest)),
        **({INCARNATION: incarnation} if incarnation else {}),
        **(extras or {}),
    }
    name = job_name(
        stem,
        identity.digest,
        generation,
        completions=spec.get("completions"),
        indexed=spec.get("completionMode") == "Indexed",
    )
    marked = _marked(metadata, labels=labels, annotations=annotations) | {"name": name}
    pod_metadata = _marked(template.get("metadata") or {}, labels=labels)
    return {
        **manifest,
        "metadata": marked,
        "spec": {**spec, "template": {**template, "metadata": pod_metadata}},
    }


def _words_of(stem: str, room: int) -> str:
    plain = unicodedata.normalize("NFKD", stem).encode("ascii", "ignore").decode().lower()
    words = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    if not words[:1].isalpha():
        words = f"job-{words}"
    return words[:room].strip("-")


def _labels(identity: TaskIdentity, generation: int) -> dict[str, str]:
    return {
        MANAGED_BY: OURS,
        IDENTITY: identity.digest,
        GENERATION: str(generation),
        DAG_LABEL: label_value(identity.dag_id),
        TASK_LABEL: label_value(identity.task_id),
        RUN_LABEL: label_value(identity.run_id),
    }


def _marked(metadata: Mapping[str, Any], **maps: Mapping[str, str]) -> dict[str, Any]:
    return {**metadata, **{key: {**(metadata.get(key) or {}), **added} for key, added in maps.items()}}
