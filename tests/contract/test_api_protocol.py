"""Lists, watches, logs and reviews: how the API is spoken to."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from tests.contract.asking import Asker, Object, job, waiting_pod

INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}


def config_map(name: str, **labels: str) -> Object:
    return {"metadata": {"name": name, "labels": labels}}


def version_of(api: Asker, path: str) -> str:
    return str(api.ask("GET", path).body["metadata"]["resourceVersion"])


def told(event: Object) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["name"]


def test_81_a_watch_from_a_list_misses_nothing_and_doubles_nothing(api: Asker) -> None:
    path = api.core("configmaps")
    api.have("configmaps", config_map("before"))
    version = version_of(api, path)
    api.have("configmaps", config_map("a"))
    with api.watching(path, resourceVersion=version) as events:
        api.merge(api.core("configmaps", "a"), {"data": {"x": "y"}})
        api.ask("DELETE", api.core("configmaps", "a"))
        seen = list(islice(events, 3))

    assert [told(event) for event in seen] == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen]
    assert versions == sorted(set(versions))
    assert seen[-1]["object"]["kind"] == "ConfigMap"


def test_a_watch_without_a_version_begins_with_what_is_there(api: Asker) -> None:
    for name in ("a", "b"):
        api.have("configmaps", config_map(name, mine="yes"))

    with api.watching(api.core("configmaps"), labelSelector="mine") as events:
        seen = [told(event) for event in islice(events, 2)]

    assert sorted(seen) == [("ADDED", "a"), ("ADDED", "b")]


def test_82_a_watch_from_too_long_ago_is_told_so_in_an_event(api: Asker) -> None:
    """On the local cluster alone: its past is short."""
    if not api.is_local:
        pytest.skip("a real server remembers for minutes")

    with api.watching(api.core("configmaps"), resourceVersion=1) as events:
        [event] = events

    assert event["type"] == "ERROR"
    assert event["object"]["kind"] == "Status"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert event["object"]["message"].startswith("too old resource version: 1 (")


def test_83_a_watch_can_be_a_list_that_goes_on(api: Asker) -> None:
    api.have("configmaps", config_map("a", mine="yes"))
    query: dict[str, Any] = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "labelSelector": "mine",
    }

    with api.watching(api.core("configmaps"), **query) as events:
        first, end = islice(events, 2)
        api.have("configmaps", config_map("b", mine="yes"))
        after = next(events)

    assert told(first) == ("ADDED", "a")
    assert end["type"] == "BOOKMARK"
    assert end["object"]["metadata"]["annotations"] == INITIAL_EVENTS_END
    assert told(after) == ("ADDED", "b")


def test_a_watch_that_allows_bookmarks_ends_at_its_time_and_resumes_from_the_last_version(api: Asker) -> None:
    path = api.core("secrets")
    with api.watching(
        path, resourceVersion=version_of(api, path), allowWatchBookmarks="true", timeoutSeconds=1
    ) as events:
        seen = list(events)

    assert all(event["type"] == "BOOKMARK" for event in seen)


def test_what_stops_matching_is_told_as_deleted_and_what_begins_to_as_added(api: Asker) -> None:
    path = api.core("configmaps")
    api.have("configmaps", config_map("a", color="red"))
    version = version_of(api, path)

    with api.watching(path, resourceVersion=version, labelSelector="color=red") as events:
        for color in ("blue", "green", "red"):
            api.merge(api.core("configmaps", "a"), {"metadata": {"labels": {"color": color}}})
        gone, back = islice(events, 2)

    assert [told(gone), told(back)] == [("DELETED", "a"), ("ADDED", "a")]
    assert int(gone["object"]["metadata"]["resourceVersion"]) > int(version)


def test_86_a_pod_that_ends_leaves_a_watch_of_running_pods(api: Asker) -> None:
    api.have("pods", waiting_pod())
    path = api.core("pods")
    version = version_of(api, path)

    with api.watching(path, resourceVersion=version, fieldSelector="status.phase=Running") as events:
        for phase in ("Running", "Succeeded"):
            api.merge(api.core("pods", "p", "status"), {"status": {"phase": phase}})
        seen = [told(event) for event in islice(events, 2)]

    assert seen == [("ADDED", "p"), ("DELETED", "p")]


def test_84_a_list_comes_in_pages_of_one_moment(api: Asker) -> None:
    for number in range(5):
        api.have("secrets", {"metadata": {"name": f"s{number}"}})
    pages: list[Any] = []
    token: dict[str, Any] = {}
    while not pages or token:
        page = api.ask("GET", api.core("secrets"), limit=2, **token).body
        pages.append(page)
        token = {"continue": page["metadata"]["continue"]} if page["metadata"].get("continue") else {}
        api.have("secrets", {"metadata": {"name": f"later-{len(pages)}"}})

    names = [[one["metadata"]["name"] for one in page["items"]] for page in pages]
    assert names == [["s0", "s1"], ["s2", "s3"], ["s4"]]
    assert [page["metadata"].get("remainingItemCount") for page in pages] == [3, 1, None]
    assert len({page["metadata"]["resourceVersion"] for page in pages}) == 1


def test_items_of_a_list_say_no_kind(api: Asker) -> None:
    api.have_job(job(suspend=True))

    body = api.ask("GET", api.jobs()).body

    assert (body["kind"], body["apiVersion"]) == ("JobList", "batch/v1")
    assert not body["items"][0].keys() & {"kind", "apiVersion"}


SELECTORS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "equal": ({"labelSelector": "color=red"}, {"a"}),
    "equal, written doubly": ({"labelSelector": "color==red"}, {"a"}),
    "different, or without": ({"labelSelector": "color!=red"}, {"b", "c"}),
    "one of": ({"labelSelector": "color in (red, blue)"}, {"a", "b"}),
    "none of": ({"labelSelector": "color notin (red,blue)"}, {"c"}),
    "there": ({"labelSelector": "color"}, {"a", "b"}),
    "not there": ({"labelSelector": "!color"}, {"c"}),
    "two at once": ({"labelSelector": "color,color!=red"}, {"b"}),
    "by name": ({"fieldSelector": "metadata.name=a"}, {"a"}),
    "by another name": ({"fieldSelector": "metadata.name!=a"}, {"b", "c"}),
    "by both": ({"fieldSelector": "metadata.name!=a", "labelSelector": "color"}, {"b"}),
}


@pytest.mark.parametrize(("query", "want"), SELECTORS.values(), ids=SELECTORS.keys())
def test_selectors(api: Asker, query: dict[str, Any], want: set[str]) -> None:
    for name, labels in {"a": {"color": "red"}, "b": {"color": "blue"}, "c": {}}.items():
        api.have("secrets", {"metadata": {"name": name, "labels": labels}})

    items = api.ask("GET", api.core("secrets"), **query).body["items"]

    assert {one["metadata"]["name"] for one in items} == want


def test_85_jobs_are_selected_by_their_successes(api: Asker) -> None:
    for name in ("a", "b"):
        api.have_job(job(name, suspend=True, managedBy="example.com/nobody"))
    api.merge(api.jobs("a", "status"), {"status": {"succeeded": 1}})

    items = api.ask("GET", api.jobs(), fieldSelector="status.successful=1").body["items"]

    assert [one["metadata"]["name"] for one in items] == ["a"]


BAD_QUERIES: dict[str, tuple[dict[str, Any], int, str]] = {
    "85 a field that is no selector": ({"fieldSelector": "spec.foo=1"}, 400, "BadRequest"),
    "a selector that cannot be read": ({"labelSelector": "a in (b"}, 400, "BadRequest"),
    "a match without a version": ({"resourceVersionMatch": "Exact"}, 422, "Invalid"),
    "a match that does not exist": (
        {"resourceVersionMatch": "Roughly", "resourceVersion": "1"},
        422,
        "Invalid",
    ),
    "exactly any version": ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, 422, "Invalid"),
    "a version yet to come": ({"resourceVersion": "999999999999999"}, 504, "Timeout"),
    "a token that is none": ({"limit": 1, "continue": "what"}, 400, "BadRequest"),
}


@pytest.mark.parametrize(("query", "code", "reason"), BAD_QUERIES.values(), ids=BAD_QUERIES.keys())
def test_a_query_that_makes_no_sense_is_refused(
    api: Asker, query: dict[str, Any], code: int, reason: str
) -> None:
    answer = api.ask("GET", api.core("pods"), **query)

    assert (answer.code, answer.body["reason"]) == (code, reason)


def test_87_the_log_of_a_pod_on_no_node_is_empty(api: Asker) -> None:
    """Not as described: the log of a pod on no node is answered with 204, not with 200."""
    api.have("pods", waiting_pod())

    answer = api.ask("GET", api.core("pods", "p", "log"))

    assert (answer.code, answer.body) == (204, "")


BAD_LOG_QUERIES = {
    "88 a negative tail": ({"tailLines": -1}, 422),
    "88 no bytes": ({"limitBytes": 0}, 422),
    "no seconds": ({"sinceSeconds": 0}, 422),
    "since twice": ({"sinceSeconds": 1, "sinceTime": "2024-01-01T00:00:00Z"}, 422),
    "a container that is not there": ({"container": "other"}, 400),
}


@pytest.mark.parametrize(("query", "code"), BAD_LOG_QUERIES.values(), ids=BAD_LOG_QUERIES.keys())
def test_a_log_that_cannot_be_is_refused(api: Asker, query: dict[str, Any], code: int) -> None:
    api.have("pods", waiting_pod())

    assert api.ask("GET", api.core("pods", "p", "log"), **query).code == code


def test_the_log_of_a_pod_that_is_not_there_is_not_found(api: Asker) -> None:
    answer = api.ask("GET", api.core("pods", "p", "log"))

    assert (answer.code, answer.body["message"]) == (404, 'pods "p" not found')


def test_one_of_several_containers_must_be_named_for_a_log(api: Asker) -> None:
    containers = [{"name": name, "image": "b:1", "command": ["true"]} for name in ("a", "b")]
    api.have("pods", waiting_pod(containers=containers))

    answer = api.ask("GET", api.core("pods", "p", "log"))

    assert answer.code == 400
    assert "choose one of: [a b]" in answer.body["message"]


def test_90_one_may_ask_what_one_may(api: Asker) -> None:
    attributes = {"namespace": api.namespace, "verb": "get", "resource": "pods", "subresource": "log"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }

    answer = api.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)

    assert answer.code == 201
    assert answer.body["status"]["allowed"] is True


def test_without_a_token_nobody_is_let_in(api: Asker) -> None:
    answer = api.ask("GET", api.jobs(), headers={"Authorization": "Bearer other"})

    assert (answer.code, answer.body["reason"]) == (401, "Unauthorized")


def test_the_server_says_what_it_serves(api: Asker) -> None:
    assert "v1" in api.ask("GET", "/api").body["versions"]
    assert "batch" in {one["name"] for one in api.ask("GET", "/apis").body["groups"]}
    resources = {one["name"]: one for one in api.ask("GET", "/apis/batch/v1").body["resources"]}
    assert {"create", "delete", "get", "list", "patch", "update", "watch"} <= set(resources["jobs"]["verbs"])
    assert "jobs/status" in resources


def test_a_resource_that_does_not_exist_is_not_found(api: Asker) -> None:
    answer = api.ask("GET", api.core("teapots"))

    assert (answer.code, answer.body["reason"]) == (404, "NotFound")
