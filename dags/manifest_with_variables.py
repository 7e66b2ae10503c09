"""A Job from a manifest file: `${NAME}` from `variables`, and Jinja."""

from __future__ import annotations

from datetime import datetime, timezone

from airflow.sdk import DAG

from airflow_batchjob import BatchJobOperator

with DAG(
    "manifest_with_variables",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    doc_md=__doc__,
    params={"text": "so much depends upon a red wheel barrow"},
):
    # [START manifest]
    BatchJobOperator(
        task_id="count_words",
        manifest="jobs/count_words.yaml",
        variables={
            "IMAGE": "busybox:1.37",
            "SHARDS": 4,  # a value that is exactly ${SHARDS} becomes a number
            "TEAM": "search",
            "TEXT": "{{ params.text }}",
        },
    )
    # [END manifest]
