"""Which log a request for a pod's log means, and which part of it; what is asked wrongly is refused."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from airflow_batchjob.local.api.status import (
    Problems,
    Refused,
    bad_request,
    forbidden,
    invalid,
    invalid_object,
    not_supported,
)
from airflow_batchjob.local.logs import LogQuery, LogStore
from airflow_batchjob.local.store import Object

_STREAMS = ("All", "Stdout", "Stderr")


def _log_moment(text: str) -> datetime:
    """Read a time with any number of digits after the second: Python below 3.11 takes three or six."""
    head, dot, rest = text.replace("Z", "+00:00").partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    moment = datetime.fromisoformat(f"{head}.{digits[:6]:0<6}{rest[len(digits) :]}" if dot else head)
    if moment.tzinfo is None:
        raise ValueError(f"{text} has no time zone")
    return moment


def read_log_options(query: Mapping[str, str], pod: str, now: datetime) -> LogQuery:
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
    return LogQuery(
        follow=_true(query, "follow"),
        timestamps=_true(query, "timestamps"),
        since=since,
        tail_lines=numbers["tailLines"],
        limit_bytes=numbers["limitBytes"],
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
        return _log_moment(text)
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
        return str(main[0])
    choices = f"choose one of: [{' '.join(main)}]"
    if init:
        choices += f" or one of the init containers: [{' '.join(init)}]"
    raise bad_request(f"a container name must be specified for pod {pod_name}, {choices}")


def attempt_of(pod: Object, container: str, logs: LogStore, *, previous: bool) -> int | None:
    """Return which attempt's log to read; None: the pod is on no node yet, and its log is empty.

    Raises:
        Refused: 400, the container has no log yet, or no earlier one.
    """
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    if not pod["spec"].get("nodeName"):
        return None
    attempt = restarts(pod, container)
    if previous:
        if attempt == 0 or not logs.exists(uid, container, attempt - 1):
            raise bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
        return attempt - 1
    if logs.exists(uid, container, attempt):
        return attempt
    # Waiting for its next start: the log of the last one is what there is.
    if attempt and logs.exists(uid, container, attempt - 1):
        return attempt - 1
    raise _no_log(pod, container)


def restarts(pod: Object, container: str) -> int:
    """Return how often a container has been started anew."""
    return int(_status(pod, container).get("restartCount") or 0)


def _no_log(pod: Object, container: str) -> Refused:
    what = f'container "{container}" in pod "{pod["metadata"]["name"]}"'
    state = _status(pod, container).get("state") or {}
    reason = (state.get("waiting") or {}).get("reason")
    if reason:
        words = {
            "ErrImagePull": "image can't be pulled",
            "ImagePullBackOff": "trying and failing to pull image",
        }.get(reason, reason)
        return bad_request(f"{what} is waiting to start: {words}")
    if "terminated" in state:
        return bad_request(f"{what} is terminated")
    return bad_request(f"{what} is waiting to start - no logs yet")


def has_ended(pod: Object | None, container: str, attempt: int) -> bool:
    """Tell whether nothing more comes from one attempt of a container."""
    if pod is None or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return True
    state = _status(pod, container).get("state") or {}
    waits_after_a_crash = (state.get("waiting") or {}).get("reason") == "CrashLoopBackOff"
    return "terminated" in state or waits_after_a_crash or restarts(pod, container) != attempt


def _status(pod: Object, container: str) -> Object:
    status = pod.get("status") or {}
    for group in ("containerStatuses", "initContainerStatuses"):
        for one in status.get(group) or ():
            if one["name"] == container:
                return dict(one)
    return {}
