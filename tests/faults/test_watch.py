"""The shared watch on a real server, with things going wrong between: nobody misses an end.

The server is the local cluster's own; the proxy before it fails as each test says.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from airflow_batchjob.client.backoff import Patience
from airflow_batchjob.client.config import ClusterSettings, connect
from airflow_batchjob.client.kubernetes import KubernetesClient
from airflow_batchjob.client.transport import Waiting
from airflow_batchjob.core.errors import ApiRefusedError
from airflow_batchjob.core.event import Order, Outcome, Verdict
from airflow_batchjob.core.identity.marks import HOLDER, SELECTOR
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.supervisor.pace import Pace
from airflow_batchjob.supervisor.supervise import supervise
from airflow_batchjob.testing import Cluster
from tests.faults.fates import Ask, Fates, Fault
from tests.faults.proxy import FaultProxy

JOBS = 6
QUICK = Pace(
    pods_seconds=0.5,
    after_end_seconds=0.05,
    list_seconds=0.5,
    longest_outage_seconds=0.5,
    joining_seconds=0.05,
)
LOG = logging.getLogger("watch")


@dataclass
class Watches(Fates):
    """Gives watches of Jobs what a test says, and all else nothing."""

    seed: int = 0
    say: Callable[[int], Fault] = field(default=lambda number: Fault.NONE)

    def fate(self, ask: Ask, number: int) -> Fault:
        return self.say(number) if ask.is_watch else Fault.NONE


@pytest_asyncio.fixture
async def proxy(batchjob_cluster: Cluster, tmp_path: Path) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(
        upstream=batchjob_cluster.reach, fates=Watches(), folder=tmp_path, silent_seconds=0.3
    ) as made:
        yield made


async def client_of(proxy: FaultProxy, **given: Any) -> KubernetesClient:
    settings = ClusterSettings(kube_config_path=str(proxy.account("triggerer", **given).kubeconfig))
    return await connect(
        settings, waiting=Waiting(patience=Patience(first_seconds=0.05, longest_seconds=0.2))
    )


def held(name: str) -> dict[str, Any]:
    """Return a Job whose end the test writes itself: another controller manages it, and there is none."""
    container = {"name": "main", "image": "none", "command": ["true"]}
    key, _, value = SELECTOR.partition("=")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {key: value}, "annotations": {HOLDER: "me"}},
        "spec": {
            "managedBy": "tests.example.com/none",
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


def end(cluster: Cluster, job: Job) -> None:
    """Let a Job end well."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    done = {"status": "True", "lastTransitionTime": now, "reason": "CompletionsReached"}
    status = {
        "startTime": job_start(cluster, job) or now,
        "completionTime": now,
        "active": 0,
        "ready": 0,
        "succeeded": 1,
        "conditions": [{"type": "SuccessCriteriaMet", **done}, {"type": "Complete", **done}],
    }
    path = f"/apis/batch/v1/namespaces/{job.metadata.namespace}/jobs/{job.metadata.name}/status"
    cluster.reach.ask("PATCH", path, {"status": status}, content_type="application/merge-patch+json")


def job_start(cluster: Cluster, job: Job) -> str:
    path = f"/apis/batch/v1/namespaces/{job.metadata.namespace}/jobs/{job.metadata.name}"
    return str(cluster.reach.ask("GET", path)["status"].get("startTime", ""))


def order_of(job: Job) -> Order:
    return Order(
        job=job.ref, identity="", generation=0, holder="me", completions=1, indexed=False, logs="none"
    )


@dataclass
class Watched:
    """Jobs, and supervisors that wait for them."""

    jobs: list[Job]
    tasks: list[asyncio.Task[Verdict]]


async def waiting(client: KubernetesClient, words: str, pace: Pace = QUICK) -> Watched:
    jobs = [await client.create_job(held(f"watch-{words}-{number}")) for number in range(JOBS)]
    tasks = [asyncio.ensure_future(supervise(client, order_of(job), log=LOG, pace=pace)) for job in jobs]
    await asyncio.sleep(0.5)
    return Watched(jobs, tasks)


async def ended(tasks: list[asyncio.Task[Verdict]], limit_seconds: float = 20) -> list[Outcome]:
    return [verdict.outcome for verdict in await asyncio.wait_for(asyncio.gather(*tasks), limit_seconds)]


FATES: dict[str, Callable[[int], Fault]] = {
    "all is well": lambda number: Fault.NONE,
    "every second watch ends at once": lambda number: Fault.WATCH_ENDS if number % 2 else Fault.NONE,
    "every watch is reset after its first event": lambda number: Fault.WATCH_RESET,
    "every watch falls silent after its first event": lambda number: Fault.WATCH_SILENT,
    "every watch ends in the middle of its second event": lambda number: Fault.WATCH_HALF,
    "410 as the first answers": lambda number: Fault.GONE_ANSWER if number < 3 else Fault.NONE,
    "410 as an event, again and again": lambda number: Fault.GONE_EVENT,
    "the token has expired each time": lambda number: Fault.EXPIRED_TOKEN if number % 3 else Fault.NONE,
    "the server is overloaded for a while": lambda number: Fault.TOO_MANY if number < 12 else Fault.NONE,
}


