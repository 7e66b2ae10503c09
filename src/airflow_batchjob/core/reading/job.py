"""A Job as the API server returns it: only the fields that are read.

Frozen msgspec structs: `msgspec.json.decode(raw, type=Job)` skips all else, which is what makes
reading thousands of objects cheap. Absent counts are 0, absent text "", absent maps empty.

Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


class Read(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of what is read from the API: frozen, camelCase, unknown fields skipped."""


class OwnerReference(Read, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(Read, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: list[str] = []
    owner_references: list[OwnerReference] = []


class Condition(Read, frozen=True):
    """`status` is one of the *strings* "True", "False", "Unknown", all of them truthy."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class JobFields(Read, frozen=True):
    """`.spec`. Policies and `template` stay plain: they are copied, not reasoned about."""

    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    suspend: bool = False
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    success_policy: dict[str, Any] | None = None
    pod_failure_policy: dict[str, Any] | None = None
    pod_replacement_policy: str | None = None
    managed_by: str | None = None
    template: dict[str, Any] = {}


class JobStatusFields(Read, frozen=True):
    """`.status` as written by the Job controller."""

    active: int = 0
    ready: int | None = None
    terminating: int | None = None
    succeeded: int = 0
    failed: int = 0
    completed_indexes: str = ""
    failed_indexes: str | None = None
    start_time: datetime | None = None
    completion_time: datetime | None = None
    conditions: list[Condition] = []


class Job(Read, frozen=True):
    """A batch/v1 Job."""

    metadata: Metadata
    spec: JobFields = msgspec.field(default_factory=JobFields)
    status: JobStatusFields = msgspec.field(default_factory=JobStatusFields)

    @property
    def ref(self) -> JobRef:
        return JobRef(self.metadata.namespace, self.metadata.name, self.metadata.uid)


class JobRef(msgspec.Struct, frozen=True):
    """Which Job: the uid tells it from another of the same name."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
