"""Spot machines that never come: what is left moves, whoever dies on the way; each step is one request."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest

from airflow_batchjob import SpotPolicy
from airflow_batchjob.core.errors import ApiRefusedError
from airflow_batchjob.core.event import Cause, Outcome
from airflow_batchjob.supervisor.supervise import supervise
from tests.retries.dying import DiedError, Through
from tests.retries.trying import LOG, Bench
from tests.spot.placing import CLASS, kinds, mark, out_of_stock, spot


async def test_the_same_job_goes_on_on_demand(bench: Bench) -> None:
    verdict = await bench.run(out_of_stock())

    assert (verdict.outcome, verdict.fell_back, verdict.losses) == (Outcome.MET, True, 0)
    assert kinds(bench) == dict.fromkeys(range(3), "on-demand")
    assert len(bench.jobs()) == 1
    assert mark(bench.job(), "fell-back")["why"] == "stock-out"
    assert mark(bench.job(), "under-way") == {}


async def test_where_the_job_cannot_be_moved_a_follow_up_job_goes_on(bench: Bench) -> None:
    verdict = await bench.run(out_of_stock(CLASS))

    assert (verdict.outcome, verdict.generation, verdict.fell_back) == (Outcome.MET, 1, True)
    assert kinds(bench) == dict.fromkeys(range(3), "on-demand")
    assert bench.alive() == []
    assert bench.pods(bench.job(0)["metadata"]["name"]) == []


async def test_without_a_fallback_the_try_fails_with_the_schedulers_words(bench: Bench) -> None:
    verdict = await bench.run(out_of_stock(policy=SpotPolicy(fallback=False)))

    assert (verdict.outcome, verdict.cause) == (Outcome.NOT_MET, Cause.STOCK_OUT)
    assert "nodes are available" in verdict.message


@pytest.mark.local_only
async def test_when_on_demand_is_out_too_the_try_fails(bench: Bench) -> None:
    nowhere = {"on_demand": {"node_selector": {"airflow-batchjob/capacity": "none-either"}}}

    verdict = await bench.run(out_of_stock(nowhere))

    assert (verdict.outcome, verdict.cause, verdict.fell_back) == (Outcome.NOT_MET, Cause.STOCK_OUT, True)


async def test_the_last_of_several_tries_begins_on_demand(bench: Bench) -> None:
    asked = out_of_stock(script="[ $GENERATION -gt 0 ]", try_number=2, policy=SpotPolicy(fallback=False))
    await bench.run(asked)

    verdict = await bench.run(out_of_stock(script="[ $GENERATION -gt 0 ]", try_number=3, pending_seconds=900))

    assert (verdict.outcome, verdict.generation, verdict.fell_back) == (Outcome.MET, 1, True)
    assert set(kinds(bench).values()) == {"on-demand"}
    assert mark(bench.job(), "fell-back")["why"] == "last try"


async def test_the_last_try_moves_a_job_that_it_attaches_to(bench: Bench) -> None:
    await bench.order(out_of_stock(try_number=2, pending_seconds=900))

    verdict = await bench.run(out_of_stock(try_number=3, pending_seconds=900))

    assert (verdict.outcome, verdict.generation, verdict.fell_back) == (Outcome.MET, 0, True)
    assert mark(bench.job(), "fell-back")["why"] == "last try"


IN_PLACE = {"after the suspend": ("patch_job", 1), "after the move": ("patch_job", 2)}
FOLLOWED = {
    "after the suspend": ("patch_job", 1),
    "after the follow-up was created": ("create_job", 2),
    "after its predecessor was ended": ("patch_job", 2),
    "after the follow-up was let go": ("patch_job", 3),
}
ALL = [(None, f"in place, {name}", step) for name, step in IN_PLACE.items()] + [
    (CLASS, f"with a follow-up, {name}", step) for name, step in FOLLOWED.items()
]
each_step = pytest.mark.parametrize(
    ("profiles", "step"), [(profiles, step) for profiles, _, step in ALL], ids=[name for _, name, _ in ALL]
)


@each_step
async def test_the_next_process_finishes_what_one_that_died_began(
    bench: Bench, profiles: Any, step: tuple[str, int]
) -> None:
    """As a trigger that moves to another triggerer: the same order, the same holder, a new process."""
    asked = out_of_stock(profiles, script="sleep 1")
    async with bench.client() as client:
        dying = Through(client, dies_after=step)
        order = await bench_order(bench, dying, asked)
        with pytest.raises(DiedError):
            await asyncio.wait_for(supervise(dying, order, log=LOG), 40)

        verdict = await asyncio.wait_for(supervise(client, order, log=LOG), 60)

    assert (verdict.outcome, verdict.fell_back) == (Outcome.MET, True)
    assert bench.successes() == dict.fromkeys(range(3), 1)
    assert len(bench.jobs()) == (1 if profiles is None else 2)
    assert bench.alive() == []


@each_step
@pytest.mark.local_only
async def test_so_does_the_next_try(bench: Bench, profiles: Any, step: tuple[str, int]) -> None:
    with pytest.raises(DiedError):
        await bench.run(
            out_of_stock(profiles, script="sleep 1"), through=functools.partial(Through, dies_after=step)
        )

    verdict = await asyncio.wait_for(bench.run(out_of_stock(profiles, script="sleep 1", try_number=2)), 60)

    assert verdict.outcome is Outcome.MET
    assert bench.successes() == dict.fromkeys(range(3), 1)
    assert bench.alive() == []


async def bench_order(bench: Bench, client: Any, asked: Any) -> Any:
    from airflow_batchjob.supervisor.submit import submit

    return await submit(client, bench.here(asked), log=LOG)


class Refusing(Through):
    """An API that lets no suspended Job be moved."""

    async def patch_job(self, namespace: str, name: str, operations: Any) -> Any:
        if any(one["path"].startswith("/spec/template/spec/") for one in operations):
            message = 'Job.batch "work" is invalid: spec.template: Invalid value: …: field is immutable'
            raise ApiRefusedError("patch", code=422, reason="Invalid", message=message)
        return await self._client.patch_job(namespace, name, operations)


async def test_where_the_api_refuses_the_move_a_follow_up_job_goes_on(bench: Bench) -> None:
    verdict = await bench.run(out_of_stock(), through=Refusing)

    assert (verdict.outcome, verdict.generation, verdict.fell_back) == (Outcome.MET, 1, True)
    assert kinds(bench) == dict.fromkeys(range(3), "on-demand")
    assert bench.alive() == []


async def test_a_job_that_someone_resumes_on_its_way_out_is_suspended_again(bench: Bench) -> None:
    asked = out_of_stock(script="sleep 1")
    async with bench.client() as client:
        dying = Through(client, dies_after=("patch_job", 1))
        order = await bench_order(bench, dying, asked)
        with pytest.raises(DiedError):
            await asyncio.wait_for(supervise(dying, order, log=LOG), 40)
        bench.api.merge(bench.api.jobs(order.job.name), {"spec": {"suspend": False}})

        verdict = await asyncio.wait_for(supervise(client, order, log=LOG), 60)

    assert (verdict.outcome, verdict.fell_back) == (Outcome.MET, True)
    assert mark(bench.job(), "under-way") == {}


@pytest.mark.local_only
async def test_where_pods_cannot_be_read_the_job_is_seen_through_all_the_same(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    blind = functools.partial(Through, forbidden=("list_pods",))

    verdict = await bench.run(spot(completions=3), through=blind)

    assert (verdict.outcome, verdict.fell_back, verdict.losses) == (Outcome.MET, False, 0)
    assert any("losses are not counted" in record.getMessage() for record in caplog.records)
