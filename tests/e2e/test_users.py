"""What users do to a task whose Job runs."""

from __future__ import annotations

import pytest

from tests.e2e.lab import until
from tests.e2e.rest import RefusedError

WAITS = {"deferred": "deferred", "in the worker": "in_worker"}


def begin(lab, dag_id):
    run = lab.begin(dag_id)
    run.wait_until_waiting()
    return run


@pytest.mark.essential
@pytest.mark.parametrize("dag_id", WAITS.values(), ids=WAITS.keys())
@pytest.mark.parametrize("state", ["failed", "success"])
def test_marking_it_stops_the_job(lab, dag_id, state):
    run = begin(lab, dag_id)
    run.task.mark(state)

    run.wait_until_over()
    assert run.task.state == state
    assert run.stop_reason() == f"the task was marked {state}"
    assert run.task.read()["try_number"] == 1


@pytest.mark.essential
@pytest.mark.parametrize("dag_id", WAITS.values(), ids=WAITS.keys())
def test_clearing_it_goes_on_with_the_job(lab, dag_id):
    run = begin(lab, dag_id)
    run.task.clear()
    run.wait_for_try(2)
    run.wait_until_waiting()
    run.open_gate()

    run.wait_for("success")
    run.has_run_once()


@pytest.mark.essential
@pytest.mark.parametrize("dag_id", WAITS.values(), ids=WAITS.keys())
def test_deleting_its_run_stops_the_job(lab, dag_id):
    run = begin(lab, dag_id)
    with pytest.raises(RefusedError, match="cannot be deleted in running state"):
        run.task.delete_run()
    run.task.mark_run("failed")
    run.task.delete_run()

    run.wait_until_over()
    assert run.stop_reason() in {"the task was marked failed", "the task is gone"}
    with pytest.raises(RefusedError, match="404"):
        run.task.read()


@pytest.mark.essential
def test_marking_one_of_mapped_tasks_stops_its_job_alone(lab):
    run = lab.begin("mapped")
    first, second = run.instance(0), run.instance(1)
    first.wait_until_waiting()
    second.wait_until_waiting()
    second.task.mark("failed")

    second.wait_until_over()
    assert second.stop_reason() == "the task was marked failed"
    assert first.stop_reason() == ""
    run.open_gate()
    first.wait_for("success")
    first.wait_until_over()


@pytest.mark.parametrize("state", ["failed", "success"])
def test_marking_it_while_it_submits_stops_the_job(lab, state):
    with lab.slow_answers():
        run = lab.begin("slow_submit")
        until("the Job is there", run.jobs, pause=0.02)
        run.task.mark(state)

    run.wait_until_over()
    assert run.task.state == state


def test_a_paused_dag_tells_the_end_once_it_goes_on(lab):
    run = begin(lab, "deferred")
    lab.airflow.rest.pause("deferred", is_paused=True)
    try:
        run.open_gate()
        until("the trigger has fired", lambda: run.task.state != "deferred")
        run.wait_until_over()
    finally:
        lab.airflow.rest.pause("deferred", is_paused=False)

    run.wait_for("success")
    run.has_run_once()
