"""The decision table on a cluster, row by row: what a start of a task does about the Jobs that are there."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from airflow_batchjob.core.errors import ForeignJobError
from airflow_batchjob.core.event import Cause, Outcome
from airflow_batchjob.core.identity.identity import Again
from airflow_batchjob.core.identity.names import TaskIdentity
from airflow_batchjob.core.identity.record import Record
from airflow_batchjob.supervisor.stopping import stop
from tests.contract.living import conditions
from tests.retries.trying import LASTS, Bench, odds, request

RETRY: dict[str, Any] = {"try_number": 2}
CLEARED: dict[str, Any] = {"try_number": 2, "max_tries": 4}


def record_of(verdict: Any, order_digests: dict[str, str]) -> Record:
    return Record(
        name=verdict.job.name,
        uid=verdict.job.uid,
        generation=verdict.generation,
        digests=order_digests,
        verdict=verdict,
    )


class TestThereIsNoJob:
    async def test_the_first_try_submits_generation_0(self, bench: Bench) -> None:
        order = await bench.order(request(LASTS))

        assert [order.generation, order.job.name] == [0, bench.job()["metadata"]["name"]]

    async def test_a_record_of_what_was_met_is_the_result_of_a_retry(self, bench: Bench) -> None:
        verdict = await bench.run(request("true"))
        bench.api.ask("DELETE", bench.api.jobs(verdict.job.name))
        bench.api.eventually(lambda: not bench.jobs())

        again = await bench.run(request("true", **RETRY), record_of(verdict, request("true").digests))

        assert (again.outcome, again.succeeded_indexes, bench.jobs()) == (Outcome.MET, "0-5", [])

    async def test_a_record_of_what_was_done_is_resumed(self, bench: Bench, caplog: Any) -> None:
        caplog.set_level("INFO")
        verdict = await bench.run(request())
        bench.api.ask("DELETE", bench.api.jobs(verdict.job.name))
        bench.api.eventually(lambda: not bench.jobs())

        again = await bench.run(request(**RETRY), record_of(verdict, request().digests))

        assert (again.outcome, again.generation, bench.ran(-1)) == (Outcome.MET, 1, list(odds()))
        assert f"Generation 1 keeps 3 of 6 indexes, done in {verdict.job.name}" in caplog.text

    async def test_no_record_and_a_later_try_says_that_it_starts_over(
        self, bench: Bench, caplog: Any
    ) -> None:
        await bench.run(request("true", **RETRY))

        assert "Try 2 starts over: no Job of an earlier try is left" in caplog.text


class TestItIsOnItsWayOut:
    async def test_a_job_being_deleted_is_waited_for(self, bench: Bench) -> None:
        first = await bench.order(request(LASTS))
        bench.api.eventually(lambda: bench.job()["status"].get("ready"))
        bench.api.ask("DELETE", bench.api.jobs(first.job.name), {"propagationPolicy": "Foreground"})

        second = await bench.order(request(LASTS, **RETRY))

        assert second.job.uid != first.job.uid
        assert bench.alive() == [second.job.name]

    async def test_a_stopped_job_is_waited_for_and_resumed(self, bench: Bench) -> None:
        script = f"[ $GENERATION -gt 0 ] || [ $((JOB_COMPLETION_INDEX % 2)) = 0 ] || {{ {LASTS}; }}"
        first = await bench.order(request(script))
        bench.api.eventually(lambda: bench.job()["status"].get("completedIndexes") == "0,2,4")
        async with bench.client() as client:
            await stop(client, first.job, holder="ti/1", reason="the user marked it failed")

        verdict = await bench.run(request(script, **RETRY))

        assert (verdict.outcome, verdict.generation, bench.ran(1)) == (Outcome.MET, 1, list(odds()))


class TestAnotherIncarnation:
    async def test_that_has_ended_makes_way_for_everything(self, bench: Bench) -> None:
        await bench.run(request(incarnation="old"))

        verdict = await bench.run(request(incarnation="new"))

        assert (verdict.generation, bench.ran(1)) == (1, [*range(6)])

    async def test_that_is_alive_is_refused_and_left_alone(self, bench: Bench) -> None:
        first = await bench.order(request(LASTS, incarnation="old"))

        with pytest.raises(ForeignJobError, match="instance"):
            await bench.order(request(LASTS, incarnation="new"))

        assert bench.alive() == [first.job.name]


class TestAnEditedDag:
    async def test_stops_what_is_alive_and_runs_everything(self, bench: Bench, caplog: Any) -> None:
        caplog.set_level("INFO")
        script = f"[ $((JOB_COMPLETION_INDEX % 2)) = 0 ] || {{ {LASTS}; }}"
        await bench.order(request(script))
        bench.api.eventually(lambda: bench.job()["status"].get("completedIndexes") == "0,2,4")

        verdict = await bench.run(request("true", **RETRY))

        assert (verdict.outcome, verdict.generation, bench.ran(1)) == (Outcome.MET, 1, [*range(6)])
        assert "command changed since the earlier Job was submitted" in caplog.text
        assert ("Failed", "DeadlineExceeded") in conditions(bench.job(0))

    async def test_that_changes_memory_alone_keeps_what_is_done(self, bench: Bench) -> None:
        await bench.run(request())

        more = request(**RETRY, container_resources={"limits": {"memory": "64Mi"}})
        verdict = await bench.run(more)

        assert (verdict.outcome, bench.ran(1)) == (Outcome.MET, list(odds()))

    async def test_with_the_same_resume_key_keeps_what_is_done(self, bench: Bench) -> None:
        await bench.run(request("exit $((JOB_COMPLETION_INDEX % 2))", resume_key="day-1"))

        verdict = await bench.run(request("true", **RETRY, resume_key="day-1"))

        assert (verdict.outcome, bench.ran(1)) == (Outcome.MET, list(odds()))


class TestItIsAlive:
    @pytest.mark.parametrize("start", [RETRY, CLEARED], ids=["a retry", "the user cleared the running task"])
    async def test_so_it_is_attached_to(self, bench: Bench, start: dict[str, Any]) -> None:
        script = "sleep 1"
        first = await bench.order(request(script))

        verdict = await bench.run(request(script, **start))

        assert (verdict.outcome, verdict.job, len(bench.jobs())) == (Outcome.MET, first.job, 1)
        assert bench.annotation("holder") == "ti/2"

    async def test_and_two_starts_at_once_make_one_job(self, bench: Bench) -> None:
        orders = await asyncio.gather(*(bench.order(request(LASTS)) for _ in range(4)))

        assert {order.job.uid for order in orders} == {bench.job()["metadata"]["uid"]}
        assert len(bench.jobs()) == 1


class TestItWasMet:
    @pytest.mark.parametrize("report", [False, True], ids=["not reported", "reported"])
    async def test_so_a_retry_takes_its_result(self, bench: Bench, report: bool) -> None:
        first = await bench.run(request("true"), report=report)

        again = await bench.run(request("true", **RETRY))

        assert (again.outcome, again.job, len(bench.jobs())) == (Outcome.MET, first.job, 1)

    async def test_and_told_so_a_clear_runs_everything(self, bench: Bench) -> None:
        await bench.run(request("true"))

        verdict = await bench.run(request("true", **CLEARED))

        assert (verdict.generation, bench.ran(1)) == (1, [*range(6)])


class TestItWasNotMet:
    async def test_under_this_very_try_so_that_is_told_again(self, bench: Bench) -> None:
        first = await bench.run(request())

        again = await bench.run(request())

        assert (again.outcome, again.cause, again.job) == (Outcome.NOT_MET, Cause.TOO_FEW, first.job)
        assert len(bench.jobs()) == 1

    async def test_so_a_retry_runs_what_is_left_with_its_own_numbers(self, bench: Bench) -> None:
        first = await bench.run(request())

        second = await bench.run(request(**RETRY))

        assert (first.succeeded_indexes, first.failed_indexes) == ("0,2,4", "1,3,5")
        assert (second.outcome, second.succeeded, second.succeeded_indexes) == (Outcome.MET, 6, "0-5")
        assert bench.ran(1) == list(odds())
        assert bench.successes() == dict.fromkeys(range(6), 1)
        assert bench.job(1)["status"]["succeeded"] == 6

    async def test_so_a_clear_of_the_failed_task_runs_what_is_left(self, bench: Bench) -> None:
        await bench.run(request(max_tries=0))

        verdict = await bench.run(request(**CLEARED, on_clear=Again.REST))

        assert (verdict.outcome, bench.ran(1)) == (Outcome.MET, list(odds()))

    @pytest.mark.parametrize(
        "start",
        [{**RETRY, "on_retry": Again.ALL}, {**CLEARED, "on_clear": Again.ALL}],
        ids=["on_retry", "on_clear"],
    )
    async def test_and_all_was_asked_for_so_everything_runs(
        self, bench: Bench, start: dict[str, Any]
    ) -> None:
        await bench.run(request())

        verdict = await bench.run(request(**start))

        assert (verdict.outcome, bench.ran(1)) == (Outcome.MET, [*range(6)])

    async def test_twice_so_the_third_generation_keeps_what_both_did(self, bench: Bench) -> None:
        script = "[ $JOB_COMPLETION_INDEX -lt $((2 * GENERATION + 2)) ]"
        for number in (1, 2, 3):
            verdict = await bench.run(request(script, try_number=number))

        assert [bench.ran(generation) for generation in range(3)] == [[*range(6)], [2, 3, 4, 5], [4, 5]]
        assert (verdict.outcome, verdict.succeeded) == (Outcome.MET, 6)
        assert bench.successes() == dict.fromkeys(range(6), 1)

    @pytest.mark.local_only
    async def test_and_budgets_start_afresh_while_successes_count_over_all(self, bench: Bench) -> None:
        # The fuse lets one index fail in each generation; four of six are enough over both.
        script = "[ $JOB_COMPLETION_INDEX -lt $((2 * GENERATION + 2)) ]"
        fuse: dict[str, Any] = {"max_failed_indexes": 2, "min_succeeded": 4, "parallelism": 1}

        first = await bench.run(request(script, **fuse))
        second = await bench.run(request(script, **fuse, **RETRY))

        assert (first.outcome, first.succeeded) == (Outcome.NOT_MET, 2)
        assert (second.outcome, second.succeeded_indexes) == (Outcome.MET, "0-3")


@pytest.mark.local_only
async def test_instances_of_a_mapped_task_and_namesakes_elsewhere_keep_apart(bench: Bench) -> None:
    mine = TaskIdentity("prod", "nightly", "run-1", "work", 0)
    identities = [
        mine,
        replace(mine, map_index=1),
        replace(mine, dag_id="weekly"),
        replace(mine, instance="staging"),
        replace(mine, run_id="run-2"),
    ]

    verdicts = [await bench.run(request(identity=each, completions=2)) for each in identities]
    again = await bench.run(request(identity=identities[1], completions=2, **RETRY))

    assert len({verdict.job.name for verdict in verdicts}) == len(identities)
    assert (again.outcome, again.generation, len(bench.jobs())) == (Outcome.MET, 1, 6)
