"""The client against a server that misbehaves on purpose."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_batchjob.client.kubernetes import KubernetesClient
from airflow_batchjob.client.protocol import EventType
from airflow_batchjob.core.errors import (
    ApiConflictError,
    ApiRefusedError,
    ApiUnavailableError,
    ExpiredError,
    NotFoundError,
)
from tests.unit.client.scripted import Answer, Script, answer, job, pieces, refusal, reset

# ---------------------------------------------------------------- requests


async def test_a_job_is_read(client: KubernetesClient, script: Script) -> None:
    script.says(answer(job(active=3)))

    got = await client.get_job("ml", "embed")

    assert (got.metadata.name, got.status.active) == ("embed", 3)
    assert script.requests[0].path == "/apis/batch/v1/namespaces/ml/jobs/embed"
    assert script.requests[0].headers["Authorization"] == "Bearer first"


async def test_a_job_is_created_where_its_manifest_says(client: KubernetesClient, script: Script) -> None:
    script.says(answer(job(), 201))
    manifest = {"kind": "Job", "metadata": {"name": "embed", "namespace": "web"}}

    await client.create_job(manifest)

    assert script.requests[0].path == "/apis/batch/v1/namespaces/web/jobs"
    assert json.loads(script.bodies[0]) == manifest


async def test_a_job_without_a_namespace_is_created_in_the_connections(
    client: KubernetesClient, script: Script
) -> None:
    script.says(answer(job(), 201))

    await client.create_job({"metadata": {"name": "embed"}})

    assert script.requests[0].path == "/apis/batch/v1/namespaces/ml/jobs"


async def test_a_patch_is_a_json_patch(client: KubernetesClient, script: Script) -> None:
    script.says(answer(job()))
    operations = [{"op": "test", "path": "/metadata/uid", "value": "u"}]

    await client.patch_job("ml", "embed", operations)

    assert script.requests[0].headers["Content-Type"] == "application/json-patch+json"
    assert json.loads(script.bodies[0]) == operations


async def test_a_status_patch_goes_to_the_subresource(client: KubernetesClient, script: Script) -> None:
    script.says(answer(job()))

    await client.patch_job_status("ml", "embed", [])

    assert script.requests[0].path == "/apis/batch/v1/namespaces/ml/jobs/embed/status"


async def test_a_patch_is_sent_again_as_it_was(client: KubernetesClient, script: Script) -> None:
    script.says(refusal(503), reset(), answer(job()))

    await client.patch_job("ml", "embed", [{"op": "test", "path": "/metadata/uid", "value": "u"}])

    assert len(script.bodies) == 3
    assert len(set(script.bodies)) == 1


async def test_a_failed_test_of_a_patch_is_refused_with_422(client: KubernetesClient, script: Script) -> None:
    script.says(refusal(422, "Invalid"))

    with pytest.raises(ApiRefusedError) as raised:
        await client.patch_job("ml", "embed", [])

    assert raised.value.code == 422


async def test_a_deletion_is_of_this_object_and_in_the_foreground(
    client: KubernetesClient, script: Script
) -> None:
    script.says(answer(job()))

    await client.delete_job("ml", "embed", uid="u-1")

    options = json.loads(script.bodies[0])
    assert (options["propagationPolicy"], options["preconditions"]) == ("Foreground", {"uid": "u-1"})


GONE = {
    "it is not there": refusal(404, "NotFound"),
    "another has its name": refusal(409, "Conflict", "Precondition failed: UID in precondition: u-1"),
}


@pytest.mark.parametrize("said", GONE.values(), ids=GONE.keys())
async def test_deleting_what_is_gone_is_no_error(
    client: KubernetesClient, script: Script, said: Answer
) -> None:
    script.says(said)

    await client.delete_job("ml", "embed", uid="u-1")

    assert len(script.requests) == 1


async def test_names_are_quoted(client: KubernetesClient, script: Script) -> None:
    script.says(answer(job()))

    await client.get_job("ml", "../../secrets/x")

    assert script.requests[0].raw_path.endswith("/namespaces/ml/jobs/..%2F..%2Fsecrets%2Fx")


async def test_a_log_is_asked_for_within_limits(client: KubernetesClient, script: Script) -> None:
    script.says(answer("one\ntwo\n"))

    got = await client.pod_log("ml", "embed-0-x", container="main", tail_lines=10, limit_bytes=100)

    assert got == b"one\ntwo\n"
    assert script.requests[0].path == "/api/v1/namespaces/ml/pods/embed-0-x/log"
    assert dict(script.requests[0].query) == {"container": "main", "tailLines": "10", "limitBytes": "100"}


async def test_events_are_selected_by_field(client: KubernetesClient, script: Script) -> None:
    script.says(answer({"items": [{"reason": "FailedCreate"}]}))

    got = await client.list_events("ml", "involvedObject.uid=u-1")

    assert got == [{"reason": "FailedCreate"}]
    assert script.requests[0].query["fieldSelector"] == "involvedObject.uid=u-1"


# ---------------------------------------------------------------- passing trouble

PASSING = {
    "429": refusal(429),
    "500": refusal(500),
    "503 from a proxy": answer("<html>", 503),
    "a reset": reset(),
    "an answer cut in the middle": pieces(b'{"metadata": {"na', cut=True),
}


@pytest.mark.parametrize("trouble", PASSING.values(), ids=PASSING.keys())
async def test_a_read_outlives_passing_trouble(
    client: KubernetesClient, script: Script, slept: list[float], trouble: Answer
) -> None:
    script.says(trouble, trouble, answer(job()))

    got = await client.get_job("ml", "embed")

    assert got.metadata.name == "embed"
    assert len(script.requests) == 3
    # aiohttp itself asks once more, at once, where a connection that it kept turns out to be closed.
    assert slept in ([0.5, 1.0], [0.5])


@pytest.mark.parametrize("trouble", PASSING.values(), ids=PASSING.keys())
async def test_patience_ends(
    client: KubernetesClient, script: Script, slept: list[float], trouble: Answer
) -> None:
    script.says(trouble)

    with pytest.raises(ApiUnavailableError):
        await client.get_job("ml", "embed")

    assert slept == [0.5, 1.0, 2.0]


RETRY_AFTER = {
    "in seconds: never sooner": ("7", lambda seconds: seconds >= 7),
    "as a date long past: as usual": ("Sun, 01 Mar 2020 12:00:00 GMT", lambda seconds: 0 < seconds <= 1),
    "garbage: as usual": ("soon", lambda seconds: seconds == 0.5),
    "a day: capped": ("86400", lambda seconds: seconds < 90),
}


@pytest.mark.parametrize(("header", "fits"), RETRY_AFTER.values(), ids=RETRY_AFTER.keys())
async def test_retry_after_is_honoured(
    client: KubernetesClient, script: Script, slept: list[float], header: str, fits: Any
) -> None:
    script.says(refusal(429, Retry_After=header), answer(job()))

    await client.get_job("ml", "embed")

    assert len(slept) == 1
    assert fits(slept[0])


FINAL = {
    "404": (refusal(404, "NotFound"), NotFoundError),
    "403": (refusal(403, "Forbidden"), ApiRefusedError),
    "422": (refusal(422, "Invalid"), ApiRefusedError),
    "410": (refusal(410, "Expired"), ExpiredError),
}


@pytest.mark.parametrize(("said", "want"), FINAL.values(), ids=FINAL.keys())
async def test_what_is_final_is_not_asked_again(
    client: KubernetesClient, script: Script, said: Answer, want: type[Exception]
) -> None:
    script.says(said)

    with pytest.raises(want):
        await client.get_job("ml", "embed")

    assert len(script.requests) == 1


async def test_a_creation_outlives_a_quota_that_was_changing(
    client: KubernetesClient, script: Script, slept: list[float]
) -> None:
    script.says(refusal(409, "Conflict"), refusal(503), answer(job(), 201))

    await client.create_job({"metadata": {"name": "embed"}})

    assert len(slept) == 2


async def test_a_lost_answer_to_a_creation_shows_as_already_exists(
    client: KubernetesClient, script: Script
) -> None:
    script.says(reset(), refusal(409, "AlreadyExists"))

    with pytest.raises(ApiConflictError) as raised:
        await client.create_job({"metadata": {"name": "embed"}})

    assert raised.value.reason == "AlreadyExists"


async def test_an_answer_that_is_no_job_is_passing_trouble(client: KubernetesClient, script: Script) -> None:
    script.says(answer("<html>sign in, hunter2</html>"))

    with pytest.raises(ApiUnavailableError, match="not what a Kubernetes API gives") as raised:
        await client.get_job("ml", "embed")

    assert "hunter2" not in str(raised.value)


# ---------------------------------------------------------------- lists


def page(*names: str, token: str = "", version: str = "50") -> Answer:
    metadata = {"resourceVersion": version, **({"continue": token} if token else {})}
    return answer({"metadata": metadata, "items": [job(name) for name in names]})


async def test_a_list_is_all_its_pages(client: KubernetesClient, script: Script) -> None:
    script.says(page("a", "b", token="t1"), page(token="t2"), page("c"))

    got = await client.list_jobs("ml", "team=x")

    assert [item.metadata.name for item in got.items] == ["a", "b", "c"]
    assert got.resource_version == "50"
    assert [request.query.get("continue") for request in script.requests] == [None, "t1", "t2"]
    assert script.requests[2].query["labelSelector"] == "team=x"


async def test_a_list_whose_token_expired_starts_over(client: KubernetesClient, script: Script) -> None:
    script.says(
        page("a", token="t1"), refusal(410, "Expired"), page("a", token="t3"), page("b", version="60")
    )

    got = await client.list_pods("ml", "team=x")

    assert [item.metadata.name for item in got.items] == ["a", "b"]
    assert got.resource_version == "60"


async def test_a_list_that_always_expires_ends(client: KubernetesClient, script: Script) -> None:
    script.says(refusal(410, "Expired"))

    with pytest.raises(ExpiredError):
        await client.list_jobs("ml", "")


async def test_an_empty_list_may_be_null(client: KubernetesClient, script: Script) -> None:
    script.says(answer({"metadata": {"resourceVersion": "1"}, "items": None}))

    got = await client.list_jobs("ml", "")

    assert got.items == ()


# ---------------------------------------------------------------- watches


def event(kind: str, thing: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": thing}).encode() + b"\n"


async def watched(client: KubernetesClient) -> list[Any]:
    return [seen async for seen in client.watch_pods("ml", "team=x", "50")]


async def test_a_watch_asks_for_an_end_and_for_bookmarks(client: KubernetesClient, script: Script) -> None:
    script.says(pieces(event("ADDED", job("a"))))

    await watched(client)

    query = script.requests[0].query
    assert (query["watch"], query["resourceVersion"], query["labelSelector"]) == ("true", "50", "team=x")
    assert query["allowWatchBookmarks"] == "true"
    assert 180 <= int(query["timeoutSeconds"]) <= 240


async def test_events_arrive_whole_however_they_are_cut(client: KubernetesClient, script: Script) -> None:
    stream = event("ADDED", job("a")) + event("MODIFIED", job("b")) + event("DELETED", job("c"))
    script.says(pieces(*(bytes([byte]) for byte in stream)))

    got = await watched(client)

    assert [(seen.type, seen.object.metadata.name) for seen in got] == [
        (EventType.ADDED, "a"), (EventType.MODIFIED, "b"), (EventType.DELETED, "c"),
    ]  # fmt: skip


async def test_a_line_longer_than_any_buffer_arrives(client: KubernetesClient, script: Script) -> None:
    big = job("big")
    big["metadata"]["annotations"] = {"a": "x" * 3_000_000}
    script.says(pieces(event("ADDED", big)))

    got = await watched(client)

    assert len(got[0].object.metadata.annotations["a"]) == 3_000_000


async def test_a_bookmark_carries_its_version_alone(client: KubernetesClient, script: Script) -> None:
    zeros = {
        "kind": "Pod", "apiVersion": "v1", "spec": {"containers": None}, "status": {},
        "metadata": {"resourceVersion": "77", "creationTimestamp": None},
    }  # fmt: skip
    script.says(pieces(event("BOOKMARK", zeros)))

    got = await watched(client)

    assert [(seen.type, seen.object.metadata.resource_version) for seen in got] == [
        (EventType.BOOKMARK, "77")
    ]


GONE_FORMS = {
    "as an answer": refusal(410, "Expired"),
    "as an event": pieces(event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})),
}


@pytest.mark.parametrize("said", GONE_FORMS.values(), ids=GONE_FORMS.keys())
async def test_an_old_version_is_expired(client: KubernetesClient, script: Script, said: Answer) -> None:
    script.says(said)

    with pytest.raises(ExpiredError):
        await watched(client)


async def test_another_error_event_is_told_by_its_code(client: KubernetesClient, script: Script) -> None:
    script.says(pieces(event("ERROR", {"kind": "Status", "code": 500, "message": "etcd"})))

    with pytest.raises(ApiUnavailableError, match="etcd"):
        await watched(client)


async def test_half_a_line_at_the_end_is_dropped(client: KubernetesClient, script: Script) -> None:
    script.says(pieces(event("ADDED", job("a")), event("MODIFIED", job("b"))[:-9]))

    got = await watched(client)

    assert [seen.object.metadata.name for seen in got] == ["a"]


async def test_half_a_line_of_a_cut_connection_is_no_answer(client: KubernetesClient, script: Script) -> None:
    script.says(pieces(event("ADDED", job("a")), b'{"type": "MOD', cut=True))

    with pytest.raises(ApiUnavailableError):
        await watched(client)


async def test_opening_a_watch_outlives_passing_trouble(
    client: KubernetesClient, script: Script, slept: list[float]
) -> None:
    script.says(refusal(503), refusal(429), pieces(event("ADDED", job("a"))))

    got = await watched(client)

    assert len(got) == 1
    assert slept == [0.5, 1.0]


async def test_an_unknown_event_and_an_empty_line_are_skipped(
    client: KubernetesClient, script: Script
) -> None:
    script.says(pieces(b"\n", event("NEWS", job("a")), event("ADDED", job("b"))))

    got = await watched(client)

    assert [seen.object.metadata.name for seen in got] == ["b"]


# ---------------------------------------------------------------- logs


async def followed(client: KubernetesClient, since: str | None = None) -> list[bytes]:
    return [line async for line in client.follow_log("ml", "p", container="main", since_time=since)]


async def test_a_log_is_followed_line_by_line(client: KubernetesClient, script: Script) -> None:
    script.says(pieces(b"2026 one\n2026 t", b"wo\n", b"2026 no line feed"))

    got = await followed(client, since="2026-03-01T12:00:00Z")

    assert got == [b"2026 one", b"2026 two", b"2026 no line feed"]
    query = script.requests[0].query
    assert (query["follow"], query["timestamps"]) == ("true", "true")
    assert query["sinceTime"] == "2026-03-01T12:00:00Z"


async def test_a_long_line_is_one_line(client: KubernetesClient, script: Script) -> None:
    script.says(pieces(*[b"x" * 8192] * 5, b"\n"))

    got = await followed(client)

    assert [len(line) for line in got] == [40960]


async def test_output_without_line_feeds_does_not_fill_the_memory(
    client: KubernetesClient, script: Script
) -> None:
    script.says(pieces(*[b"\rprogress" * 65536] * 4))

    got = await followed(client)

    assert len(got) > 1
    assert sum(map(len, got)) == 4 * 9 * 65536
