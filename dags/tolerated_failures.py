"""Some indexes may fail: the task succeeds all the same, and says which ones did."""

from __future__ import annotations

from datetime import datetime, timezone

from airflow.sdk import DAG, task

from airflow_batchjob import BatchJobOperator, expand_indexes

# Two of these twenty readings are broken, and no second try mends them.
READ = """
case $JOB_COMPLETION_INDEX in
7|13) echo "reading $JOB_COMPLETION_INDEX is damaged" >&2; exit 1 ;;
*) echo "reading $JOB_COMPLETION_INDEX is good" ;;
esac
"""

with DAG(
    "tolerated_failures",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    doc_md=__doc__,
):
    # [START thresholds]
    read = BatchJobOperator(
        task_id="read",
        image="busybox:1.37",
        command=["sh", "-c", READ],
        completions=20,
        min_succeeded="90%",  # 18 of 20 are enough
        max_failed_indexes="10%",  # the third failed index ends the Job: it cannot be met any more
    )

    @task(trigger_rule="all_done")
    def name_the_failed(failed: str) -> list[int]:
        """Return the numbers of the indexes that failed."""
        return expand_indexes(failed)

    name_the_failed(read.output["failed_indexes"])
    # [END thresholds]
