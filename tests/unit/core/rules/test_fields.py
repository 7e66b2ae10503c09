"""Names and shapes of a Job's fields."""

from __future__ import annotations

import pytest

from airflow_batchjob.core.rules.fields import JOB_SHAPE, key_problems, shape_problems, unknown_fields


def job(spec=None, pod=None, container=None, **top):
    template = {"spec": {"containers": [container or {}], **(pod or {})}}
    return {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": template, **(spec or {})}, **top}


UNKNOWN = {
    "a typo of case": (job({"backOffLimit": 1}), "spec.backOffLimit", "Did you mean backoffLimit"),
    "Python's spelling": (job({"backoff_limit": 1}), "spec.backoff_limit", "Did you mean backoffLimit"),
    "a letter too few": (job({"completion": 1}), "spec.completion", "Did you mean completions"),
    "at the top": (job(metdata={}), "metdata", "Did you mean metadata"),
    "nothing like it": (job({"zzz": 1}), "spec.zzz", "Take it out"),
    "a pod's field beside the template": (
        job({"restartPolicy": "Never"}),
        "spec.restartPolicy",
        "Put it into spec.template.spec",
    ),
    "a Job's field in the pod": (
        job(pod={"backoffLimit": 1}),
        "spec.template.spec.backoffLimit",
        "Put it into spec",
    ),
    "a container's field in the pod": (
        job(pod={"image": "i"}),
        "spec.template.spec.image",
        "Put it into a container",
    ),
    "a pod's field in a container": (
        job(container={"volumes": []}),
        "spec.template.spec.containers[0].volumes",
        "Put it into spec.template.spec",
    ),
    "a Job's field at the top": (job(completions=3), "completions", "Put it into spec"),
    "a typo in the pod": (
        job(pod={"nodeselector": {}}),
        "spec.template.spec.nodeselector",
        "Did you mean nodeSelector",
    ),
    "a typo in a container": (
        job(container={"image_pull_policy": "Never"}),
        "spec.template.spec.containers[0].image_pull_policy",
        "Did you mean imagePullPolicy",
    ),
}


@pytest.mark.parametrize(("given", "want", "mend"), UNKNOWN.values(), ids=UNKNOWN.keys())
def test_an_unknown_field_is_named_with_what_was_meant(given, want, mend) -> None:
    (problem,) = unknown_fields(given)

    assert problem.field == want
    assert problem.mend.startswith(mend)


def test_known_fields_have_no_problem() -> None:
    given = job(
        {"managedBy": "a/b", "suspend": True},
        {"hostUsers": False},
        {"restartPolicyRules": []},
        metadata={"annotations": {"anything": "goes"}},
    )

    assert list(unknown_fields(given)) == []


def test_a_field_of_a_later_kubernetes_is_let_through_in_the_pod() -> None:
    assert list(unknown_fields(job(pod={"gangPolicy": {}}, container={"checkpoint": {}}))) == []


SHAPES = {
    "a right one": (job(), []),
    "null is absent": ({"metadata": None, "spec": {"template": None}}, []),
    "a spec that is a list": ({"spec": []}, ["spec"]),
    "a template that is text": ({"spec": {"template": "x"}}, ["spec.template"]),
    "containers by name": (job(pod={"containers": {"a": {}}}), ["spec.template.spec.containers"]),
    "a container that is text": (job(container="work:1"), ["spec.template.spec.containers[0]"]),
    "an empty list item": (job(pod={"tolerations": [None]}), ["spec.template.spec.tolerations[0]"]),
    "a command that is text": (
        job(container={"command": "sh"}),
        ["spec.template.spec.containers[0].command"],
    ),
    "env by name": (job(container={"env": {"A": "1"}}), ["spec.template.spec.containers[0].env"]),
    "limits that are text": (
        job(container={"resources": {"limits": "1Gi"}}),
        ["spec.template.spec.containers[0].resources.limits"],
    ),
    "a name that is a list": (job(container={"name": ["a"]}), ["spec.template.spec.containers[0].name"]),
    "a word that is a mapping": (
        job(container={"command": ["a", {"b": "c"}]}),
        ["spec.template.spec.containers[0].command[1]"],
    ),
    "labels that are a list": ({"metadata": {"labels": ["a"]}}, ["metadata.labels"]),
}


@pytest.mark.parametrize(("given", "want"), SHAPES.values(), ids=SHAPES.keys())
def test_shapes(given, want) -> None:
    assert [problem.field for problem in shape_problems(given, JOB_SHAPE, "")] == want


def test_keys_that_yaml_does_not_read_as_text_are_named() -> None:
    given = {"metadata": {"labels": {True: "on", 8080: "port"}}, "spec": [{None: 1}]}

    assert [problem.field for problem in key_problems(given, "")] == [
        "metadata.labels.True",
        "metadata.labels.8080",
        "spec[0].None",
    ]
