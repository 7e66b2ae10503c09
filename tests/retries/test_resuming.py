"""A follow-up Job on a cluster: told what is done, whatever happens on the way."""

from __future__ import annotations

import functools
import time
from typing import Any

import pytest

from airflow_batchjob.core.deciding.report import error_for
from airflow_batchjob.core.errors import ApiRefusedError, ThresholdNotMetError
from airflow_batchjob.core.event import Order, Outcome
from airflow_batchjob.supervisor.rerun import request_rerun
from airflow_batchjob.supervisor.stopping import stop
from tests.contract.living import conditions
from tests.retries.dying import DiedError, Through
from tests.retries.trying import LASTS, Bench, odds, request

STEPS = {
    "after it was asked what there is": ("list_jobs", 1),
    "after the Job was created": ("create_job", 1),
    "after the Job was told what is done": ("patch_job_status", 1),
    "after the Job was let go": ("patch_job", 1),
}
LATER_STEPS = {
    "after it was asked what there is": ("list_jobs", 1),
    "after it became the holder": ("patch_job", 1),
    "after the Job was told what is done": ("patch_job_status", 1),
    "after the Job was let go": ("patch_job", 2),
}
QUEUE = "kueue.x-k8s.io/queue-name"


async def dies(bench: Bench, asked: Any, step: tuple[str, int]) -> None:
    with pytest.raises(DiedError):
        await bench.run(asked, through=functools.partial(Through, dies_after=step))


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
async def test_a_process_that_dies_leaves_what_the_next_try_finishes(
    bench: Bench, step: tuple[str, int]
) -> None:
    await bench.run(request())
    await dies(bench, request(try_number=2), step)

    verdict = await bench.run(request(try_number=3))

    assert (verdict.outcome, verdict.succeeded, verdict.generation) == (Outcome.MET, 6, 1)
    assert bench.ran(1) == list(odds())
    assert bench.successes() == dict.fromkeys(range(6), 1)
    assert "under-way" not in str(bench.job(1)["metadata"]["annotations"])


@pytest.mark.parametrize("later", LATER_STEPS.values(), ids=LATER_STEPS.keys())
@pytest.mark.local_only
async def test_and_so_does_one_that_dies_while_it_goes_on(bench: Bench, later: tuple[str, int]) -> None:
    await bench.run(request())
    await dies(bench, request(try_number=2), ("create_job", 1))
    await dies(bench, request(try_number=3, max_tries=3), later)

    verdict = await bench.run(request(try_number=4, max_tries=3))

    assert (verdict.outcome, verdict.succeeded, len(bench.jobs())) == (Outcome.MET, 6, 2)
    assert bench.successes() == dict.fromkeys(range(6), 1)


RERUN_STEPS = STEPS | {"after the request was taken off the old Job": ("patch_job", 2)}


@pytest.mark.parametrize("step", RERUN_STEPS.values(), ids=RERUN_STEPS.keys())
@pytest.mark.local_only
async def test_a_process_that_dies_while_it_carries_out_a_request(
    bench: Bench, step: tuple[str, int]
) -> None:
    first = await bench.run(request())
    async with bench.client() as client:
        await request_rerun(client, first.job.name, "3")
    cleared: dict[str, Any] = {"max_tries": 4}
    await dies(bench, request(try_number=2, **cleared), step)

    verdict = await bench.run(request(try_number=3, **cleared))

    assert (verdict.outcome, verdict.asked, verdict.succeeded_indexes) == (Outcome.MET, 1, "0,2-4")
    assert bench.ran(1) == [3]


async def test_a_half_made_job_that_is_stopped_takes_nothing_with_it(bench: Bench) -> None:
    await bench.run(request())
    await dies(bench, request(try_number=2), ("create_job", 1))
    half = bench.job(1)
    async with bench.client() as client:
        ref = (await client.get_job(bench.api.namespace, half["metadata"]["name"])).ref
        assert await stop(client, ref, holder="ti/2", reason="the user marked the task failed")

    verdict = await bench.run(request(try_number=3))

    assert (verdict.outcome, verdict.generation, bench.ran(1), bench.ran(2)) == (
        Outcome.MET,
        2,
        [],
        list(odds()),
    )
    assert bench.successes() == dict.fromkeys(range(6), 1)


async def test_a_pause_that_comes_later_is_left_alone(bench: Bench) -> None:
    script = f"[ $GENERATION = 0 ] && exit $((JOB_COMPLETION_INDEX % 2)); {LASTS}"
    await bench.run(request(script))
    order = await bench.order(request(script, try_number=2))
    bench.api.eventually(lambda: bench.job(1)["status"].get("active") == 3)
    bench.api.merge(bench.api.jobs(order.job.name), {"spec": {"suspend": True}})

    again = await bench.order(request(script, try_number=3))

    assert again.job == order.job
    assert bench.job(1)["spec"]["suspend"] is True


