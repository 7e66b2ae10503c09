"""What exit codes mean, and when enough has succeeded: podFailurePolicy and successPolicy.

An exit code that stands for "skip" ends the Job by a FailJob rule. It is the one action that needs
no budget per index, never makes a second pod, and whose condition names the container and the code,
so that the end can be told from a real failure when the pod is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_batchjob.core.errors import Problem
from airflow_batchjob.core.request.budget import whole_number

FAIL_INDEX, FAIL_JOB, SKIP = "fail_index", "fail_job", "skip"

# In the order of the rules. Codes are disjoint, so the order decides nothing.
_ACTIONS = {FAIL_INDEX: "FailIndex", FAIL_JOB: "FailJob", SKIP: "FailJob"}
_LARGEST_EXIT_CODE = 255


def read_exit_codes(exit_codes: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the codes of each meaning, sorted as Kubernetes demands, without empty ones.

    Takes what `exit_code_problems` has nothing against.
    """
    return {
        meaning: tuple(sorted({whole_number(code) for code in exit_codes[meaning]}))
        for meaning in _ACTIONS
        if exit_codes.get(meaning)
    }


def exit_code_rules(codes: Mapping[str, Sequence[int]], container: str) -> list[dict[str, Any]]:
    """Return podFailurePolicy rules for `codes`.

    They name the container: a sidecar that is killed along with a failed pod has an exit code too.
    """
    return [
        {
            "action": action,
            "onExitCodes": {"containerName": container, "operator": "In", "values": list(codes[meaning])},
        }
        for meaning, action in _ACTIONS.items()
        if codes.get(meaning)
    ]


def success_policy(needed: int) -> dict[str, Any]:
    """Return the successPolicy that ends a Job once `needed` indexes have succeeded."""
    return {"rules": [{"succeededCount": needed}]}


def exit_code_problems(exit_codes: Mapping[str, Any]) -> Iterator[Problem]:
    """Say what is wrong with `exit_codes`, whatever the Job is."""
    meaning_of: dict[int, str] = {}
    for meaning, codes in exit_codes.items():
        field = f"exit_codes[{meaning!r}]"
        if meaning not in _ACTIONS:
            yield Problem(field, codes, "there is no such meaning", f"Use {', '.join(_ACTIONS)}")
        elif not isinstance(codes, list | tuple | set | frozenset):
            yield Problem(field, codes, "not a list", "Give a list of exit codes, e.g. [42]")
        else:
            yield from _code_problems(field, meaning, codes, meaning_of)


def _code_problems(field: str, meaning: str, codes: Any, meaning_of: dict[int, str]) -> Iterator[Problem]:
    for given in codes:
        try:
            code = whole_number(given)
        except ValueError as error:
            yield Problem(field, given, str(error), "Give exit codes from 1 to 255")
            continue
        if not 1 <= code <= _LARGEST_EXIT_CODE:
            yield Problem(field, given, "no failure ends with this code", "Give exit codes from 1 to 255")
        elif (other := meaning_of.setdefault(code, meaning)) != meaning:
            yield Problem(field, given, f"it stands in {other!r} too", "Give each code one meaning")
