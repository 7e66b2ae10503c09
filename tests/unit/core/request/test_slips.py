"""A slip is named once, as what was written, and nothing that follows from it is."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.core.request.manifest import build
from airflow_batchjob.core.request.spec import JobSpec
from airflow_batchjob.core.sharing.machine import Machine

WORK = {"image": "x", "command": ["a"]}
MANIFEST: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "spec": {
        "completionMode": "Indexed",
        "completions": 3,
        "parallelism": 3,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "x", "env": [{"name": "OLD", "value": "1"}]}],
            }
        },
    },
}


def of_manifest(**spec: Any) -> dict[str, Any]:
    return {**MANIFEST, "spec": {**MANIFEST["spec"], **spec}}


def problems(**given: Any) -> list[str]:
    with pytest.raises(SpecError) as caught:
        build(JobSpec(**given), default_name="task")
    return [f"{problem.field}={problem.value!r}" for problem in caught.value.problems]


ONE_SLIP = {
    "a truth value in env": ({**WORK, "env": {"C": True}}, ["env['C']=True"]),
    "a list in env": ({**WORK, "env": {"A": ["x"]}}, ["env['A']=['x']"]),
    "both, with a machine": (
        {**WORK, "env": {"A": ["x"], "C": True}, "machine": Machine(cpu=1, memory="1Gi")},
        ["env['A']=['x']", "env['C']=True"],
    ),
    "None for a variable that is not there": ({**WORK, "env": {"A": None}}, ["env['A']=None"]),
    "a variable without a value, in a list": (
        {**WORK, "env": [{"name": "A", "value": None}]},
        ["env['A']=None"],
    ),
    "a name and value in one text": ({**WORK, "env": ["A=b"]}, ["env[0]='A=…'"]),
    "a text for env": ({**WORK, "env": "A=secret"}, ["env='A=…'"]),
    "a variable without a name": ({**WORK, "env": [{"value": "secret"}]}, ["env[0]='(value)'"]),
    "a number for a variable": ({**WORK, "env": [5]}, ["env[0]='(int)'"]),
    "completions in words": ({**WORK, "completions": "ten"}, ["completions='ten'"]),
    "negative completions": ({**WORK, "completions": -2}, ["completions=-2"]),
    "a fraction of a completion": ({**WORK, "completions": 2.5}, ["completions=2.5"]),
    "a truth value for completions": ({**WORK, "completions": True}, ["completions=True"]),
    "too many for a parallelism that is not given": (
        {**WORK, "completions": 100_001, "retries_per_index": None, "max_failed_indexes": 1},
        ["parallelism=100001"],
    ),
    "nothing in parallel": ({**WORK, "completions": 3, "parallelism": 0}, ["parallelism=0"]),
    "nothing in parallel, as text": ({**WORK, "completions": 3, "parallelism": "0"}, ["parallelism='0'"]),
    "nothing in parallel of a manifest": ({"manifest": MANIFEST, "parallelism": 0}, ["parallelism=0"]),
    "a core count that is none": ({**WORK, "machine": "cpu=abc,memory=1Gi"}, ["machine.cpu='abc'"]),
    "a core count that is none, and no memory": (
        {**WORK, "machine": "cpu=abc"},
        ["machine.memory=None", "machine.cpu='abc'"],
    ),
    "a misspelt memory and a bad core count": (
        {**WORK, "machine": "cpu=abc,memroy=1Gi"},
        ["machine='memroy=1Gi'", "machine.cpu='abc'"],
    ),
    "a number for a word": (
        {
            "manifest": of_manifest(
                template={
                    "spec": {**MANIFEST["spec"]["template"]["spec"], "hostname": "h"},
                    "metadata": {"labels": {"a": 5}},
                }
            )
        },
        ["spec.template.metadata.labels.a=5"],
    ),
    "a number for a variable of a manifest": (
        {
            "manifest": of_manifest(
                template={
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [
                            {"name": "main", "image": "x", "env": [{"name": "PIN", "value": 1234}]}
                        ],
                    }
                }
            )
        },
        ["spec.template.spec.containers[0].env[0].value='(not shown)'"],
    ),
    "a partial pod whose container has no name": (
        {"command": ["a"], "pod": {"containers": [{"image": "x"}]}},
        ["pod.containers[0]={'image': 'x'}"],
    ),
}


@pytest.mark.parametrize(("given", "want"), ONE_SLIP.values(), ids=ONE_SLIP.keys())
def test_a_slip_is_named_as_it_was_written_and_nothing_else_is(
    given: dict[str, Any], want: list[str]
) -> None:
    assert problems(**given) == want


MEMORY = {
    "a bare number": (16, 'Did you mean "16Gi"?'),
    "a bare number in text": ("16", 'Did you mean "16Gi"?'),
    "a negative size": ("-1Gi", 'Write e.g. "101Gi"'),
    "none at all": (0, 'Write e.g. "101Gi"'),
    "less than is shared out": ("500Ki", 'Write e.g. "101Gi"'),
}


@pytest.mark.parametrize(("memory", "want"), MEMORY.values(), ids=MEMORY.keys())
def test_the_mend_of_a_memory_is_one_that_can_be_written(memory: Any, want: str) -> None:
    [problem] = Machine(cpu=1, memory=memory).problems()

    assert problem.mend.startswith(want)


NOTED = {
    "a manifest that waits": ({"manifest": of_manifest(parallelism=0)}, "the manifest's parallelism is 0"),
    "a threshold that asks for nothing": ({**WORK, "min_succeeded": 0}, "min_succeeded is 0"),
    "the same in percent": ({**WORK, "completions": 9, "min_succeeded": "0%"}, "min_succeeded is 0"),
    "a variable that is not there to be taken away": (
        {"manifest": MANIFEST, "env": {"NEW": None}},
        "env takes away what the container does not have: NEW",
    ),
}


@pytest.mark.parametrize(("given", "want"), NOTED.values(), ids=NOTED.keys())
def test_what_may_be_meant_leaves_a_note(given: dict[str, Any], want: str) -> None:
    notes = build(JobSpec(**given), default_name="task").notes

    assert any(note.startswith(want) for note in notes), notes


QUIET = {
    "no completions": {**WORK, "completions": 0},
    "no completions, and nothing in parallel": {**WORK, "completions": 0, "parallelism": 0},
    "a variable that is taken away": {"manifest": MANIFEST, "env": {"OLD": None}},
    "an empty variable": {**WORK, "env": {"A": ""}},
}


@pytest.mark.parametrize("given", QUIET.values(), ids=QUIET.keys())
def test_what_is_meant_leaves_no_note(given: dict[str, Any]) -> None:
    notes = build(JobSpec(**given), default_name="task").notes

    assert [note for note in notes if not note.startswith("ttlSecondsAfterFinished")] == []


def test_one_core_is_a_core() -> None:
    assert str(Machine(cpu=1, memory="1Gi")) == "1 core, 1Gi"
    assert str(Machine(cpu="1000m", memory="1Gi", gpus=2)) == "1000m cores, 1Gi, 2 GPUs"
    assert str(Machine(cpu="1500m", memory="1Gi")) == "1500m cores, 1Gi"
