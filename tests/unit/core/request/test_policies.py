"""Exit codes and their meanings."""

from __future__ import annotations

import pytest

from airflow_batchjob.core.request.policies import (
    exit_code_problems,
    exit_code_rules,
    read_exit_codes,
    success_policy,
)

WRONG = {
    "an unknown meaning": ({"retry": [42]}, "exit_codes['retry']"),
    "a single code": ({"skip": 42}, "exit_codes['skip']"),
    "success": ({"fail_job": [0]}, "exit_codes['fail_job']"),
    "more than a process can say": ({"fail_job": [256]}, "exit_codes['fail_job']"),
    "a word": ({"fail_job": ["oom"]}, "exit_codes['fail_job']"),
    "two meanings": ({"fail_index": [42], "fail_job": [42]}, "exit_codes['fail_job']"),
}


@pytest.mark.parametrize(("given", "want"), WRONG.values(), ids=WRONG.keys())
def test_wrong_exit_codes_are_named(given, want) -> None:
    assert [problem.field for problem in exit_code_problems(given)] == [want]


@pytest.mark.parametrize(
    "given", [{}, {"skip": []}, {"fail_index": [1, 1, "255"], "fail_job": (2,), "skip": {3}}]
)
def test_good_ones_are_not(given) -> None:
    assert list(exit_code_problems(given)) == []


def test_codes_are_sorted_and_single_as_kubernetes_demands() -> None:
    assert read_exit_codes({"fail_job": [9, "3", 3], "skip": []}) == {"fail_job": (3, 9)}


def test_rules_name_the_container_so_that_a_killed_sidecar_does_not_match() -> None:
    (rule,) = exit_code_rules({"fail_index": (42,)}, "work")

    assert rule["onExitCodes"]["containerName"] == "work"


def test_no_codes_make_no_rules() -> None:
    assert exit_code_rules({}, "work") == []


def test_enough_is_a_count() -> None:
    assert success_policy(3) == {"rules": [{"succeededCount": 3}]}
