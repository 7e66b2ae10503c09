"""Whatever stands in a request, the answer is a Job or problems in words, never another error."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.core.request.early import early_problems
from airflow_batchjob.core.request.manifest import build
from airflow_batchjob.core.request.spec import JobSpec

CONTAINER = {
    "name": "work",
    "image": "work:1",
    "command": ["sh"],
    "env": [{"name": "A", "value": "b"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
    "envFrom": [{"secretRef": {"name": "s"}}],
    "resources": {"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 1}, "requests": {"cpu": "1"}},
    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
}
REQUEST: dict[str, Any] = {
    "manifest": {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {
            "completions": 5,
            "completionMode": "Indexed",
            "backoffLimitPerIndex": 1,
            "maxFailedIndexes": 2,
            "ttlSecondsAfterFinished": 5,
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "FailJob",
                        "onExitCodes": {"operator": "In", "values": [1], "containerName": "work"},
                    },
                    {"action": "Ignore", "onPodConditions": [{"type": "X", "status": "True"}]},
                ]
            },
            "successPolicy": {"rules": [{"succeededIndexes": "0-2", "succeededCount": 2}]},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {
                    "restartPolicy": "Never",
                    "nodeSelector": {"a": "b"},
                    "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}],
                    "volumes": [{"name": "v", "emptyDir": {}}],
                    "initContainers": [{"name": "prepare", "image": "p:1", "restartPolicy": "Always"}],
                    "containers": [CONTAINER],
                },
            },
        },
    },
    "variables": {"A": "b"},
    "env": {"A": "b"},
    "pod": {
        "containers": [{"name": "work", "env": [{"name": "Q", "value": "1"}]}],
        "volumes": [{"name": "q"}],
    },
    "labels": {"a": "b"},
    "tolerations": [{"operator": "Exists"}],
    "image_pull_secrets": ["s"],
    "max_failed_indexes": "20%",
    "min_succeeded": "80%",
    "exit_codes": {"fail_index": [1], "fail_job": [2]},
    "machine": "cpu=4,memory=8Gi,gpus=1",
}


def paths(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(found for key, child in children for found in paths(child, (*path, key)))]


SCALARS = (None, True, 0, -1, 2**31, 10**30, 1.5, float("nan"), "", "x", "{{ x }}", "${X}", "a b", "é", b"x")
TREES: tuple[Any, ...] = (
    [],
    {},
    {1},
    ("a",),
    [None],
    [[]],
    [{}],
    {"a": None},
    {None: 1},
    {1: 2},
    {"a": {"b": []}},
    {"name": []},
)
JUNK = st.sampled_from([*SCALARS, *TREES, object()])
PLACES = st.sampled_from([path for path in paths(REQUEST) if path])


def answer(spec: JobSpec) -> str:
    """Return the Job's kind, or the problems in words."""
    try:
        return str(build(spec, default_name="task").manifest["kind"])
    except SpecError as error:
        return str(error)


@settings(max_examples=300, deadline=None)
@given(place=PLACES, junk=JUNK, kept=st.sets(st.sampled_from(sorted(REQUEST))))
def test_any_value_anywhere_is_taken_or_named(place, junk, kept) -> None:
    request = {name: deepcopy(value) for name, value in REQUEST.items() if name in {*kept, place[0]}}
    tree: Any = request
    for key in place[:-1]:
        tree = tree[key]
    tree[place[-1]] = junk
    spec = JobSpec(**request)

    assert answer(spec)
    assert isinstance(early_problems(spec), tuple)
