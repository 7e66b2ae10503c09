"""Two containers share a machine by the weights that their limits give."""

from __future__ import annotations

from datetime import datetime, timezone

from airflow.sdk import DAG

from airflow_batchjob import BatchJobOperator, Machine

with DAG(
    "two_containers",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    doc_md=__doc__,
):
    # [START machine]
    BatchJobOperator(
        task_id="train",
        manifest="jobs/train.yaml",
        completions=2,
        parallelism=2,
        # train gets three quarters of it, helper the rest; both request a quarter of their limits.
        machine=Machine(cpu=2, memory="1Gi"),
    )
    # [END machine]
