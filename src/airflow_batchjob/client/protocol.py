"""What this package asks of a Job API. Nothing outside client/ talks to a cluster.

Every method raises an `ApiError`; each has a time limit of its own. Passing trouble (429, 5xx, no
answer) is met with further attempts, with backoff and jitter; so every write must bear repetition.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.nodes import NodeObject
from airflow_batchjob.core.reading.pods import Pod

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A whole list (all pages), and the resource version to watch from."""

    items: tuple[T, ...]
    resource_version: str


class EventType(str, Enum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"  # `object` carries nothing but metadata.resource_version


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    type: EventType
    object: T


class JobClient(Protocol):
    """A cluster, as far as this package can see."""

    @property
    def namespace(self) -> str:
        """The namespace of the connection, kubeconfig context or service account; else "default"."""

    @property
    def server(self) -> str:
        """The server's address, for messages: without a user or a password in it."""

    async def create_job(self, manifest: Mapping[str, Any]) -> Job:
        """Create; `ApiConflictError` with reason AlreadyExists where the name is taken.

        Retries "Conflict" (quota) and passing trouble; a lost answer then shows as AlreadyExists.
        """

    async def get_job(self, namespace: str, name: str) -> Job: ...

    async def list_jobs(self, namespace: str, label_selector: str) -> Page[Job]: ...

    def watch_jobs(
        self, namespace: str, label_selector: str, resource_version: str
    ) -> AsyncIterator[WatchEvent[Job]]:
        """Yield changes since `resource_version`; `ExpiredError` on 410.

        Ends when the server ends it, and after a silence in which a bookmark should have come.
        """

    async def patch_job(self, namespace: str, name: str, operations: Sequence[Mapping[str, Any]]) -> Job:
        """Apply a JSON Patch; a failed `test` is an `ApiRefusedError` with code 422.

        It must hold tests that make a repetition harmless: it is sent again where no answer came. A
        422 may then mean that the first attempt has gone through.
        """

    async def patch_job_status(
        self, namespace: str, name: str, operations: Sequence[Mapping[str, Any]]
    ) -> Job:
        """Apply a JSON Patch to the status subresource, as `patch_job`; needs the right for jobs/status."""

    async def delete_job(self, namespace: str, name: str, *, uid: str) -> None:
        """Delete in the foreground with the uid as precondition. What is gone, or is another, is no error."""

    async def list_pods(self, namespace: str, label_selector: str) -> Page[Pod]: ...

    def watch_pods(
        self, namespace: str, label_selector: str, resource_version: str
    ) -> AsyncIterator[WatchEvent[Pod]]: ...

    async def get_node(self, name: str) -> NodeObject:
        """Return a node; nodes belong to no namespace, so an account may well be refused."""

    async def pod_log(
        self,
        namespace: str,
        pod: str,
        *,
        container: str,
        tail_lines: int | None = None,
        limit_bytes: int | None = None,
    ) -> bytes: ...

    def follow_log(
        self, namespace: str, pod: str, *, container: str, since_time: str | None = None
    ) -> AsyncIterator[bytes]:
        """Yield lines, each with its RFC 3339 timestamp in front, until the container ends."""

    async def list_events(self, namespace: str, field_selector: str) -> list[dict[str, Any]]: ...

    async def close(self) -> None: ...
