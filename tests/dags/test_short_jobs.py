"""A Job of seconds ends in the worker, a longer one is handed over."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_batchjob import BatchJobOperator, ThresholdNotMetError
from airflow_batchjob.compat import TaskDeferred
from airflow_batchjob.operators.short_jobs import SECONDS_BEFORE_DEFERRING, seconds_before_deferring
from tests.dags.airflow_tasks import prepared

pytestmark = pytest.mark.usefixtures("batchjob_connection")

SETTING = "AIRFLOW__BATCHJOB__SECONDS_BEFORE_DEFERRING"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, "30")


def work(**given: Any) -> tuple[Any, Any, Any]:
    return prepared(BatchJobOperator, **({"image": "none", "command": ["true"], "logs": "none"} | given))


@pytest.mark.usefixtures("patient")
def test_a_short_job_never_sees_the_triggerer():
    task, ti, context = work(completions=2)

    result = task.execute(context)

    assert (result["verdict"], result["succeeded_indexes"]) == ("met", "0,1")
    assert ti.xcoms == result


@pytest.mark.usefixtures("patient")
def test_a_short_job_fails_in_the_worker_too():
    task, ti, context = work(command=["false"])

    with pytest.raises(ThresholdNotMetError):
        task.execute(context)

    assert ti.xcoms["failed_indexes"] == "0"


def test_a_longer_job_is_handed_over(monkeypatch):
    monkeypatch.setenv(SETTING, "0.5")
    task, _, context = work(command=["sleep", "60"])

    with pytest.raises(TaskDeferred):
        task.execute(context)


def test_a_setting_that_is_no_number_is_named_and_fails_no_task(monkeypatch, caplog):
    monkeypatch.setenv(SETTING, "soon")

    assert seconds_before_deferring() == SECONDS_BEFORE_DEFERRING
    assert "seconds_before_deferring='soon'" in caplog.text
