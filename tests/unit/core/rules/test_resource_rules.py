"""What Kubernetes refuses about requests and limits."""

from __future__ import annotations

import pytest

from airflow_batchjob.core.rules.resource_rules import resource_problems

GPU = "nvidia.com/gpu"


def found(limits=None, requests=None):
    container = {"name": "work", "resources": {"limits": limits, "requests": requests}}
    return list(resource_problems(container, "containers[0]"))


RIGHT = {
    "nothing": (None, None),
    "requests below limits": ({"cpu": 4, "memory": "8Gi"}, {"cpu": "1", "memory": "2Gi"}),
    "equal in other words": ({"memory": "1Gi", "cpu": "1000m"}, {"memory": "1024Mi", "cpu": 1}),
    "only limits": ({"cpu": 1, GPU: 1}, None),
    "only requests of what is shared": (None, {"cpu": 1, "memory": "1Gi", "ephemeral-storage": "1Gi"}),
    "cards alike": ({GPU: "2"}, {GPU: 2}),
    "huge pages alike": ({"hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "4Mi"}),
    "odd notations": ({"cpu": 0.5, "memory": "1e3"}, {"cpu": "100m", "memory": "1k"}),
    "nothing of it": ({"cpu": 0}, {"cpu": 0}),
}


@pytest.mark.parametrize(("limits", "requests"), RIGHT.values(), ids=RIGHT.keys())
def test_what_kubernetes_takes_has_no_problem(limits, requests) -> None:
    assert found(limits, requests) == []


WRONG = {
    "memory above its limit": ({"memory": "4200Mi"}, {"memory": "10666Mi"}, "requests.memory"),
    "cores above their limit": ({"cpu": "500m"}, {"cpu": 1}, "requests.cpu"),
    "other cards than the limit": ({GPU: 2}, {GPU: 1}, f"requests.{GPU}"),
    "cards without a limit": (None, {GPU: 1}, f"limits.{GPU}"),
    "a part of a card": ({GPU: "500m"}, None, f"limits.{GPU}"),
    "a negative amount": ({"cpu": "-1"}, None, "limits.cpu"),
    "a wrong suffix": ({"memory": "2GB"}, None, "limits.memory"),
    "a blank inside": ({"memory": "1 Gi"}, None, "limits.memory"),
    "no quantity": (None, {"cpu": "some"}, "requests.cpu"),
    "an empty text": ({"cpu": ""}, None, "limits.cpu"),
    "a truth value": ({"cpu": True}, None, "limits.cpu"),
    "no such resource": ({"gpu": 1}, None, "limits.gpu"),
}


@pytest.mark.parametrize(("limits", "requests", "want"), WRONG.values(), ids=WRONG.keys())
def test_what_kubernetes_refuses_is_named_with_field_and_container(limits, requests, want) -> None:
    (problem,) = found(limits, requests)

    assert problem.field == f"containers[0].resources.{want}"
    assert "container 'work'" in problem.why
    assert problem.mend


def test_a_bad_quantity_is_not_compared() -> None:
    (problem,) = found({"memory": "lots"}, {"memory": "1Gi"})

    assert problem.field == "containers[0].resources.limits.memory"
