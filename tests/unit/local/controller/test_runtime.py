"""The controller at work on a store, with real pods."""

from __future__ import annotations

from typing import Any


async def test_an_indexed_job_runs_each_index_once(cluster: Any) -> None:
    template = f"echo $JOB_COMPLETION_INDEX > {cluster.folder}/$JOB_COMPLETION_INDEX"

    cluster.job("sh", "-c", template, completionMode="Indexed", completions=20, parallelism=5)
    status = await cluster.condition("Complete")

    assert (status["completedIndexes"], status["succeeded"]) == ("0-19", 20)
    assert sorted(int((cluster.folder / str(n)).read_text()) for n in range(20)) == list(range(20))


async def test_a_job_that_is_gone_leaves_no_finalizer(cluster: Any) -> None:
    cluster.job("sleep", "60")
    await cluster.until(lambda: any(True for _ in cluster.store.list("pods")))

    cluster.store.delete("jobs", "ns", "j")

    await cluster.until(lambda: all(not p["metadata"].get("finalizers") for p in cluster.store.list("pods")))


async def test_a_finished_job_goes_when_its_time_is_over(cluster: Any) -> None:
    cluster.job("true", ttlSecondsAfterFinished=1)
    await cluster.condition("Complete")

    def deleting() -> Any:
        job = cluster.get("j", "jobs")
        return job is not None and job["metadata"].get("deletionTimestamp") and job

    job = await cluster.until(deleting)

    assert job["metadata"]["finalizers"] == ["foregroundDeletion"]


async def test_a_count_above_the_truth_is_not_corrected_downwards(cluster: Any) -> None:
    cluster.job("true", completionMode="Indexed", completions=3, suspend=True)
    status = await cluster.condition("Suspended")
    job = cluster.get("j", "jobs")
    spec = {**job["spec"], "suspend": False}
    cluster.store.update(
        "jobs", {**job, "spec": spec, "status": {**status, "completedIndexes": "0", "succeeded": 2}}
    )

    done = await cluster.condition("Complete")

    assert done["succeeded"] == 3
    counts = [
        change.object["status"].get("succeeded", 0) for change in cluster.changes if change.kind == "jobs"
    ]
    assert counts == sorted(counts)


async def test_ten_thousand_finished_pods_are_not_looked_at_again(cluster: Any) -> None:
    from airflow_batchjob.local.controller.facts import INDEX

    job = cluster.job("true", completionMode="Indexed", completions=300, parallelism=20)
    await cluster.condition("Complete")

    known = cluster._others[1]._known[job["metadata"]["uid"]]
    assert known.pods == {}
    pods = list(cluster.store.list("pods"))
    assert sorted(int(pod["metadata"]["labels"][INDEX]) for pod in pods) == list(range(300))
