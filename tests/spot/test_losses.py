"""Machines that are really taken away, under processes that really run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from airflow_batchjob import SpotPolicy
from airflow_batchjob.core.event import Cause, Outcome, Verdict
from airflow_batchjob.supervisor.supervise import supervise
from tests.cluster.target import Target
from tests.contract.asking import Asker
from tests.retries.dying import DiedError, Through
from tests.retries.trying import LOG, Bench
from tests.spot.placing import CLASS, LABEL, kinds, mark, spot

# 0 is done at once. The others last as long as they are on spot, and no longer than a moment elsewhere.
FIRST_IS_DONE = "[ $JOB_COMPLETION_INDEX = 0 ] || [ $KIND = on-demand ] || exec sleep 100"
KIND = {"KIND": {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{LABEL}']"}}}}
NO_LOSS = SpotPolicy(max_losses_per_index=0, fallback_max_running=9)
SECONDS = 150  # a real control plane takes a minute to see that a node is gone


class Machines:
    """The spot machines of the cluster."""

    def __init__(self, cluster: Target, api: Asker) -> None:
        self._cluster = cluster
        items = api.ask("GET", "/api/v1/nodes").body["items"]
        self.names = [
            node["metadata"]["name"] for node in items if node["metadata"]["labels"].get(LABEL) == "spot"
        ]
        self.lost: list[str] = []

    async def lose(self, *names: str) -> None:
        """Take these away, or all."""
        for name in names or self.names:
            self.lost.append(name)
            await asyncio.to_thread(self._cluster.lose_node, name)

    async def bring_back(self) -> None:
        while self.lost:
            await asyncio.to_thread(self._cluster.bring_back_node, self.lost.pop())


@pytest.fixture
async def machines(cluster: Target, bench: Bench) -> AsyncIterator[Machines]:
    found = Machines(cluster, bench.api)
    yield found
    await found.bring_back()


@asynccontextmanager
async def trying(bench: Bench, **fields: Any) -> AsyncIterator[asyncio.Task[Verdict]]:
    """A try that runs beside the test."""
    task = asyncio.ensure_future(bench.run(spot(FIRST_IS_DONE, env=KIND, completions=4, **fields)))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(look: Callable[[], Any], seconds: float = 60) -> Any:
    for _ in range(int(seconds / 0.2)):
        if found := await asyncio.to_thread(look):
            return found
        await asyncio.sleep(0.2)
    raise AssertionError(f"not within {seconds} s")


def three_run(bench: Bench) -> Callable[[], bool]:
    def look() -> bool:
        phases = sorted(pod["status"]["phase"] for pod in bench.pods())
        return phases == ["Running", "Running", "Running", "Succeeded"]

    return look


@pytest.mark.timeout(200)
async def test_what_is_left_moves_to_on_demand_within_the_same_try(
    bench: Bench, machines: Machines, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with trying(bench, policy=NO_LOSS) as running:
        await until(three_run(bench))
        await machines.lose()
        verdict = await asyncio.wait_for(running, SECONDS)

    assert (verdict.outcome, verdict.fell_back, verdict.losses) == (Outcome.MET, True, 3)
    assert not {1, 2, 3} - {index for index, kind in kinds(bench).items() if kind == "on-demand"}
    assert len(bench.jobs()) == 1
    assert mark(bench.job(), "losses")["counts"] == {"1": "1-3"}
    story = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    steps = [line for line in story if not line.startswith("Lost on")]
    assert len(steps) == 2, story
    assert "leaves spot: index" in steps[0]
    assert "goes on with the 3 indexes that are left on on-demand machines" in steps[1]


STEPS = {
    "after the suspend": ("patch_job", 1),
    "after the follow-up was created": ("create_job", 1),
    "after its predecessor was ended": ("patch_job", 2),
    "after it was told what is done": ("patch_job_status", 1),
    "after it was let go": ("patch_job", 3),
}
ON_ALL = (
    "after its predecessor was ended"  # each takes the minute in which a real control plane sees the loss
)


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    "step",
    [
        pytest.param(step, id=name, marks=() if name == ON_ALL else pytest.mark.local_only)
        for name, step in STEPS.items()
    ],
)
async def test_a_follow_up_is_told_what_is_done_whoever_dies_on_the_way(
    bench: Bench, machines: Machines, step: tuple[str, int]
) -> None:
    order = await bench.order(spot(FIRST_IS_DONE, CLASS, NO_LOSS, env=KIND, completions=4))
    async with bench.client() as client:
        dying = Through(client, dies_after=step)
        supervising = asyncio.ensure_future(supervise(dying, order, log=LOG))
        await until(three_run(bench))
        await machines.lose()
        with pytest.raises(DiedError):
            await asyncio.wait_for(supervising, SECONDS)

        verdict = await asyncio.wait_for(supervise(client, order, log=LOG), 60)

    assert (verdict.outcome, verdict.generation) == (Outcome.MET, 1)
    assert 1 <= verdict.losses <= 3  # the suspension may kill what its machine was about to lose
    assert kinds(bench, 1) == dict.fromkeys((1, 2, 3), "on-demand")
    assert bench.alive() == []


@pytest.mark.timeout(200)
async def test_healthy_pods_go_on_until_they_are_done(bench: Bench, machines: Machines) -> None:
    """One machine of two goes; what runs on the other is not killed for it."""
    if len(machines.names) < 2:
        pytest.skip("needs two spot machines")
    script = "exec sleep 6"
    policy = SpotPolicy(max_losses_per_index=0)
    task = asyncio.ensure_future(bench.run(spot(script, policy=policy, completions=6)))
    await until(lambda: [pod["status"]["phase"] for pod in bench.pods()] == ["Running"] * 6)
    on = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in bench.pods()}
    await machines.lose(machines.names[0])
    verdict = await asyncio.wait_for(task, SECONDS)

    healthy = {name for name, node in on.items() if node == machines.names[1]}
    ended = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in bench.pods()}
    assert healthy
    assert {ended[name] for name in healthy} == {"Succeeded"}
    assert verdict.outcome is Outcome.MET
    assert verdict.losses == 6 - len(healthy)


@pytest.mark.timeout(200)
@pytest.mark.local_only
async def test_without_a_fallback_the_try_ends_past_the_limit(bench: Bench, machines: Machines) -> None:
    policy = SpotPolicy(fallback=False, max_losses_per_index=0)
    async with trying(bench, policy=policy) as running:
        await until(three_run(bench))
        await machines.lose()
        verdict = await asyncio.wait_for(running, SECONDS)

    assert (verdict.outcome, verdict.cause, verdict.losses) == (Outcome.NOT_MET, Cause.LOSSES, 3)
    assert verdict.succeeded_indexes == "0"
    assert verdict.failed == 0


@pytest.mark.timeout(200)
async def test_a_pause_by_someone_else_is_left_alone(bench: Bench, machines: Machines) -> None:
    async with trying(bench, policy=NO_LOSS) as running:
        await until(three_run(bench))
        path = bench.api.jobs(bench.job()["metadata"]["name"])
        bench.api.merge(path, {"spec": {"suspend": True}})
        await machines.lose()
        await asyncio.sleep(4)
        paused = bench.job()
        bench.api.merge(path, {"spec": {"suspend": False}})
        await machines.bring_back()
        await until(lambda: [pod for pod in bench.pods() if pod["status"]["phase"] == "Running"])
        assert not running.done()

    assert paused["spec"]["suspend"] is True
    assert mark(paused, "under-way") == mark(bench.job(), "fell-back") == {}


@pytest.mark.timeout(200)
async def test_an_evicted_pod_is_a_loss_and_no_failure(bench: Bench, machines: Machines) -> None:
    async with trying(bench, policy=NO_LOSS) as running:
        await until(three_run(bench))
        name = next(p["metadata"]["name"] for p in bench.pods() if p["status"]["phase"] == "Running")
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        assert bench.api.ask("POST", bench.api.core("pods", name, "eviction"), body).code == 201
        verdict = await asyncio.wait_for(running, SECONDS)

    assert (verdict.outcome, verdict.failed, verdict.losses, verdict.fell_back) == (Outcome.MET, 0, 1, True)
