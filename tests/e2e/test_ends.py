"""A Job that ends by itself."""

from __future__ import annotations

import pytest


@pytest.mark.essential
def test_a_deferred_job_succeeds_and_its_result_is_in_xcom(lab):
    run = lab.begin("deferred")
    run.wait_until_waiting()
    early = {key: run.task.xcom(key) for key in ("job_name", "job_namespace", "job_uid")}
    run.open_gate()
    run.wait_for("success")

    job = run.job()
    assert early["job_uid"] == job["metadata"]["uid"]
    result = run.task.xcom("return_value")
    assert early.items() <= result.items()
    want = {"verdict": "met", "completions": 2, "succeeded": 2, "failed": 0, "succeeded_indexes": "0,1"}
    assert want.items() <= result.items()
    run.has_run_once()


@pytest.mark.essential
def test_a_retry_runs_the_failed_index_alone(lab):
    run = lab.begin("deferred")
    run.wait_until_waiting()
    run.fail_index(1)
    run.open_gate()
    run.wait_for_try(2)
    run.succeed_index(1)

    run.wait_for("success")
    result = run.task.xcom("return_value")
    assert {"generation": 1, "succeeded_indexes": "0,1"}.items() <= result.items()
    assert run.started() == ["0", "1", "1"]
    run.wait_until_over()
