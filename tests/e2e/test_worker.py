"""Workers and schedulers that die: the next try goes on with the Job that is there."""

from __future__ import annotations

import signal

import pytest

from tests.e2e.lab import until


@pytest.mark.essential
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_next_try_attaches_after_the_waiting_process_was_killed(lab, number):
    run = lab.begin("in_worker")
    run.wait_until_waiting()
    run.kill_process(number)
    run.wait_for_try(2)
    run.wait_for("running")
    run.open_gate()

    run.wait_for("success")
    run.has_run_once()


def test_the_next_try_attaches_after_the_process_was_killed_while_it_submitted(lab):
    with lab.slow_answers():
        run = lab.begin("slow_submit")
        until("the Job is there", run.jobs, pause=0.02)
        run.kill_process()
    assert run.task.state != "deferred"  # the answer takes a second, so the process never got it
    run.wait_for_try(2)
    run.wait_until_waiting()
    run.open_gate()

    run.wait_for("success")
    run.has_run_once()


def test_a_killed_scheduler_takes_its_workers_along(lab):
    deferred, waiting = lab.begin("deferred"), lab.begin("in_worker")
    deferred.wait_until_waiting()
    waiting.wait_until_waiting()
    lab.airflow.kill("scheduler")
    lab.airflow.start_part("scheduler")
    waiting.wait_for_try(2)
    deferred.open_gate()
    waiting.open_gate()

    deferred.wait_for("success")
    waiting.wait_for("success")
    assert deferred.task.read()["try_number"] == 1
    deferred.has_run_once()
    waiting.has_run_once()
