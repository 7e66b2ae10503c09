"""Changing a Job: what may change when, and the ways to ask for it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.asking import JSON_PATCH, STRATEGIC_PATCH, Asker, Object, container, indexed, job

IMMUTABLE: dict[str, tuple[Object, Object, str]] = {
    "28 completions without indexes": (
        job(completions=3, suspend=True),
        {"completions": 4},
        "spec.completions",
    ),
    "29 completions of indexes, without parallelism": (
        indexed(completions=3, parallelism=3, suspend=True),
        {"completions": 5},
        "spec.completions",
    ),
    "the selector": (
        job(suspend=True),
        {"selector": {"matchLabels": {"a": "b"}}},
        "spec.selector",
    ),
    "the mode": (job(completions=1, suspend=True), {"completionMode": "Indexed"}, "spec.completionMode"),
    "the budget per index": (
        indexed(backoffLimitPerIndex=1, suspend=True),
        {"backoffLimitPerIndex": 2},
        "spec.backoffLimitPerIndex",
    ),
    "the manager": (job(suspend=True), {"managedBy": "acme.io/x"}, "spec.managedBy"),
    "the failure policy": (
        job(
            suspend=True,
            podFailurePolicy={
                "rules": [{"action": "Count", "onExitCodes": {"operator": "In", "values": [1]}}]
            },
        ),
        {"podFailurePolicy": None, "podReplacementPolicy": "Failed"},
        "spec.podFailurePolicy",
    ),
    "the success policy": (
        indexed(suspend=True),
        {"successPolicy": {"rules": [{"succeededCount": 1}]}},
        "spec.successPolicy",
    ),
}


@pytest.mark.parametrize(("created", "change", "field"), IMMUTABLE.values(), ids=IMMUTABLE.keys())
def test_what_decides_the_pods_cannot_change(api: Asker, created: Object, change: Object, field: str) -> None:
    api.have_job(created)

    answer = api.merge(api.jobs("j"), {"spec": change})

    assert answer.code == 422, answer.body
    assert (field, "Invalid") in answer.causes


def test_29_completions_and_parallelism_of_indexes_change_together(api: Asker) -> None:
    api.have_job(indexed(completions=3, parallelism=3, suspend=True))

    answer = api.merge(api.jobs("j"), {"spec": {"completions": 5, "parallelism": 5}})

    assert (answer.code, answer.body["spec"]["completions"]) == (200, 5)


MUTABLE: dict[str, Object] = {
    "the budget": {"backoffLimit": 2},
    "the deadline": {"activeDeadlineSeconds": 100},
    "the time to live": {"ttlSecondsAfterFinished": 100},
    "the parallelism": {"parallelism": 0},
    "the suspension": {"suspend": False},
    "the fuse": {"maxFailedIndexes": 1},
}


@pytest.mark.parametrize("change", MUTABLE.values(), ids=MUTABLE.keys())
def test_31_limits_change_at_any_time_and_raise_the_generation(api: Asker, change: Object) -> None:
    api.have_job(indexed(backoffLimitPerIndex=1, suspend=True))

    answer = api.merge(api.jobs("j"), {"spec": change})

    assert answer.code == 200, answer.body
    assert change.items() <= answer.body["spec"].items()
    assert answer.body["metadata"]["generation"] == 2


def test_labels_change_without_a_new_generation(api: Asker) -> None:
    api.have_job(job(suspend=True))

    answer = api.merge(api.jobs("j"), {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}})

    assert answer.body["metadata"]["generation"] == 1
    assert answer.body["metadata"]["labels"]["a"] == "b"


def test_a_change_that_changes_nothing_leaves_the_version(api: Asker) -> None:
    api.have_job(job(suspend=True))
    before = api.eventually(lambda: settled(api))

    answer = api.merge(api.jobs("j"), {"spec": {"suspend": True}})

    assert answer.body["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


def settled(api: Asker) -> Object | None:
    """Return the suspended Job once its controller has said so, and writes no more."""
    body: Object = api.ask("GET", api.jobs("j")).body
    return body if body["status"].get("conditions") else None


PLACEMENT: dict[str, Any] = {
    "74 the node selector": {"nodeSelector": {"a": "b"}},
    "tolerations": {"tolerations": [{"key": "spot", "operator": "Exists"}]},
    "node affinity": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
                }
            }
        }
    },
    "scheduling gates": {"schedulingGates": [{"name": "example.com/gate"}]},
}


@pytest.mark.parametrize("change", PLACEMENT.values(), ids=PLACEMENT.keys())
def test_placement_changes_while_a_job_has_never_started(api: Asker, change: Object) -> None:
    api.have_job(job(suspend=True))

    answer = api.merge(api.jobs("j"), {"spec": {"template": {"spec": change}}})

    assert answer.code == 200, answer.body


def test_placement_and_resuming_are_one_request(api: Asker) -> None:
    api.have_job(job(suspend=True))
    template = {
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {"nodeSelector": {"nowhere": "at-all"}},
    }

    answer = api.merge(api.jobs("j"), {"spec": {"suspend": False, "template": template}})

    assert answer.code == 200, answer.body
    assert answer.body["spec"]["template"]["spec"]["nodeSelector"] == {"nowhere": "at-all"}


def test_74_placement_of_a_job_that_is_not_suspended_cannot_change(api: Asker) -> None:
    api.have_job(job(pod={"nodeSelector": {"nowhere": "at-all"}}))

    answer = api.merge(api.jobs("j"), {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}})

    assert answer.code == 422
    assert ("spec.template", "Invalid") in answer.causes


def test_74_suspending_a_job_and_moving_it_are_two_requests(api: Asker) -> None:
    api.have_job(job(pod={"nodeSelector": {"nowhere": "at-all"}}))
    template = {"spec": {"nodeSelector": {"a": "b"}}}

    answer = api.merge(api.jobs("j"), {"spec": {"suspend": True, "template": template}})

    assert answer.code == 422
    assert ("spec.template", "Invalid") in answer.causes


def test_75_resources_change_while_suspended_since_1_36(api: Asker) -> None:
    """By version: before 1.36 other resources are refused with 422 at spec.template."""
    api.have_job(job(suspend=True))
    api.eventually(lambda: settled(api))
    resources = {"requests": {"memory": "64Mi"}}
    template = {"spec": {"containers": [container(resources=resources)]}}

    answer = api.ask("PATCH", api.jobs("j"), {"spec": {"template": template}}, content_type=STRATEGIC_PATCH)

    if api.minor < 36:
        assert (answer.code, answer.causes) == (422, {("spec.template", "Invalid")})
        return
    assert answer.code == 200, answer.body
    assert answer.body["spec"]["template"]["spec"]["containers"][0]["resources"] == resources


def test_30_and_75_an_image_never_changes(api: Asker) -> None:
    """By version: for another image the 422 names spec.template before 1.36, and spec.template.spec since."""
    api.have_job(job(suspend=True))
    template = {"spec": {"containers": [{"name": "main", "image": "other:1"}]}}

    answer = api.ask("PATCH", api.jobs("j"), {"spec": {"template": template}}, content_type=STRATEGIC_PATCH)

    assert answer.code == 422
    assert ("spec.template.spec" if api.minor >= 36 else "spec.template", "Invalid") in answer.causes


def test_pod_affinity_never_changes(api: Asker) -> None:
    api.have_job(job(suspend=True))
    term = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    answer = api.merge(api.jobs("j"), {"spec": {"template": {"spec": {"affinity": affinity}}}})

    assert answer.code == 422


def test_r17_a_json_patch_applies_where_its_tests_hold(api: Asker) -> None:
    created = api.have_job(job(suspend=True))
    operations = [
        {"op": "test", "path": "/metadata/uid", "value": created["metadata"]["uid"]},
        {"op": "add", "path": "/metadata/annotations", "value": {"a/b": "c"}},
        {"op": "test", "path": "/metadata/annotations/a~1b", "value": "c"},
        {"op": "replace", "path": "/spec/parallelism", "value": 2},
    ]

    answer = api.ask("PATCH", api.jobs("j"), operations, content_type=JSON_PATCH)

    assert (answer.code, answer.body["spec"]["parallelism"]) == (200, 2)


FAILING = {
    "R17 a test of another uid": {"op": "test", "path": "/metadata/uid", "value": "other"},
    "a test of what is not there": {"op": "test", "path": "/metadata/annotations/a", "value": "b"},
    "removing what is not there": {"op": "remove", "path": "/spec/ttlSecondsAfterFinished"},
}


@pytest.mark.parametrize("failing", FAILING.values(), ids=FAILING.keys())
def test_a_json_patch_changes_nothing_where_one_operation_fails(api: Asker, failing: Object) -> None:
    api.have_job(job(suspend=True))
    operations = [{"op": "replace", "path": "/spec/parallelism", "value": 2}, failing]

    answer = api.ask("PATCH", api.jobs("j"), operations, content_type=JSON_PATCH)

    assert (answer.code, answer.body["reason"]) == (422, "Invalid")
    assert answer.body["message"] == "the server rejected our request due to an error in our request"
    assert api.ask("GET", api.jobs("j")).body["spec"]["parallelism"] == 1


def test_a_strategic_patch_removes_one_finalizer_by_name(api: Asker) -> None:
    sent = job(suspend=True)
    sent["metadata"]["finalizers"] = ["a.example/x", "a.example/y"]
    api.have_job(sent)
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.example/x"]}}

    answer = api.ask("PATCH", api.jobs("j"), patch, content_type=STRATEGIC_PATCH)

    assert answer.body["metadata"]["finalizers"] == ["a.example/y"]
    api.merge(api.jobs("j"), {"metadata": {"finalizers": None}})


def test_a_strategic_patch_merges_conditions_by_type_and_a_merge_patch_replaces_them(api: Asker) -> None:
    """By version: a condition that is added comes first or last."""
    api.have_job(job(suspend=True, managedBy="example.com/nobody"))
    time = "2024-01-01T00:00:00Z"

    def condition(type_: str) -> Object:
        return {"type": type_, "status": "True", "lastProbeTime": time, "lastTransitionTime": time}

    for type_ in ("A", "B"):
        patch = {"status": {"conditions": [condition(type_)]}}
        merged = api.ask("PATCH", api.jobs("j", "status"), patch, content_type=STRATEGIC_PATCH)
    replaced = api.merge(api.jobs("j", "status"), {"status": {"conditions": [condition("C")]}})

    assert sorted(one["type"] for one in merged.body["status"]["conditions"]) == ["A", "B"]
    assert [one["type"] for one in replaced.body["status"]["conditions"]] == ["C"]


def test_a_strategic_patch_deletes_one_item_by_its_key(api: Asker) -> None:
    api.have(
        "services",
        {
            "metadata": {"name": "s"},
            "spec": {"clusterIP": "None", "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]},
        },
    )
    patch = {"spec": {"ports": [{"$patch": "delete", "port": 1}]}}

    answer = api.ask("PATCH", api.core("services", "s"), patch, content_type=STRATEGIC_PATCH)

    assert [port["name"] for port in answer.body["spec"]["ports"]] == ["b"]


def test_a_patch_of_another_kind_is_an_unsupported_media_type(api: Asker) -> None:
    api.have_job(job(suspend=True))

    answer = api.ask("PATCH", api.jobs("j"), {"spec": {"parallelism": 2}})

    assert (answer.code, answer.body["reason"]) == (415, "UnsupportedMediaType")


def test_91_a_stale_version_is_a_conflict(api: Asker) -> None:
    stale = api.have_job(job(suspend=True))
    api.merge(api.jobs("j"), {"metadata": {"annotations": {"a": "b"}}})

    put = api.ask("PUT", api.jobs("j"), stale)
    patch = api.merge(api.jobs("j"), {"metadata": {"resourceVersion": stale["metadata"]["resourceVersion"]}})

    for answer in (put, patch):
        assert (answer.code, answer.body["reason"]) == (409, "Conflict")
        assert answer.body["message"].startswith('Operation cannot be fulfilled on jobs.batch "j": ')


def test_a_put_ignores_the_status_and_a_put_of_the_status_ignores_the_spec(api: Asker) -> None:
    stored = api.have_job(indexed(suspend=True, managedBy="example.com/nobody"))
    sent = {**stored, "spec": {**stored["spec"], "parallelism": 2}, "status": {"completedIndexes": "0"}}
    del sent["metadata"]["resourceVersion"]

    api.ask("PUT", api.jobs("j"), sent)
    after_main = api.ask("GET", api.jobs("j")).body
    api.ask("PUT", api.jobs("j", "status"), {**sent, "spec": {**stored["spec"], "parallelism": 3}})
    after_status = api.ask("GET", api.jobs("j")).body

    assert (after_main["spec"]["parallelism"], after_main["status"]) == (2, {})
    assert after_status["spec"]["parallelism"] == 2
    assert after_status["status"]["completedIndexes"] == "0"


def test_89_a_dry_run_changes_nothing(api: Asker) -> None:
    for _ in range(2):
        assert api.create_job(job(suspend=True), dryRun="All").code == 201
    assert api.ask("GET", api.jobs("j")).code == 404
    api.have_job(job(suspend=True))

    answer = api.merge(api.jobs("j"), {"spec": {"parallelism": 5}}, dryRun="All")

    assert answer.body["spec"]["parallelism"] == 5
    assert api.ask("GET", api.jobs("j")).body["spec"]["parallelism"] == 1
