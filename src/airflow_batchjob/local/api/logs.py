"""Which log a request for a pod's log means, and which part of it; what is asked wrongly is refused."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from airflow_batchjob.local.api.log_lines import LogOptions, log_moment
from airflow_batchjob.local.api.status import (
    Problems,
    bad_request,
    forbidden,
    invalid,
    invalid_object,
    not_supported,
)
from airflow_batchjob.local.store import Object

_STREAMS = ("All", "Stdout", "Stderr")


class LogFiles(Protocol):
    """Where the agent writes what containers say."""

    def log_file(self, pod: Object, container: str, *, previous: bool) -> Path | None:
        """Return the log of a container's newest attempt, or of the one before; None: there is none."""


def read_log_options(query: Mapping[str, str], pod: str, now: datetime) -> LogOptions:
    """Read the options of a log request.

    Raises:
        Refused: 400 for what is no number or time, 422 for values that make no sense.
    """
    problems: Problems = []
    numbers = {
        name: _number(query, name, least, problems)
        for name, least in (("sinceSeconds", 1), ("tailLines", 0), ("limitBytes", 1))
    }
    since = _since(query, numbers["sinceSeconds"], now, problems)
    stream = query.get("stream") or "All"
    if stream not in _STREAMS:
        problems.append(not_supported("stream", stream, _STREAMS))
    if stream != "All" and numbers["tailLines"] is not None:
        problems.append(
            forbidden("tailLines", "`tailLines` and specific `stream` are mutually exclusive for now")
        )
    if problems:
        raise invalid_object("PodLogOptions", "", pod, problems)
    return LogOptions(
        follow=_true(query, "follow"),
        previous=_true(query, "previous"),
        timestamps=_true(query, "timestamps"),
        since=since,
        tail_lines=numbers["tailLines"],
        limit_bytes=numbers["limitBytes"],
        stream=stream,
    )


def _true(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() in ("1", "true")


def _number(query: Mapping[str, str], name: str, least: int, problems: Problems) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    try:
        number = int(text)
    except ValueError:
        raise bad_request(f"{name}: Invalid value: {text!r}: must be a number") from None
    if number < least:
        word = "greater than 0" if least else "greater than or equal to 0"
        problems.append(invalid(name, number, f"must be {word}"))
    return number


def _since(
    query: Mapping[str, str], seconds: int | None, now: datetime, problems: Problems
) -> datetime | None:
    text = query.get("sinceTime", "")
    if text and seconds is not None:
        problems.append(
            forbidden("sinceSeconds", "at most one of `sinceTime` or `sinceSeconds` may be specified")
        )
    if seconds is not None:
        return now - timedelta(seconds=seconds)
    if not text:
        return None
    try:
        return log_moment(text)
    except ValueError:
        raise bad_request(f"sinceTime: Invalid value: {text!r}: must be a time as in RFC 3339") from None


def choose_container(pod: Object, name: str) -> str:
    """Return the container whose log is meant.

    Raises:
        Refused: 400, none is named and there are several, or there is none of that name.
    """
    pod_name = pod["metadata"]["name"]
    main = [one["name"] for one in pod["spec"]["containers"]]
    init = [one["name"] for one in pod["spec"].get("initContainers", ())]
    if name and name not in (*main, *init):
        raise bad_request(f"container {name} is not valid for pod {pod_name}")
    if name:
        return name
    if len(main) == 1:
        return main[0]
    choices = f"choose one of: [{' '.join(main)}]"
    if init:
        choices += f" or one of the init containers: [{' '.join(init)}]"
    raise bad_request(f"a container name must be specified for pod {pod_name}, {choices}")


def log_path(pod: Object, container: str, options: LogOptions, files: LogFiles) -> Path | None:
    """Return the file to read; None: the pod is on no node yet, and its log is empty.

    Raises:
        Refused: 400, the container has no log yet, or no earlier one.
    """
    name = pod["metadata"]["name"]
    if not pod["spec"].get("nodeName"):
        return None
    path = files.log_file(pod, container, previous=options.previous)
    if path is not None and path.exists():
        return path
    if options.previous:
        raise bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
    state = _state(pod, container)
    reason = (state.get("waiting") or {}).get("reason")
    if reason:
        words = {
            "ErrImagePull": "image can't be pulled",
            "ImagePullBackOff": "trying and failing to pull image",
        }.get(reason, reason)
        raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: {words}')
    if "terminated" in state:
        raise bad_request(f'container "{container}" in pod "{name}" is terminated')
    raise bad_request(f'container "{container}" in pod "{name}" is waiting to start - no logs yet')


def _state(pod: Object, container: str) -> Object:
    status = pod.get("status") or {}
    for group in ("containerStatuses", "initContainerStatuses"):
        for one in status.get(group) or ():
            if one["name"] == container:
                state: Object = one.get("state") or {}
                return state
    return {}


def may_say_more(pod: Object, container: str, path: Path, files: LogFiles) -> bool:
    """Tell whether a log that is followed may still grow: its container has not ended, nor started anew."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return False
    if "terminated" in _state(pod, container):
        return False
    return files.log_file(pod, container, previous=False) == path
