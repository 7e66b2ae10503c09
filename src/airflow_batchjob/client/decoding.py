"""From bytes of the API to values: objects, pages of a list, events of a watch."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from airflow_batchjob.client.errors import Status, error_for_status
from airflow_batchjob.client.protocol import EventType, WatchEvent
from airflow_batchjob.core.errors import ApiUnavailableError
from airflow_batchjob.core.reading.job import Job, Metadata, Read
from airflow_batchjob.core.reading.pods import Pod

T = TypeVar("T", Job, Pod)
V = TypeVar("V")


class ListMetadata(Read, frozen=True):
    resource_version: str = ""
    next_page: str = msgspec.field(name="continue", default="")


class ListOf(Read, Generic[V], frozen=True):
    """One page of a list. `items` is null where a server writes an empty Go slice so."""

    metadata: ListMetadata = ListMetadata()
    items: list[V] | None = None


class _Envelope(Read, frozen=True):
    type: str
    object: msgspec.Raw


class _Marked(Read, frozen=True):
    metadata: Metadata


def decode(what: str, raw: bytes | msgspec.Raw, into: Any) -> Any:
    """Decode `raw` as the type `into`.

    Raises:
        ApiUnavailableError: It is something else: a page from a proxy, or half an answer.
    """
    try:
        return msgspec.json.decode(raw, type=into)
    except (msgspec.DecodeError, UnicodeDecodeError) as raised:
        why = f"the answer is not what a Kubernetes API gives ({raised})"
        raise ApiUnavailableError(what, message=why) from None


def decode_event(what: str, line: bytes, into: type[T]) -> WatchEvent[T] | None:
    """Decode one line of a watch; None where it says nothing we know.

    Raises:
        ApiError: It is an ERROR event; `ExpiredError` where its code is 410.
    """
    if not line.strip():
        return None
    envelope: _Envelope = decode(what, line, _Envelope)
    match envelope.type:
        case "ADDED" | "MODIFIED" | "DELETED":
            return WatchEvent(EventType(envelope.type), decode(what, envelope.object, into))
        case "BOOKMARK":
            # Its other fields are zero values that the type does not take, such as containers: null.
            marked: _Marked = decode(what, envelope.object, _Marked)
            return WatchEvent(EventType.BOOKMARK, into(metadata=marked.metadata))
        case "ERROR":
            raise error_for_status(what, decode(what, envelope.object, Status))
        case _:
            return None
