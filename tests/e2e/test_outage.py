"""The cluster's API is out of reach; the Job goes on, and ends unseen."""

from __future__ import annotations

import os
import time

OUTAGE_SECONDS = float(os.environ.get("BATCHJOB_E2E_OUTAGE_SECONDS", "120"))


def test_an_outage_of_the_clusters_api_changes_no_verdict(lab):
    runs = [lab.begin("through_outage"), lab.begin("in_worker_through_outage")]
    for run in runs:
        run.wait_until_waiting()
    with lab.shut_out():
        for run in runs:
            run.open_gate()
        time.sleep(OUTAGE_SECONDS)
        assert {run.task.state for run in runs} == {"deferred", "running"}

    for run in runs:
        run.wait_for("success")
        run.has_run_once()
        assert run.task.read()["try_number"] == 1
