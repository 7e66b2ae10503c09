"""Triggerers that die, stall, or are two."""

from __future__ import annotations

from dataclasses import replace

import psutil
import pytest

from tests.e2e.airflow import family
from tests.e2e.lab import until


@pytest.mark.essential
def test_a_killed_triggerer_is_replaced_by_a_new_one(lab):
    run = lab.begin("sensed")
    run.wait_until_waiting()
    sensor = replace(run.task, task_id="sensor")
    until("the sensor is deferred", lambda: sensor.state == "deferred")
    lab.airflow.kill("triggerer")
    run.open_gate()
    until("the Job has ended unseen", lambda: not run.pods())
    assert run.task.state == "deferred"

    lab.airflow.start_part("triggerer")

    run.wait_for("success")
    until("the sensor has seen it", lambda: sensor.state == "success")
    run.has_run_once()


def test_a_stalled_triggerer_comes_back_after_another_took_over(lab):
    run = lab.begin("deferred")
    run.wait_until_waiting()
    lab.airflow.start_part("triggerer", "second triggerer")
    stalled = family(lab.airflow.processes, "triggerer")
    first = run.triggerer()
    try:
        for process in stalled:
            process.suspend()
        until("another triggerer has the trigger", lambda: run.triggerer() not in {None, first})
    finally:
        for process in stalled:
            process.resume()
    until("both triggerers live", lambda: all(p.status() != psutil.STATUS_STOPPED for p in stalled))
    run.open_gate()

    run.wait_for("success")
    run.has_run_once()
    lab.airflow.kill("second triggerer")


def test_a_mark_while_no_triggerer_runs_may_reach_nobody_so_the_jobs_own_deadline_ends_it(lab):
    run = lab.begin("timed")
    run.wait_until_waiting()
    lab.airflow.kill("triggerer")
    run.task.mark("failed")
    lab.airflow.start_part("triggerer")

    run.wait_until_over()
    assert run.task.state == "failed"
    # Mostly nobody stops it. Now and then Airflow hands the trigger to the new triggerer all the same, and
    # cancels it there.
    assert run.stop_reason() in {"", "the task was marked failed"}
