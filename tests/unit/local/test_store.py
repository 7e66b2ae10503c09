"""The store: one order of changes, objects never changed in place, a history of bounded length."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_batchjob.local.store import AlreadyExists, Change, Conflict, Expired, NotFound, Object, Store


def pod(name: str, *, owner: str = "", **metadata: Any) -> Object:
    if owner:
        metadata["ownerReferences"] = [{"uid": owner, "controller": True, "kind": "Job", "name": "j"}]
    return {"metadata": {"name": name, "namespace": "n", **metadata}, "spec": {}}


def name_of(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def test_a_created_object_has_identity_version_and_time() -> None:
    store = Store(first_version=41)

    metadata = store.create("pods", pod("p"))["metadata"]

    assert metadata["resourceVersion"] == "42"
    assert len(metadata["uid"]) == 36
    assert metadata["creationTimestamp"].endswith("Z")


def test_a_name_is_taken_once_per_kind_and_namespace() -> None:
    store = Store()
    store.create("pods", pod("p"))
    store.create("jobs", pod("p"))
    store.create("pods", pod("p") | {"metadata": {"name": "p", "namespace": "other"}})

    with pytest.raises(AlreadyExists):
        store.create("pods", pod("p"))


def test_a_stored_object_is_never_changed_in_place() -> None:
    store = Store()
    first = store.create("pods", pod("p"))
    kept = copy.deepcopy(first)

    store.update("pods", {**first, "spec": {"a": 1}})
    store.delete("pods", "n", "p")

    assert first == kept


def test_an_update_that_changes_nothing_is_no_change() -> None:
    store = Store()
    first = store.create("pods", pod("p"))

    assert store.update("pods", {**first}) is first
    assert store.version == 1


def test_an_update_keeps_identity_and_raises_the_version() -> None:
    store = Store()
    first = store.create("pods", pod("p"))

    updated = store.update("pods", {"metadata": {"name": "p", "namespace": "n"}, "spec": {"a": 1}})

    assert updated["metadata"] == {**first["metadata"], "resourceVersion": "2"}


def test_an_update_of_what_is_not_there_is_refused() -> None:
    with pytest.raises(NotFound):
        Store().update("pods", pod("p"))


@pytest.mark.parametrize("stale", [{"uid": "another"}, {}], ids=["another uid", "an old version"])
def test_an_update_by_one_who_saw_something_else_is_a_conflict(stale: Object) -> None:
    store = Store()
    store.create("pods", pod("p"))

    with pytest.raises(Conflict):
        store.update("pods", pod("p", **stale), expected_version=1 if stale else 7)


ENDS: dict[str, tuple[Object, bool]] = {
    "no finalizer, no grace": ({}, True),
    "no finalizer, grace over": ({"deletionGracePeriodSeconds": 0}, True),
    "grace left": ({"deletionGracePeriodSeconds": 30}, False),
    "a finalizer": ({"finalizers": ["a/b"], "deletionGracePeriodSeconds": 0}, False),
}


@pytest.mark.parametrize(("fields", "want_gone"), ENDS.values(), ids=ENDS.keys())
def test_an_object_being_deleted_goes_when_nothing_holds_it(fields: Object, want_gone: bool) -> None:
    store = Store()
    first = store.create("pods", pod("p"))
    marked = {**first["metadata"], "deletionTimestamp": "2024-01-01T00:00:00Z", **fields}

    store.update("pods", {**first, "metadata": marked})

    assert (store.get("pods", "n", "p") is None) == want_gone
    assert store.since(1)[-1].type == ("DELETED" if want_gone else "MODIFIED")


def test_listeners_hear_of_every_change_in_one_order_even_if_they_make_some() -> None:
    store = Store()
    heard: dict[str, list[int]] = {"first": [], "second": []}

    def first(change: Change) -> None:
        heard["first"].append(change.version)
        if change.version == 1:
            store.create("pods", pod("made-by-a-listener"))

    store.subscribe(first)
    store.subscribe(lambda change: heard["second"].append(change.version))
    store.create("pods", pod("p"))

    assert heard == {"first": [1, 2], "second": [1, 2]}


def test_a_listener_that_fails_keeps_nobody_from_hearing(caplog: pytest.LogCaptureFixture) -> None:
    store = Store()
    heard: list[Change] = []

    def fail(change: Change) -> None:
        raise RuntimeError(change.type)

    store.subscribe(fail)
    store.subscribe(heard.append)
    store.create("pods", pod("p"))

    assert [change.type for change in heard] == ["ADDED"]
    assert "RuntimeError: ADDED" in caplog.text


def test_who_unsubscribes_hears_no_more() -> None:
    store = Store()
    heard: list[Change] = []
    end = store.subscribe(heard.append)
    end()
    end()

    store.create("pods", pod("p"))

    assert not heard


def test_history_is_cut_and_says_so() -> None:
    store = Store(history_length=10)
    for number in range(25):
        store.create("pods", pod(f"p{number}"))

    with pytest.raises(Expired, match=r"too old resource version: 3 \("):
        store.since(3)
    assert [change.version for change in store.since(20)] == [21, 22, 23, 24, 25]
    assert store.since(25) == []
    assert store.since(99) == []


def test_pods_are_found_by_their_controller() -> None:
    store = Store()
    mine = store.create("pods", pod("mine", owner="u"))
    store.create("pods", pod("other", owner="v"))
    store.create("configmaps", pod("no-pod", owner="u"))
    watched = pod("owned-not-controlled", owner="u")
    watched["metadata"]["ownerReferences"][0]["controller"] = False
    store.create("pods", watched)

    assert [name_of(one) for one in store.pods_of("u")] == ["mine"]
    store.update("pods", {**mine, "metadata": {**mine["metadata"], "ownerReferences": []}})
    assert not list(store.pods_of("u"))
    assert {name_of(one) for _, one in store.owned_by("u")} == {"no-pod", "owned-not-controlled"}


NAMES = st.sampled_from("abc")


@given(st.lists(st.tuples(st.sampled_from(["create", "update", "delete"]), NAMES), max_size=40))
def test_the_past_is_what_it_was(steps: list[tuple[str, str]]) -> None:
    store = Store()
    pasts = {0: list(store.list("pods"))}
    for number, (step, name) in enumerate(steps):
        there = store.get("pods", "n", name)
        if step == "create" and there is None:
            store.create("pods", pod(name))
        elif step == "update" and there is not None:
            store.update("pods", {**there, "spec": {"n": number}})
        elif step == "delete":
            store.delete("pods", "n", name)
        pasts[store.version] = list(store.list("pods"))

    for version, want in pasts.items():
        assert list(store.at("pods", version).objects()) == sorted(want, key=name_of)


@given(st.lists(st.tuples(st.sampled_from("abc"), NAMES), unique=True), st.sampled_from("abc"), NAMES)
def test_a_moment_tells_what_comes_after_a_position(
    keys: list[tuple[str, str]], namespace: str, name: str
) -> None:
    store = Store()
    for its, of in keys:
        store.create("pods", pod(of, namespace=its))
    moment = store.at("pods", store.version)
    want = {
        None: sorted(key for key in keys if key > (namespace, name)),
        namespace: sorted(key for key in keys if key > (namespace, name) and key[0] == namespace),
    }

    for where, positions in want.items():
        found = moment.objects(where, after=(namespace, name))
        assert [(obj["metadata"]["namespace"], name_of(obj)) for obj in found] == positions
        assert moment.count(where, after=(namespace, name)) == len(positions)
