"""The proxy does what its schedule says, and the client gets through it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import pytest
import pytest_asyncio

from airflow_batchjob.client.backoff import Patience
from airflow_batchjob.client.config import ClusterSettings, connect
from airflow_batchjob.client.kubernetes import KubernetesClient
from airflow_batchjob.client.transport import Waiting
from airflow_batchjob.core.errors import ApiConflictError, ApiError, ApiRefusedError, ExpiredError
from airflow_batchjob.testing import Cluster
from tests.faults.fates import ONCE, STREAMS, Ask, Fates, Fault
from tests.faults.proxy import FaultProxy


async def barely(_seconds: float) -> None:
    await asyncio.sleep(0.01)


QUICK = Waiting(patience=Patience(attempts=9), sleep=barely)
KILLS = {Fault.CUT_BEFORE, Fault.CUT_AFTER}


def job(name: str) -> dict[str, object]:
    container = {"name": "main", "image": "none", "command": ["true"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"test": "proxy"}},
        "spec": {"suspend": True, "template": template},
    }


def only(fault: Fault, *, watches: bool = False) -> Fates:
    """Let the first request of each kind (or the first watch) meet `fault`, and the others none."""

    class First(Fates):
        def fate(self, ask: Ask, number: int) -> Fault:
            return fault if number == 1 and ask.is_watch == watches else Fault.NONE

    return First(seed=0)


@pytest_asyncio.fixture
async def proxy(batchjob_cluster: Cluster, tmp_path: Path) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(upstream=batchjob_cluster.reach, fates=only(Fault.NONE), folder=tmp_path) as made:
        made.silent_seconds = 0.2
        yield made


async def client_of(proxy: FaultProxy, name: str = "worker", **given: frozenset[str]) -> KubernetesClient:
    settings = ClusterSettings(kube_config_path=str(proxy.account(name, **given).kubeconfig))
    return await connect(settings, waiting=QUICK)


@pytest.mark.parametrize(
    "fault", [fault for fault in ONCE if fault not in KILLS], ids=lambda fault: fault.value
)
async def test_reads_and_creations_get_through_a_fault(proxy: FaultProxy, fault: Fault) -> None:
    proxy.fates = only(fault)
    name = f"through-{fault.name.lower().replace('_', '-')}"
    async with await client_of(proxy) as client:
        with suppress(ApiConflictError):  # acted, and the answer lost: the second attempt finds it there
            await client.create_job(job(name))
        found = await client.get_job("default", name)
        await client.delete_job("default", name, uid=found.metadata.uid)

    assert proxy.done[fault] == 3


@pytest.mark.parametrize("fault", STREAMS, ids=lambda fault: fault.value)
async def test_a_watch_ends_or_says_why_it_can_not_go_on(proxy: FaultProxy, fault: Fault) -> None:
    proxy.fates = only(fault, watches=True)
    name = f"watched-{fault.name.lower().replace('_', '-')}"
    async with await client_of(proxy) as client:
        page = await client.list_jobs("default", "test=proxy")
        await client.create_job(job(name))

        async def is_seen() -> bool:
            async for event in client.watch_jobs("default", "test=proxy", page.resource_version):
                if event.object.metadata.name == name:
                    return True
            return False

        raised: ApiError | None = None
        seen = False
        while not seen and not isinstance(raised, ExpiredError):
            try:
                seen = await asyncio.wait_for(is_seen(), 20)
            except ApiError as error:
                raised = error

    assert proxy.done[fault] == 1
    assert seen == (fault not in (Fault.GONE_ANSWER, Fault.GONE_EVENT))
    assert seen or isinstance(raised, ExpiredError)


async def test_a_request_that_is_forbidden_is_told_apart(proxy: FaultProxy) -> None:
    async with await client_of(proxy, forbidden=frozenset({"list pods"})) as client:
        with pytest.raises(ApiRefusedError) as told:
            await client.list_pods("default", "")
        await client.list_jobs("default", "test=proxy")

    assert told.value.code == 403


async def test_a_client_whose_account_was_closed_is_refused(proxy: FaultProxy) -> None:
    async with await client_of(proxy) as client:
        proxy.close_account(next(iter(proxy.accounts.values())))
        with pytest.raises(ApiRefusedError) as told:
            await client.list_jobs("default", "")

    assert told.value.code == 401


def test_a_seed_gives_one_schedule_whatever_the_order() -> None:
    asks = [Ask("GET", f"job {n}") for n in range(50)] + [Ask("GET", "jobs", is_watch=True)]

    def schedule(seed: int, order: list[Ask]) -> dict[Ask, list[Fault]]:
        fates = Fates(seed=seed)
        found: dict[Ask, list[Fault]] = {ask: [] for ask in asks}
        for _ in range(20):
            for ask in order:
                found[ask].append(fates.next(ask))
        return found

    want = schedule(7, asks)
    assert schedule(7, asks[::-1]) == want
    assert schedule(8, asks) != want
    assert {fault for faults in want.values() for fault in faults} >= set(ONCE)


def test_schedules_can_not_be_changed_by_accident() -> None:
    assert isinstance(ONCE, MappingProxyType)
    assert isinstance(STREAMS, MappingProxyType)
