"""The page of what the local cluster covers says what the cases hold, and what is really refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from airflow_batchjob.local.api.local_rules import local_problems
from airflow_batchjob.local.api.request import Request
from tools import contract_cases, local_refusals

PAGE = Path(__file__).parents[2] / "docs" / "local-cluster-coverage.md"
SPANS = re.findall(r"contract_cases\.numbered (\S+) -->", PAGE.read_text())
SHOWN = [number for span in SPANS for number in contract_cases.numbers_of(span)]


def test_every_number_has_a_case() -> None:
    held = {number for case in contract_cases.cases() for number in case.numbers}

    assert set(SHOWN) - held == set()


def test_every_case_with_a_number_is_shown_once() -> None:
    numbers = {number for case in contract_cases.cases() for number in case.numbers}

    assert sorted(SHOWN) == sorted(numbers)


def test_a_number_without_a_case_would_be_said() -> None:
    assert "| 999 | no case |" in contract_cases.numbered("999-999")


def test_instances_of_one_thing_stand_together_with_it() -> None:
    table = contract_cases.numbered("88-88")

    assert "| 88 | a negative tail, no bytes (a log that cannot be is refused); no lines" in table


def test_a_refusal_is_shown_with_its_field_and_its_reason() -> None:
    assert "| 12 | indexed without completions: `spec.completions` Required |" in contract_cases.numbered(
        "12-12"
    )


def test_an_end_is_shown_with_its_reason() -> None:
    assert "| 49 | a deadline: Failed, DeadlineExceeded |" in contract_cases.numbered("49-49")


def test_where_real_clusters_contradict_the_description_the_table_says_so() -> None:
    table = contract_cases.numbered("87-87")

    assert "**Not as described**: the log of a pod on no node is answered with 204, not with 200." in table


def test_every_note_of_a_case_is_on_the_page() -> None:
    page = PAGE.read_text()
    notes = {note for case in contract_cases.cases() for note in case.notes}

    assert notes
    assert [note for note in notes if note not in page] == []


def test_cases_are_counted_as_often_as_they_are_asked() -> None:
    [counted] = [case for case in contract_cases.cases() if case.numbers == ("R15",)]

    assert counted.count == 2


ANSWERS = {
    "a kind that is not in the table": (404, "NotFound"),
    "a verb that a kind has not": (405, "MethodNotAllowed"),
    "server-side apply": (415, "UnsupportedMediaType"),
    "a container without a command": (422, "Invalid"),
}


@pytest.mark.parametrize(("what", "want"), ANSWERS.items(), ids=ANSWERS.keys())
def test_a_refusal_is_the_answer_to_its_request(what: str, want: tuple[int, str]) -> None:
    status = local_refusals.answer(local_refusals.REQUESTS[what])

    assert (status["code"], status["reason"]) == want


def test_what_is_granted_cannot_be_called_refused() -> None:
    with pytest.raises(SystemExit, match="does not refuse GET"):
        local_refusals.answer(Request(method="GET", path=f"{local_refusals.CORE}/pods"))


def with_field(field: str) -> dict[str, Any]:
    """Return a pod's spec that has a field, as the page writes it."""
    *within, name = field.removeprefix("containers[].").split(".")
    given: dict[str, Any] = {name: ["something"]}
    for outer in reversed(within):
        given = {outer: given}
    container = {"name": "main", "command": ["true"]}
    if field.startswith("containers[]."):
        return {"containers": [{**container, **given}]}
    return {"containers": [container], **given}


def test_every_field_of_the_table_is_refused() -> None:
    fields = re.findall(r"`([^`]+)`", local_refusals.fields(""))
    refused = [
        problem.field
        for field in fields
        for problem in local_problems(with_field(field), "spec", private_mounts=True)
    ]

    assert refused
    assert refused == [f"spec.{field.replace('[]', '[0]')}" for field in fields]
