"""The three kinds of patch, as functions of values."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_batchjob.local.api.jsonpatch import (
    CannotApply,
    NotAPatch,
    apply_json_patch,
    apply_merge_patch,
    check_operations,
)
from airflow_batchjob.local.api.strategic import BadPatch, apply_strategic_patch

DOCUMENT = {"a": {"b": [1, 2, 3]}, "x/y": 0, "t~": 1}

OPERATIONS: dict[str, tuple[list[dict[str, Any]], Any]] = {
    "add a field": ([{"op": "add", "path": "/n", "value": 1}], {**DOCUMENT, "n": 1}),
    "add at the end of a list": (
        [{"op": "add", "path": "/a/b/-", "value": 4}],
        {**DOCUMENT, "a": {"b": [1, 2, 3, 4]}},
    ),
    "add within a list": (
        [{"op": "add", "path": "/a/b/1", "value": 9}],
        {**DOCUMENT, "a": {"b": [1, 9, 2, 3]}},
    ),
    "replace in a list": (
        [{"op": "replace", "path": "/a/b/0", "value": 9}],
        {**DOCUMENT, "a": {"b": [9, 2, 3]}},
    ),
    "remove from a list": ([{"op": "remove", "path": "/a/b/0"}], {**DOCUMENT, "a": {"b": [2, 3]}}),
    "names with slash and tilde": (
        [{"op": "replace", "path": "/x~1y", "value": 5}, {"op": "remove", "path": "/t~0"}],
        {"a": {"b": [1, 2, 3]}, "x/y": 5},
    ),
    "move": (
        [{"op": "move", "from": "/a/b", "path": "/c"}],
        {"a": {}, "c": [1, 2, 3], "x/y": 0, "t~": 1},
    ),
    "copy, then change the copy": (
        [{"op": "copy", "from": "/a", "path": "/c"}, {"op": "remove", "path": "/c/b"}],
        {**DOCUMENT, "c": {}},
    ),
    "a test that holds": ([{"op": "test", "path": "/a/b", "value": [1, 2, 3]}], DOCUMENT),
    "the whole": ([{"op": "replace", "path": "", "value": {"n": 1}}], {"n": 1}),
}


@pytest.mark.parametrize(("operations", "want"), OPERATIONS.values(), ids=OPERATIONS.keys())
def test_json_patch(operations: list[dict[str, Any]], want: Any) -> None:
    before = copy.deepcopy(DOCUMENT)

    assert apply_json_patch(DOCUMENT, operations) == want
    assert before == DOCUMENT


FAILING = {
    "a test that does not hold": {"op": "test", "path": "/a/b", "value": []},
    "a field that is not there": {"op": "remove", "path": "/z"},
    "a place that is not there": {"op": "add", "path": "/z/y", "value": 1},
    "beyond the end of a list": {"op": "add", "path": "/a/b/4", "value": 1},
    "replacing beyond the end": {"op": "replace", "path": "/a/b/3", "value": 1},
    "a field of a number": {"op": "add", "path": "/t~0/x", "value": 1},
    "no such operation": {"op": "weep", "path": "/a"},
    "a path without a slash": {"op": "remove", "path": "a"},
}


@pytest.mark.parametrize("operation", FAILING.values(), ids=FAILING.keys())
def test_a_json_patch_that_does_not_fit(operation: dict[str, Any]) -> None:
    with pytest.raises(CannotApply):
        apply_json_patch(DOCUMENT, [operation])


def test_what_two_fields_share_is_changed_in_one_of_them_only() -> None:
    shared = {"k": 1}

    patched = apply_json_patch({"a": shared, "b": shared}, [{"op": "replace", "path": "/a/k", "value": 2}])

    assert patched == {"a": {"k": 2}, "b": {"k": 1}}


@pytest.mark.parametrize("patch", [{}, "text", [1], [{"op": "add"}]])
def test_what_is_no_json_patch(patch: Any) -> None:
    with pytest.raises(NotAPatch):
        check_operations(patch)


MERGES: dict[str, tuple[Any, Any, Any]] = {
    "a new field": ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
    "null removes": ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
    "objects merge": ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
    "lists are replaced": ({"a": [1]}, {"a": [2]}, {"a": [2]}),
    "an object over a number": ({"a": 1}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
}


@pytest.mark.parametrize(("document", "patch", "want"), MERGES.values(), ids=MERGES.keys())
def test_merge_patch(document: Any, patch: Any, want: Any) -> None:
    assert apply_merge_patch(document, patch) == want


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
def test_merging_a_patch_twice_is_merging_it_once(document: Any, patch: Any) -> None:
    once = apply_merge_patch(document, patch)

    assert apply_merge_patch(once, patch) == once


def spec_of(*containers: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers), **fields}}


STRATEGIC: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "containers merge by name": (
        spec_of({"name": "a", "image": "x"}, {"name": "b", "image": "y"}),
        spec_of({"name": "b", "image": "z"}),
        spec_of({"name": "a", "image": "x"}, {"name": "b", "image": "z"}),
    ),
    "a new one comes last": (
        spec_of({"name": "a"}),
        spec_of({"name": "b"}),
        spec_of({"name": "a"}, {"name": "b"}),
    ),
    "one is deleted by name": (
        spec_of({"name": "a"}, {"name": "b"}),
        spec_of({"$patch": "delete", "name": "a"}),
        spec_of({"name": "b"}),
    ),
    "all are replaced": (
        spec_of({"name": "a"}, {"name": "b"}),
        spec_of({"$patch": "replace"}, {"name": "c"}),
        spec_of({"name": "c"}),
    ),
    "an order is set": (
        spec_of({"name": "a"}, {"name": "b"}),
        {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}},
        spec_of({"name": "b"}, {"name": "a"}),
    ),
    "tolerations have no key and are replaced": (
        {"spec": {"tolerations": [{"key": "a"}]}},
        {"spec": {"tolerations": [{"key": "b"}]}},
        {"spec": {"tolerations": [{"key": "b"}]}},
    ),
    "finalizers are a set": (
        {"metadata": {"finalizers": ["a/a"]}},
        {"metadata": {"finalizers": ["a/a", "b/b"]}},
        {"metadata": {"finalizers": ["a/a", "b/b"]}},
    ),
    "one finalizer is taken off": (
        {"metadata": {"finalizers": ["a/a", "b/b"]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/a"]}},
        {"metadata": {"finalizers": ["b/b"]}},
    ),
    "a map is replaced": (
        {"metadata": {"labels": {"a": "1", "b": "2"}}},
        {"metadata": {"labels": {"$patch": "replace", "c": "3"}}},
        {"metadata": {"labels": {"c": "3"}}},
    ),
    "a map keeps what is named": (
        {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
        {
            "spec": {
                "volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}]
            }
        },
        {"spec": {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}},
    ),
    "null removes": (
        spec_of({"name": "a", "image": "x"}),
        spec_of({"name": "a", "image": None}),
        spec_of({"name": "a"}),
    ),
}


@pytest.mark.parametrize(("document", "patch", "want"), STRATEGIC.values(), ids=STRATEGIC.keys())
def test_strategic_patch(document: dict[str, Any], patch: dict[str, Any], want: dict[str, Any]) -> None:
    before = copy.deepcopy(document)

    assert apply_strategic_patch("Pod", document, patch) == want
    assert document == before


BAD = {
    "an item without its key": spec_of({"image": "x"}),
    "no such directive": {"$patch": "weep"},
}


@pytest.mark.parametrize("patch", BAD.values(), ids=BAD.keys())
def test_a_strategic_patch_that_breaks_the_rules(patch: dict[str, Any]) -> None:
    with pytest.raises(BadPatch):
        apply_strategic_patch("Pod", {}, patch)
