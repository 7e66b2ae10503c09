"""Airflow's execution_timeout, while the task waits in the triggerer and in the worker."""

from __future__ import annotations

import pytest


@pytest.mark.essential
@pytest.mark.parametrize("dag_id", ["timed", "timed_in_worker"])
def test_the_execution_timeout_stops_the_job_and_fails_the_task(lab, dag_id):
    run = lab.begin(dag_id)
    run.wait_until_waiting()
    run.wait_for("failed")

    run.wait_until_over(seconds=20)
    assert run.task.xcom("verdict") == "not_met"
    assert "execution_timeout" in run.log()
