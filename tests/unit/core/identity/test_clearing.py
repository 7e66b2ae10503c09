"""The words that start a task again: no more than is meant, whatever its ids hold."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from airflow_batchjob.core.identity.clearing import how_to_clear
from airflow_batchjob.core.identity.marks import LOGICAL_DATE, TASK
from tests.unit.core.made import job

IDS = {"instance": "prod", "dag_id": "nightly", "run_id": "run-1", "task_id": "group.embed", "map_index": -1}
DATE = "2027-01-15T00:00:00+00:00"


def told(date: str = "", **ids: Any) -> str:
    made = job()
    made.metadata.annotations[TASK] = json.dumps(IDS | ids)
    if date:
        made.metadata.annotations[LOGICAL_DATE] = date
    return how_to_clear(made)


def test_a_run_with_a_logical_date_is_cleared_on_the_command_line() -> None:
    words = "airflow tasks clear nightly --task-regex group.embed --start-date {0} --end-date {0}"

    assert told(DATE) == words.format(DATE)


OTHERS = {"a run without a date": ("", -1, "group.embed"), "a mapped task": (DATE, 3, ["group.embed", 3])}


@pytest.mark.parametrize(("date", "map_index", "want"), OTHERS.values(), ids=OTHERS.keys())
def test_where_that_would_clear_more_the_api_is_asked(date: str, map_index: int, want: Any) -> None:
    words = shlex.split(told(date, map_index=map_index))

    assert json.loads(words[words.index("-d") + 1]) == {
        "dag_run_id": "run-1",
        "task_ids": [want],
        "dry_run": False,
        "only_failed": False,
    }
    assert words[-1].endswith("/api/v2/dags/nightly/clearTaskInstances")


def test_on_the_command_line_the_same_id_is_run_again() -> None:
    assert told(instance="command line", run_id="my run") == (
        "Run the same manifest again: batchjob run MANIFEST --id 'my run'"
    )


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"dag_id": 3}'])
def test_ids_that_cannot_be_read_give_no_command(text: str) -> None:
    made = job()
    made.metadata.annotations[TASK] = text

    assert how_to_clear(made) == "Clear its task in Airflow"
