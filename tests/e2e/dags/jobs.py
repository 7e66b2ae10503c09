"""Jobs that end when a test opens their gate: a file. Each start of an index is a line beside it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG

from airflow_batchjob import BatchJobOperator, BatchJobSensor

GATED = """
echo "index $JOB_COMPLETION_INDEX waits"
echo "$JOB_COMPLETION_INDEX" >> "$GATE.started"
until [ -e "$GATE" ]; do sleep 0.2; done
exit $(cat "$GATE.$JOB_COMPLETION_INDEX" 2>/dev/null || echo 0)
"""


WORK: dict[str, Any] = {
    "task_id": "work",
    "image": "none",
    "command": ["sh", "-c", GATED],
    "env": {"GATE": "{{ dag_run.conf.gate }}"},
    "completions": 2,
    "retries": 2,
    "retry_delay": timedelta(seconds=1),
}


def gated(dag_id: str, **given: Any) -> None:
    """Make a DAG with one task, `work`, whose Job has two indexes."""
    with DAG(dag_id, schedule=None, max_active_runs=50):
        BatchJobOperator(**(WORK | given))


gated("deferred")
gated("in_worker", deferrable=False)
gated("through_outage", kubernetes_conn_id="kubernetes_outage")
gated("in_worker_through_outage", deferrable=False, kubernetes_conn_id="kubernetes_outage")
gated("slow_submit", kubernetes_conn_id="kubernetes_slow")
gated("timed", execution_timeout=timedelta(seconds=40), retries=0)
gated("timed_in_worker", execution_timeout=timedelta(seconds=40), retries=0, deferrable=False)

with DAG("mapped", schedule=None):
    BatchJobOperator.partial(**WORK).expand(labels=[{"part": "first"}, {"part": "second"}])

with DAG("sensed", schedule=None):
    BatchJobOperator(**WORK)
    BatchJobSensor(task_id="sensor", of_task="work", until="100%", retries=2)
