"""Scenarios that mostly wait: they begin when Airflow is up, and others run meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

from tests.e2e.lab import Lab, until

OUTAGE_SECONDS = float(os.environ.get("BATCHJOB_E2E_OUTAGE_SECONDS", "120"))


def timeout_passes(lab: Lab, dag_id: str) -> None:
    """Airflow's execution_timeout passes while the Job runs."""
    run = lab.begin(dag_id)
    until(f"the pods of {run} run", run.both_run)
    run.wait_for("failed")

    run.wait_until_over(seconds=30)
    assert bool(lab.airflow.trigger_log(run.task)) != run.waits_in_worker
    assert run.task.xcom("verdict") == "not_met"
    assert "execution_timeout" in run.log()


def cluster_is_out_of_reach(lab: Lab) -> None:
    """The cluster's API answers nobody for minutes; the Jobs end meanwhile."""
    runs = [lab.begin("through_outage"), lab.begin("in_worker_through_outage")]
    for run in runs:
        run.wait_until_waiting()
    with lab.shut_out():
        for run in runs:
            run.open_gate()
        time.sleep(OUTAGE_SECONDS)
        assert [run.task.state for run in runs] == ["deferred", "running"]

    for run in runs:
        run.wait_for("success")
        run.has_run_once()
        assert run.task.read()["try_number"] == 1


SCENARIOS: dict[str, Callable[[Lab], None]] = {
    "outage": cluster_is_out_of_reach,
    "timeout while deferred": partial(timeout_passes, dag_id="timed"),
    "timeout in the worker": partial(timeout_passes, dag_id="timed_in_worker"),
}
