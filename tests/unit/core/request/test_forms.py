"""Broken forms are told from wrong values: only the former keep the rest from being judged."""

from __future__ import annotations

import pytest

from airflow_batchjob.core.request.forms import form_problems, usable
from airflow_batchjob.core.request.spec import JobSpec

USABLE = {
    "what is broken in form is left out": ({"labels": ["a"], "image": "i"}, JobSpec(image="i")),
    "numbers stay": ({"completions": "x"}, JobSpec(completions="x")),
    "a wrong word in a pod is no broken form": (
        {"pod": {"hostname": 5}},
        JobSpec(pod={"hostname": 5}),
    ),
    "nothing can be said without its pod": ({"pod": {"containers": 5}}, None),
    "nor without its manifest": ({"manifest": 5}, None),
}


@pytest.mark.parametrize(("given", "want"), USABLE.values(), ids=USABLE.keys())
def test_the_rest_is_judged_without_what_is_broken(given, want) -> None:
    spec = JobSpec(**given)

    assert usable(spec) == want


def test_wrong_values_have_a_right_form() -> None:
    wrong = JobSpec(completions="x", min_succeeded="101%", exit_codes={"retry": [1]}, machine="big")

    assert list(form_problems(wrong)) == []


def test_the_largest_request_has_a_right_form() -> None:
    right = JobSpec(
        manifest={"kind": "Job"},
        command=["sh"],
        env=[{"name": "A", "value": "b"}],
        env_from=({"secretRef": {"name": "s"}},),
        image_pull_secrets=["a", {"name": "b"}],
        pod={"containers": [{"name": "a", "command": ["b"], "env": [{"name": "C", "value": None}]}]},
        container_resources={"limits": {"cpu": 1}},
        tolerations=[{"operator": "Exists"}],
    )

    assert list(form_problems(right)) == []
