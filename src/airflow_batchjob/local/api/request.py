"""What goes into the API and what comes out of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_batchjob.local.store import Object

JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request, read whole."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case
    body: bytes = b""

    def asks(self, name: str) -> bool:
        """Tell whether a query parameter is true, as Kubernetes reads one."""
        return self.query.get(name, "").lower() in ("1", "true")

    @property
    def content_type(self) -> str:
        """The body's media type without parameters, in lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def dry_run(self) -> bool:
        return self.query.get("dryRun", "") == "All"


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One answer; `body` is an object, to be sent as JSON, or bytes, sent as they are."""

    code: int = 200
    body: Object | bytes = b""
    content_type: str = JSON
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """An answer without an end known beforehand: a watch, or a log that is followed."""

    chunks: AsyncIterator[bytes]
    content_type: str = JSON


Answer = Response | Stream

Fields = Mapping[str, Any]
