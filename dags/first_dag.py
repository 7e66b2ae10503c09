"""A first DAG: three numbered pods, each doing its part."""

# [START whole]
from __future__ import annotations

from datetime import datetime, timezone

from airflow.sdk import DAG

from airflow_batchjob import BatchJobOperator

with DAG("first_dag", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)):
    BatchJobOperator(
        task_id="greet",
        image="busybox:1.37",
        command=["sh", "-c", "echo hello from $JOB_COMPLETION_INDEX"],
        completions=3,  # three pods, numbered from 0
        retries_per_index=1,  # of each number one pod may fail
    )
# [END whole]
