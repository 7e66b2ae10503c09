"""A second DAG starts when half of a Job is done: a sensor tells, an asset starts it."""

from __future__ import annotations

from datetime import datetime, timezone

from airflow.sdk import DAG, Asset, task

from airflow_batchjob import BatchJobOperator, BatchJobSensor

START = datetime(2026, 1, 1, tzinfo=timezone.utc)

# [START half]
half = Asset("embeddings-half-done")

with DAG("embed", schedule=None, start_date=START, doc_md=__doc__):
    embed = BatchJobOperator(
        task_id="embed",
        image="busybox:1.37",
        command=["sh", "-c", "sleep 0.2; echo embedded $JOB_COMPLETION_INDEX"],
        completions=8,
        parallelism=2,
    )
    BatchJobSensor(task_id="half_way", of_task=embed, until="50%", outlets=[half])

with DAG("preview", schedule=[half], start_date=START, doc_md=__doc__):

    @task
    def publish_preview() -> str:
        """Stand in for what can begin early."""
        return "published"

    publish_preview()
# [END half]