@pytest.mark.local_only
async def test_a_manifest_that_is_suspended_by_its_author_stays_so_with_what_is_done_told(
    bench: Bench,
) -> None:
    asked = request()
    await bench.run(asked)
    suspended = {**asked.manifest, "spec": {**asked.manifest["spec"], "suspend": True}}

    await bench.order(request(try_number=2, manifest=suspended))

    job = bench.job(1)
    assert (job["spec"]["suspend"], job["status"]["completedIndexes"]) == (True, "0,2,4")
    assert bench.annotation("under-way") == ""
    bench.api.merge(bench.api.jobs(job["metadata"]["name"]), {"spec": {"suspend": False}})
    bench.api.eventually(lambda: not bench.alive(), seconds=60)
    assert bench.ran(1) == list(odds())


async def test_a_queue_gets_the_job_when_it_knows_what_is_done(bench: Bench) -> None:
    asked = request()
    await bench.run(asked)
    metadata = asked.manifest["metadata"]
    queued = {**asked.manifest, "metadata": {**metadata, "labels": {QUEUE: "gpu"}}}
    await dies(bench, request(try_number=2, manifest=queued), ("patch_job_status", 1))
    before = bench.job(1)["metadata"]["labels"]

    await bench.order(request(try_number=3, manifest=queued))

    job = bench.job(1)
    assert QUEUE not in before
    assert (job["metadata"]["labels"][QUEUE], job["spec"]["suspend"]) == ("gpu", True)
    assert job["status"]["completedIndexes"] == "0,2,4"


async def test_without_the_right_all_runs_again_and_one_warning_prints_the_rule(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    await bench.run(request())

    verdict = await bench.run(
        request(try_number=2), through=functools.partial(Through, forbidden=("patch_job_status",))
    )

    [warning] = [record.message for record in caplog.records if "jobs/status" in record.message]
    assert "- apiGroups: [batch]\n    resources: [jobs/status]\n    verbs: [patch]" in warning
    assert (verdict.outcome, bench.ran(1)) == (Outcome.MET, [*range(6)])


async def test_without_the_right_indexes_asked_for_by_name_are_an_error(bench: Bench) -> None:
    first = await bench.run(request())
    async with bench.client() as client:
        await request_rerun(client, first.job.name, "3")

    with pytest.raises(ApiRefusedError, match=r"resources: \[jobs/status\]"):
        await bench.run(
            request(try_number=2, max_tries=4),
            through=functools.partial(Through, forbidden=("patch_job_status",)),
        )

    bench.api.eventually(lambda: len(bench.jobs()) == 1)
    assert '"indexes":"3"' in bench.annotation("rerun")


@pytest.mark.local_only
async def test_the_failure_says_what_the_next_try_runs(bench: Bench) -> None:
    asked = request("exit $((JOB_COMPLETION_INDEX % 2))")
    first = await bench.run(asked)

    error = error_for(first, asked.order(first.job, 0))

    assert isinstance(error, ThresholdNotMetError)
    assert "3 of 6 succeeded, 6 needed. 3 failed: 1,3,5. 3x exit 1 in main. Try 2 of 3 runs these 3." in str(
        error
    )


async def test_ten_thousand_indexes_with_every_second_one_done(bench: Bench) -> None:
    nowhere = {"nodeSelector": {"nowhere": "at-all"}}
    asked: dict[str, Any] = {"completions": 10_000, "parallelism": 2, "pod": nowhere}
    first = await bench.order(request(LASTS, **asked))
    done = ",".join(map(str, range(0, 10_000, 2)))
    bench.api.merge(bench.api.jobs(first.job.name, "status"), {"status": {"completedIndexes": done}})
    async with bench.client() as client:
        await stop(client, first.job, holder="ti/1", reason="enough")
    bench.api.eventually(lambda: not bench.alive())

    began = time.perf_counter()
    second = await bench.submit(request(LASTS, **asked, try_number=2))
    seconds = time.perf_counter() - began

    assert isinstance(second, Order)
    bench.api.eventually(lambda: len(bench.ran(1)) == 2)
    assert bench.ran(1) == [1, 3]
    assert bench.job(1)["status"]["completedIndexes"] == done
    assert seconds < 10
    assert ("Failed", "DeadlineExceeded") in conditions(bench.job(0))
