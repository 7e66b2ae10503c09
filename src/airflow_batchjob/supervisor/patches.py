"""JSON Patches on a Job that change nothing unless it is still the one, and ours.

A `test` that fails is a 422 and leaves the Job as it was: one request, without a read before it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from airflow_batchjob.core.deciding.clocks import Sent
from airflow_batchjob.core.errors import ApiConflictError, ApiError, ApiRefusedError
from airflow_batchjob.core.identity.marks import DEADLINE, HOLDER
from airflow_batchjob.core.reading.job import Job

Operation: TypeAlias = dict[str, Any]


def if_held(uid: str, holder: str) -> list[Operation]:
    """Return the tests that it is this Job, held by `holder`."""
    return [_test("/metadata/uid", uid), _test(_annotation(HOLDER), holder)]


def if_unchanged(job: Job) -> list[Operation]:
    """Return the tests that nobody has written to `job` since it was read."""
    return [
        _test("/metadata/uid", job.metadata.uid),
        _test("/metadata/resourceVersion", job.metadata.resource_version),
    ]


def annotate(key: str, text: str) -> Operation:
    """Set an annotation. A Job of ours always has some, so the map is there."""
    return put(_annotation(key), text)


def put(path: str, value: Any) -> Operation:
    """Set a field, there or not ("add" replaces)."""
    return {"op": "add", "path": path, "value": value}


def drop(path: str) -> Operation:
    """Remove a field that is there."""
    return {"op": "remove", "path": path}


def send_deadline(sent: Sent) -> list[Operation]:
    """Set the deadline, and say what it stands for."""
    return [put("/spec/activeDeadlineSeconds", sent.seconds), annotate(DEADLINE, sent.mark.to_text())]


def if_says(key: str, text: str) -> Operation:
    """Return the test that an annotation has this text."""
    return _test(_annotation(key), text)


def drop_annotation(key: str) -> Operation:
    return drop(_annotation(key))


def is_changed_meanwhile(error: ApiError) -> bool:
    """Tell whether a guarded patch was refused because a test failed, or may have been."""
    if isinstance(error, ApiConflictError):
        return True
    return isinstance(error, ApiRefusedError) and error.code == 422


def _test(path: str, value: Any) -> Operation:
    return {"op": "test", "path": path, "value": value}


def _annotation(key: str) -> str:
    return "/metadata/annotations/" + key.replace("~", "~0").replace("/", "~1")
