"""Logs of containers: the whole, the end, from a time on, as they grow, and those of an earlier attempt."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from tests.contract.asking import Answer, Asker, Object, container, job, waiting_pod
from tests.contract.living import UNTIL_TERM, ended, has_begun, pods_of, runs

LINES = "".join(f"line {number}\n" for number in range(1, 6))


def log(api: Asker, pod: str = "p", **query: Any) -> Answer:
    return api.ask("GET", api.core("pods", pod, "log"), **query)


def said(api: Asker) -> str:
    answer = log(api)
    return str(answer.body).strip() if answer.code == 200 else ""


def phase(api: Asker, pod: str = "p") -> str:
    return str(api.ask("GET", api.core("pods", pod)).body["status"]["phase"])


def have_pod(api: Asker, *command: str, name: str = "p", **spec: Any) -> Object:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", **runs(*command), **spec},
    }
    return api.have("pods", pod)


def have_ended_pod(api: Asker, script: str, **spec: Any) -> None:
    have_pod(api, "sh", "-c", script, **spec)
    api.eventually(lambda: phase(api) in ("Succeeded", "Failed"), seconds=60)


@pytest.fixture
def five_lines(api: Asker) -> Asker:
    """A pod `p` that has said five lines and ended."""
    have_ended_pod(api, "for n in 1 2 3 4 5; do echo line $n; done")
    return api


QUERIES: dict[str, tuple[dict[str, Any], str]] = {
    "the whole": ({}, LINES),
    "the end": ({"tailLines": 2}, "line 4\nline 5\n"),
    "more of the end than there is": ({"tailLines": 100}, LINES),
    "the first bytes": ({"limitBytes": 9}, "line 1\nli"),
    "more bytes than there are": ({"limitBytes": 1000}, LINES),
    "the first bytes of the end": ({"tailLines": 2, "limitBytes": 9}, "line 4\nli"),
    "the last minutes": ({"sinceSeconds": 600}, LINES),
    "since a time long gone": ({"sinceTime": "2001-01-01T00:00:00Z"}, LINES),
    "since a time to come": ({"sinceTime": "2101-01-01T00:00:00Z"}, ""),
    "by its container's name": ({"container": "main"}, LINES),
    "followed, of a container that has ended": ({"follow": "true"}, LINES),
    "followed from the end": ({"follow": "true", "tailLines": 1}, "line 5\n"),
}


def test_what_a_container_has_said(five_lines: Asker) -> None:
    got = {case: log(five_lines, **query) for case, (query, _) in QUERIES.items()}

    assert {case: answer.body for case, answer in got.items()} == {
        case: want for case, (_, want) in QUERIES.items()
    }
    assert {answer.code for answer in got.values()} == {200}


def test_88_no_lines_of_the_end_are_an_empty_log(five_lines: Asker) -> None:
    answer = log(five_lines, tailLines=0)

    assert (answer.code, answer.body) == (200, "")


def test_each_line_can_begin_with_its_time(five_lines: Asker) -> None:
    lines = log(five_lines, timestamps="true").body.splitlines()

    times, texts = zip(*(line.split(" ", 1) for line in lines), strict=True)
    assert "".join(f"{text}\n" for text in texts) == LINES
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z", time) for time in times)
    assert list(times) == sorted(times)


def test_from_the_time_of_a_line_on_that_line_comes_again(api: Asker) -> None:
    have_ended_pod(api, "echo one; sleep 1.2; echo two; sleep 1.2; echo three")
    times = [line.split(" ", 1)[0] for line in log(api, timestamps="true").body.splitlines()]

    assert log(api, sinceTime=times[1]).body == "two\nthree\n"
    assert log(api, sinceTime=times[0]).body == "one\ntwo\nthree\n"


def test_both_streams_are_one_log_and_a_last_line_may_be_unfinished(api: Asker) -> None:
    have_ended_pod(api, "echo out; sleep 0.2; echo err >&2; sleep 0.2; printf unfinished")

    assert log(api).body == "out\nerr\nunfinished"
    assert log(api, tailLines=1).body == "unfinished"


def test_text_comes_in_lines(api: Asker) -> None:
    have_ended_pod(api, r"printf 'a\tb\r\n'; printf '\303\244\n'")

    assert log(api).body == "a\tb\nä\n"  # a container runtime ends lines at either end of line


def test_what_is_followed_comes_as_it_is_said_and_ends_with_the_container(api: Asker) -> None:
    have_pod(api, "sh", "-c", "echo up; for n in 1 2 3; do sleep 1; echo $n; done")
    has_begun(api, {"metadata": {"name": "p"}})
    connection = api.connection()
    try:
        connection.request("GET", api.core("pods", "p", "log") + "?follow=true", headers=dict(api.headers))
        answer = connection.getresponse()
        came = [(time.monotonic(), line) for line in answer]
    finally:
        connection.close()

    assert [line for _, line in came] == [b"up\n", b"1\n", b"2\n", b"3\n"]
    assert 1.0 < came[-1][0] - came[1][0] < 10
    assert phase(api) in ("Running", "Succeeded")


def test_logs_of_a_container_that_ended_stay_while_its_pod_does(api: Asker) -> None:
    api.have_job(job(backoffLimit=0, pod=runs("sh", "-c", "echo why; exit 3")))
    ended(api)
    [pod] = pods_of(api)

    assert log(api, pod["metadata"]["name"]).body == "why\n"


def test_an_earlier_attempt_has_its_own_log(api: Asker) -> None:
    have_pod(api, "sh", "-c", "date +%s; sleep 1; exit 1", restartPolicy="OnFailure")

    def restarted() -> Object | None:
        [status] = api.ask("GET", api.core("pods", "p")).body["status"].get("containerStatuses") or [{}]
        return status if status.get("restartCount") and status["state"].get("running") else None

    first = api.eventually(lambda: said(api), seconds=60)
    status = api.eventually(restarted, seconds=60)
    previous = log(api, previous="true").body
    now = api.eventually(lambda: said(api))

    assert status["lastState"]["terminated"]["exitCode"] == 1
    assert int(first) <= int(previous) < int(now)
    api.ask("DELETE", api.core("pods", "p"), {"gracePeriodSeconds": 0})


def test_a_first_attempt_has_no_earlier_one(five_lines: Asker) -> None:
    answer = log(five_lines, previous="true")

    assert (answer.code, answer.body["reason"]) == (400, "BadRequest")
    assert answer.body["message"] == 'previous terminated container "main" in pod "p" not found'


def test_87_a_container_that_waits_says_so(api: Asker) -> None:
    source = {"configMapKeyRef": {"name": "nowhere", "key": "a"}}
    main = container(env=[{"name": "A", "valueFrom": source}])
    api.have("pods", waiting_pod(schedulerName="default-scheduler", restartPolicy="Never", containers=[main]))

    def waits() -> Answer | None:
        answer = log(api)
        return (
            answer if answer.code == 400 and "CreateContainerConfigError" in answer.body["message"] else None
        )

    answer = api.eventually(waits, seconds=60)

    want = 'container "main" in pod "p" is waiting to start: CreateContainerConfigError'
    assert (answer.body["reason"], answer.body["message"]) == ("BadRequest", want)


def test_87_a_container_behind_one_that_prepares_says_so(api: Asker) -> None:
    first = container(name="first", command=["sh", "-c", UNTIL_TERM])
    have_pod(api, "true", initContainers=[first])
    api.eventually(lambda: log(api, container="first").code == 200, seconds=60)

    answer = log(api, container="main")

    want = 'container "main" in pod "p" is waiting to start: PodInitializing'
    assert (answer.code, answer.body["message"]) == (400, want)


NEVER_STARTS: dict[str, tuple[Object, str, str]] = {
    "87 an image that cannot be pulled": (
        {"containers": [container(image="127.0.0.1:1/nothing:1")]},
        "ImagePullBackOff",
        "trying and failing to pull image",
    ),
    "87 a volume of a secret that is not there": (
        {
            "containers": [container(volumeMounts=[{"name": "v", "mountPath": "/v"}])],
            "volumes": [{"name": "v", "secret": {"secretName": "nowhere"}}],
        },
        "ContainerCreating",
        "ContainerCreating",
    ),
}


@pytest.mark.parametrize(("spec", "reason", "words"), NEVER_STARTS.values(), ids=NEVER_STARTS.keys())
def test_the_log_of_what_cannot_start_says_why(api: Asker, spec: Object, reason: str, words: str) -> None:
    """On the local cluster: an image that cannot be pulled is not asked for, as it has no images."""
    if api.is_local and "image" in words:
        pytest.skip("no images here")
    have_pod(api, "true", **spec)

    def waits() -> bool:
        [status] = api.ask("GET", api.core("pods", "p")).body["status"].get("containerStatuses") or [{}]
        return bool(status.get("state", {}).get("waiting", {}).get("reason") == reason)

    api.eventually(waits, seconds=60)
    answer = api.eventually(lambda: (seen := log(api)).code == 400 and words in seen.body["message"] and seen)

    assert answer.body["message"] == f'container "main" in pod "p" is waiting to start: {words}'


def test_one_container_of_several_has_its_own_log(api: Asker) -> None:
    containers = [
        {"name": name, "image": "busybox:1.36", "command": ["echo", f"of {name}"]} for name in ("a", "b")
    ]
    have_ended_pod(api, "", containers=containers)

    assert [log(api, container=name).body for name in ("a", "b")] == ["of a\n", "of b\n"]


def test_an_init_container_has_a_log(api: Asker) -> None:
    init = [{"name": "first", "image": "busybox:1.36", "command": ["echo", "of first"]}]
    have_ended_pod(api, "echo of main", initContainers=init)

    assert (log(api, container="first").body, log(api, container="main").body) == ("of first\n", "of main\n")


def test_without_a_name_the_first_container_is_meant_where_there_is_a_default(api: Asker) -> None:
    pod = {
        "metadata": {"name": "p", "annotations": {"kubectl.kubernetes.io/default-container": "b"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": n, "image": "busybox:1.36", "command": ["true"]} for n in ("a", "b")],
        },
    }
    api.have("pods", pod)

    answer = log(api)

    assert (answer.code, answer.body["reason"]) == (
        400,
        "BadRequest",
    )  # kubectl knows it, the server does not
