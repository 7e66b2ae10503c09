"""What is wrong with parameters by themselves."""

from __future__ import annotations

import pytest

from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.core.request.parameters import machine_of, parameter_problems
from airflow_batchjob.core.request.spec import JobSpec
from airflow_batchjob.core.sharing.machine import Machine

GOOD = {
    "nothing": {},
    "numbers as text": {
        "completions": "5",
        "parallelism": " 2 ",
        "retries_per_index": "0",
        "backoff_limit": "1",
    },
    "limits": {"deadline_seconds": 1, "pending_seconds": "900", "ttl_seconds_after_finished": 0},
    "for ever": {"ttl_seconds_after_finished": None},
    "zero completions": {"completions": 0, "min_succeeded": 5},
    "percentages": {"max_failed_indexes": "12.5%", "min_succeeded": "50%"},
    "a machine": {"machine": Machine(cpu=2, memory="4Gi")},
    "words": {"command": ("sleep", 60), "args": ["1.5", 1.5]},
}


@pytest.mark.parametrize("given", GOOD.values(), ids=GOOD.keys())
def test_good_parameters_have_no_problem(given) -> None:
    assert list(parameter_problems(JobSpec(**given))) == []


WRONG = {
    "empty text": ({"image": ""}, "image"),
    "blank text": ({"namespace": "  "}, "namespace"),
    "no text": ({"name": 5}, "name"),
    "a manifest of another kind": ({"manifest": 5}, "manifest"),
    "a command that is text": ({"command": "sleep 60"}, "command"),
    "a word that is a truth value": ({"args": ["-v", True]}, "args[1]"),
    "a mapping that is a list": ({"labels": ["a"]}, "labels"),
    "a list that is a mapping": ({"tolerations": {"key": "a"}}, "tolerations"),
    "a toleration that is text": ({"tolerations": ["gpu"]}, "tolerations[0]"),
    "a source of variables that is text": ({"env_from": ["secret"]}, "env_from[0]"),
    "a secret without a name": ({"image_pull_secrets": [{}]}, "image_pull_secrets[0]"),
    "limits that are text": ({"container_resources": {"limits": "1Gi"}}, "container_resources.limits"),
    "a variable whose name is a number": ({"variables": {1: "a"}}, "variables[1]"),
    "exit codes that are a list": ({"exit_codes": [42]}, "exit_codes"),
    "exit codes that are a number": ({"exit_codes": 0}, "exit_codes"),
    "variables that are text": ({"variables": "A=1"}, "variables"),
    "env that is text": ({"env": "A=1"}, "env"),
    "env without a name": ({"env": [{"value": "1"}]}, "env[0]"),
    "a negative count": ({"completions": -1}, "completions"),
    "a count that is no number": ({"parallelism": "many"}, "parallelism"),
    "a count above int32": ({"completions": 2**31}, "completions"),
    "a fraction": ({"retries_per_index": 1.5}, "retries_per_index"),
    "no time at all": ({"deadline_seconds": 0}, "deadline_seconds"),
    "no patience at all": ({"pending_seconds": 0}, "pending_seconds"),
    "a negative ttl": ({"ttl_seconds_after_finished": -1}, "ttl_seconds_after_finished"),
    "above 100 %": ({"min_succeeded": "101%"}, "min_succeeded"),
    "a negative percentage": ({"max_failed_indexes": "-1%"}, "max_failed_indexes"),
    "more successes than indexes": ({"completions": 5, "min_succeeded": 6}, "min_succeeded"),
    "more failures than indexes": ({"completions": "5", "max_failed_indexes": 6}, "max_failed_indexes"),
    "a fuse that fires too early": (
        {"completions": 10, "max_failed_indexes": 0, "min_succeeded": "90%"},
        "max_failed_indexes",
    ),
    "a flag that is text": ({"stop_when_succeeded": "yes"}, "stop_when_succeeded"),
    "an unknown meaning of an exit code": ({"exit_codes": {"retry": [1]}}, "exit_codes['retry']"),
    "a skip of many": ({"completions": 2, "exit_codes": {"skip": [9]}}, "exit_codes['skip']"),
    "a machine that is a number": ({"machine": 20}, "machine"),
    "a machine without memory": ({"machine": "cpu=20"}, "machine.memory"),
    "a machine of no size": ({"machine": Machine(cpu=0, memory="1Gi")}, "machine.cpu"),
    "two sources of resources": (
        {"machine": "cpu=2,memory=4Gi", "container_resources": {"limits": {"cpu": 1}}},
        "container_resources",
    ),
}


@pytest.mark.parametrize(("given", "want"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_parameter_is_named_once(given, want) -> None:
    problems = list(parameter_problems(JobSpec(**given)))

    assert [problem.field for problem in problems] == [want]
    assert all(problem.why and problem.mend for problem in problems)


def test_all_problems_are_said_at_once() -> None:
    wrong = JobSpec(image="", completions="x", image_pull_secrets=[5], machine="big")

    assert {p.field for p in parameter_problems(wrong)} == {
        "image",
        "completions",
        "image_pull_secrets[0]",
        "machine",
    }


def test_values_of_env_are_not_shown() -> None:
    (problem,) = parameter_problems(JobSpec(env=[{"value": "secret"}]))

    assert "secret" not in str(problem)


@pytest.mark.parametrize("machine", ["cpu=2,memory=4Gi", Machine(cpu="2", memory="4Gi")])
def test_a_machine_may_be_text(machine) -> None:
    assert machine_of(JobSpec(machine=machine)) == Machine(cpu="2", memory="4Gi")


def test_no_machine_is_none() -> None:
    assert machine_of(JobSpec()) is None


def test_a_machine_of_an_unknown_name_is_refused() -> None:
    with pytest.raises(SpecError, match="there is no machine of that name"):
        machine_of(JobSpec(machine="big"))