@pytest.mark.parametrize("say", FATES.values(), ids=FATES.keys())
async def test_every_end_is_heard(
    batchjob_cluster: Cluster, proxy: FaultProxy, say: Callable[[int], Fault], request: Any
) -> None:
    proxy.fates = Watches(say=say)
    words = str(list(FATES.values()).index(say))
    async with await client_of(proxy) as client:
        began = await waiting(client, words)
        for job in began.jobs:
            end(batchjob_cluster, job)

        assert await ended(began.tasks) == [Outcome.MET] * JOBS

    assert proxy.requests["get jobs"] == 0  # nobody looks on their own


async def test_a_server_that_ends_every_watch_at_once_is_not_asked_faster_for_it(
    batchjob_cluster: Cluster, proxy: FaultProxy
) -> None:
    proxy.fates = Watches(say=lambda number: Fault.WATCH_ENDS)
    pace = Pace(joining_seconds=0.05)
    async with await client_of(proxy) as client:
        began = await waiting(client, "ends", pace)
        await asyncio.sleep(3)
        asked = proxy.requests["watch jobs"]
        for task in began.tasks:
            task.cancel()
        await asyncio.gather(*began.tasks, return_exceptions=True)

    assert 2 <= asked <= 8


async def test_where_watching_is_forbidden_lists_are_shared_and_it_is_said_once(
    batchjob_cluster: Cluster, proxy: FaultProxy, caplog: pytest.LogCaptureFixture
) -> None:
    async with await client_of(proxy, forbidden=frozenset({"watch jobs"})) as client:
        began = await waiting(client, "forbidden")
        await asyncio.sleep(2)
        lists = proxy.requests["list jobs"]
        for job in began.jobs:
            end(batchjob_cluster, job)

        assert await ended(began.tasks) == [Outcome.MET] * JOBS

    assert lists <= 8
    assert proxy.requests["get jobs"] == 0
    said = [record for record in caplog.records if "can't be watched" in record.message]
    assert len(said) == JOBS  # each task's log says it once


async def test_an_outage_is_waited_out(batchjob_cluster: Cluster, proxy: FaultProxy) -> None:
    async with await client_of(proxy) as client:
        began = await waiting(client, "outage")
        proxy.is_down = True
        for connection in list(proxy._runner.server.connections):
            connection.transport.abort()
        for job in began.jobs:
            end(batchjob_cluster, job)
        await asyncio.sleep(2)
        assert not any(task.done() for task in began.tasks)
        proxy.is_down = False

        assert await ended(began.tasks) == [Outcome.MET] * JOBS


async def test_who_was_let_in_before_is_not_turned_away_by_a_short_refusal(
    batchjob_cluster: Cluster, proxy: FaultProxy
) -> None:
    pace = Pace(
        after_end_seconds=0.05, joining_seconds=0.05, longest_outage_seconds=0.3, full_read_seconds=0.5
    )
    async with await client_of(proxy) as client:
        began = await waiting(client, "refusal", pace)
        account = next(iter(proxy.accounts.values()))
        proxy.close_account(account)
        await asyncio.sleep(2)
        assert not any(task.done() for task in began.tasks)
        proxy.accounts[account.token] = account
        for job in began.jobs:
            end(batchjob_cluster, job)

        assert await ended(began.tasks) == [Outcome.MET] * JOBS


async def test_who_is_never_let_in_is_told_so(batchjob_cluster: Cluster, proxy: FaultProxy) -> None:
    async with await client_of(proxy) as maker:
        job = await maker.create_job(held("watch-never"))
    async with await client_of(proxy, forbidden=frozenset({"list jobs"})) as client:
        with pytest.raises(ApiRefusedError) as told:
            await asyncio.wait_for(supervise(client, order_of(job), log=LOG, pace=QUICK), 10)

    assert told.value.code == 403


async def test_the_end_itself_does_not_wait_for_the_next_look(
    batchjob_cluster: Cluster, proxy: FaultProxy
) -> None:
    pace = Pace(between_looks_seconds=30)
    async with await client_of(proxy) as client:
        began = await waiting(client, "quick", pace)
        for job in began.jobs:
            end(batchjob_cluster, job)

        assert await ended(began.tasks, 5) == [Outcome.MET] * JOBS


async def test_pods_that_never_come_do_not_hold_up_the_end(
    batchjob_cluster: Cluster, proxy: FaultProxy
) -> None:
    hanging = frozenset({"list pods", "list events", "get pods/log"})
    async with await client_of(proxy, hanging=hanging) as client:
        began = await waiting(client, "pods")
        for job in began.jobs:
            starting(batchjob_cluster, job)
        await asyncio.sleep(2.5)
        assert proxy.requests["list pods"] > 0
        for job in began.jobs:
            end(batchjob_cluster, job)

        assert await ended(began.tasks, 5) == [Outcome.MET] * JOBS


def starting(cluster: Cluster, job: Job) -> None:
    """Let a pod of a Job be there, and not be ready: that is when pods are looked at."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    status = {"startTime": now, "active": 1, "ready": 0}
    path = f"/apis/batch/v1/namespaces/{job.metadata.namespace}/jobs/{job.metadata.name}/status"
    cluster.reach.ask("PATCH", path, {"status": status}, content_type="application/merge-patch+json")
