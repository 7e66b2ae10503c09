"""All rules together, each problem once and in the author's words."""

from __future__ import annotations

from airflow_batchjob.core.errors import Problem
from airflow_batchjob.core.rules.validation import manifest_problems, once_each


def job(pod=None, **spec):
    least = {"restartPolicy": "Never", "containers": [{"name": "work", "image": "work:1"}]}
    template = {"spec": {**least, **(pod or {})}}
    return {"apiVersion": "batch/v1", "kind": "Job", "spec": {**spec, "template": template}}


def test_a_good_job_has_no_problem() -> None:
    assert list(manifest_problems(job())) == []


def test_all_parts_are_looked_at() -> None:
    wrong = {
        **job({"restartPolicy": "Always"}, parallelism=-1, zzz=1),
        "metadata": {"namespace": "My", "labels": {"a": "b c"}},
    }
    wrong["spec"]["template"]["metadata"] = {"labels": {"d": "e f"}}

    assert {problem.field for problem in manifest_problems(wrong)} == {
        "metadata.namespace",
        "metadata.labels['a']",
        "spec.parallelism",
        "spec.zzz",
        "spec.template.metadata.labels['d']",
        "spec.template.spec.restartPolicy",
    }


def test_a_failure_policy_and_restart_in_place_exclude_each_other() -> None:
    policy = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "X"}]}]}

    found = manifest_problems(job({"restartPolicy": "OnFailure"}, podFailurePolicy=policy))

    assert [problem.field for problem in found] == ["spec.template.spec.restartPolicy"]


def problem(field, value):
    return Problem(field, value, "why", "mend")


def test_a_problem_has_the_name_of_the_parameter_that_put_the_value_there() -> None:
    names = {
        "spec.parallelism": "parallelism",
        "spec.template.spec.containers[0].resources": "container_resources",
    }
    found = [
        problem("spec.parallelism", 1),
        problem("spec.template.spec.containers[0].resources.limits.cpu", "x"),
        problem("spec.parallelismX", 1),
    ]

    assert [p.field for p in once_each(found, names)] == [
        "parallelism",
        "container_resources.limits.cpu",
        "spec.parallelismX",
    ]


def test_one_value_in_one_field_is_named_once_whatever_its_type() -> None:
    found = [problem("parallelism", "-1"), problem("spec.parallelism", -1), problem("parallelism", -2)]

    assert [p.value for p in once_each(found, {"spec.parallelism": "parallelism"})] == ["-1", -2]
