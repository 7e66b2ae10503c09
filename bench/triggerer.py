"""What thousands of waiting Jobs cost a triggerer, beside the Kubernetes provider's own trigger.

Requests per minute, bytes per trigger, and how long after its Job's end a trigger fires. The Jobs are
held by a controller that does not exist, so that only the bench ends them. Each kind of trigger runs
in a process of its own, which counts what it sends: both send through aiohttp.

Run: ``python -m bench.triggerer [--cluster 1.34] [--jobs 5000] [--theirs 200] [--minutes 2]``
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import ssl
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import aiohttp

from airflow_batchjob.local.kubeconfig import airflow_connection
from airflow_batchjob.local.reach import Reach
from tests.cluster.opening import LOCAL, NAMES, opened

NAMESPACE = "default"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
ENDED_PER_SECOND = 20
_CREATED_AT_ONCE = 16
SETTLING_SECONDS = 20.0
_LONGEST_SECONDS = 900.0
_CONNECTION = "AIRFLOW_CONN_KUBERNETES_DEFAULT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was measured of one kind of trigger."""

    triggers: int
    requests_per_minute: float
    bytes_per_trigger: float
    p50_seconds: float
    p99_seconds: float
    processor_share: float  # of one core, while nothing happens

    def line(self, name: str) -> str:
        """Return the figures as one line."""
        return (
            f"{name:10} {self.triggers:5} triggers: {self.requests_per_minute:8.1f} requests/min, "
            f"{self.bytes_per_trigger / 1024:7.1f} KiB each, fires {self.p50_seconds:.3f} s (half) and "
            f"{self.p99_seconds:.3f} s (99 %) after the end, {100 * self.processor_share:.1f} % of a core"
        )


def resident_bytes() -> int:
    """Return what this process holds of memory."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def our_trigger(name: str, uid: str) -> Any:
    """Return the product's trigger of one Job."""
    from airflow_batchjob.core.event import Order
    from airflow_batchjob.core.reading.job import JobRef
    from airflow_batchjob.triggers.batchjob import BatchJobTrigger

    order = Order(
        job=JobRef(NAMESPACE, name, uid),
        identity=name,
        generation=0,
        holder="bench",
        completions=1,
        indexed=True,
        logs="none",
    )
    return BatchJobTrigger(kubernetes_conn_id="kubernetes_default", order=order.to_json_types())


def their_trigger(name: str, _uid: str) -> Any:
    """Return the provider's trigger of one Job, with its own defaults."""
    from airflow.providers.cncf.kubernetes.triggers.job import KubernetesJobTrigger

    return KubernetesJobTrigger(
        job_name=name,
        job_namespace=NAMESPACE,
        pod_names=[],
        pod_namespace=NAMESPACE,
        base_container_name="main",
        kubernetes_conn_id="kubernetes_default",
    )


KINDS: dict[str, Callable[[str, str], Any]] = {"ours": our_trigger, "provider's": their_trigger}


def triggerer(kind: str, jobs: list[tuple[str, str]], connection: str, told: Connection) -> None:
    """Run the triggers of `jobs` in this process; tell what they cost, and when each fires."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # logs are printed: both kinds' go the same way
    os.environ[_CONNECTION] = connection
    sent = count_requests()

    async def run() -> None:
        make = KINDS[kind]
        async for _ in _first_of(make("warm-up", "none")):  # imports, TLS: paid once, whatever the number
            pass
        before = resident_bytes()

        async def fires(name: str, uid: str) -> None:
            async for _ in make(name, uid).run():
                told.send(("fired", name, time.time()))

        tasks = [asyncio.ensure_future(fires(name, uid)) for name, uid in jobs]
        await asyncio.sleep(SETTLING_SECONDS + len(jobs) / 500)
        told.send(("settled", (resident_bytes() - before) / len(jobs), time.process_time(), len(sent)))
        while not told.poll():  # noqa: ASYNC110  the other side tells when the time is over
            await asyncio.sleep(0.2)
        told.recv()
        told.send(("counted", 0.0, time.process_time(), len(sent)))
        await asyncio.gather(*tasks)

    asyncio.run(run())


def count_requests() -> list[str]:
    """Have every request of this process counted in the list that is returned."""
    sent: list[str] = []
    request = aiohttp.ClientSession._request  # noqa: SLF001  no public place sees both kinds' requests

    async def counting(session: aiohttp.ClientSession, method: str, *rest: Any, **options: Any) -> Any:
        sent.append(method)
        return await request(session, method, *rest, **options)

    aiohttp.ClientSession._request = counting  # noqa: SLF001
    return sent


async def _first_of(trigger: Any) -> Any:
    """Run a trigger of a Job that is not there to its end, which may be an error."""
    try:
        async for event in trigger.run():
            yield event
    except Exception:  # noqa: BLE001  the provider's lets a missing Job escape
        return


class Bench:
    """A cluster, and Jobs on it that only the bench ends."""

    def __init__(self, kubeconfig: Path, session: aiohttp.ClientSession) -> None:
        self._kubeconfig = kubeconfig
        self._session = session

    async def make(self, prefix: str, count: int) -> list[tuple[str, str]]:
        """Create Jobs that nobody runs; return their names and uids."""
        at_once = asyncio.Semaphore(_CREATED_AT_ONCE)

        async def one(name: str) -> tuple[str, str]:
            async with at_once:
                async with self._session.post(JOBS, json=a_job(name)) as answer:
                    answer.raise_for_status()
                    uid = (await answer.json())["metadata"]["uid"]
                await self._tell(name, {"active": 1, "ready": 1, "startTime": now()})
            return name, uid

        return list(await asyncio.gather(*(one(f"{prefix}-{number}") for number in range(count))))

    async def end(self, name: str) -> None:
        """Let a Job end well."""
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": now()}
            for kind in ("SuccessCriteriaMet", "Complete")
        ]
        status = {
            "active": 0,
            "ready": 0,
            "completionTime": now(),
            "succeeded": 1,
            "completedIndexes": "0",
            "conditions": conditions,
        }
        await self._tell(name, status)

    async def _tell(self, name: str, status: dict[str, Any]) -> None:
        merge = {"Content-Type": "application/merge-patch+json"}
        path = f"{JOBS}/{name}/status"
        async with self._session.patch(path, data=json.dumps({"status": status}), headers=merge) as answer:
            answer.raise_for_status()

    async def measure(self, kind: str, count: int, seconds: float) -> Figures:
        """Let `count` triggers of one kind wait, then end their Jobs one after the other."""
        jobs = await self.make(f"{'ours' if kind == 'ours' else 'theirs'}-{count}", count)
        print(f"{kind}: {count} Jobs are there; their triggers start", flush=True)
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        arguments = (kind, jobs, airflow_connection(self._kubeconfig), there)
        process = context.Process(target=triggerer, args=arguments, daemon=True)
        process.start()
        try:
            _, each_bytes, cpu_before, sent_before = await _told(here)
            print(f"{kind}: all wait; counting for {seconds:.0f} s", flush=True)
            await asyncio.sleep(seconds)
            here.send("the time is over")
            _, _, cpu_after, sent_after = await _told(here)
            print(f"{kind}: the Jobs end, {ENDED_PER_SECOND} a second", flush=True)
            delays = await self._end_all(jobs, here)
        finally:
            process.kill()
            process.join()
        return Figures(
            triggers=count,
            requests_per_minute=(sent_after - sent_before) * 60 / seconds,
            bytes_per_trigger=each_bytes,
            p50_seconds=statistics.median(delays),
            p99_seconds=sorted(delays)[int(len(delays) * 0.99) - 1],
            processor_share=(cpu_after - cpu_before) / seconds,
        )

    async def _end_all(self, jobs: list[tuple[str, str]], told: Connection) -> list[float]:
        ended: dict[str, float] = {}
        fired: dict[str, float] = {}

        async def end() -> None:
            loop = asyncio.get_running_loop()
            began = loop.time()
            for number, (name, _) in enumerate(jobs):
                ended[name] = time.time()
                await self.end(name)
                await asyncio.sleep(max(0.0, began + (number + 1) / ENDED_PER_SECOND - loop.time()))

        ending = asyncio.ensure_future(end())
        while len(fired) < len(jobs):
            _, name, when = await _told(told)
            fired[name] = when
        await ending
        return [fired[name] - ended[name] for name in ended]


async def _told(connection: Connection) -> tuple[Any, ...]:
    """Return what the other process tells next."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    if not connection.poll():
        loop.add_reader(connection.fileno(), ready.set)
        try:
            await asyncio.wait_for(ready.wait(), _LONGEST_SECONDS)
        finally:
            loop.remove_reader(connection.fileno())
    found: tuple[Any, ...] = connection.recv()
    return found


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def a_job(name: str) -> dict[str, Any]:
    """Return a Job of ours that no controller runs."""
    labels = {"app.kubernetes.io/managed-by": "airflow-batchjob", "airflow-batchjob/identity": name}
    container = {"name": "main", "image": "none", "command": ["true"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels, "annotations": {"airflow-batchjob/holder": "bench"}},
        "spec": {
            "managedBy": "bench.example.com/none",
            "completionMode": "Indexed",
            "completions": 1,
            "parallelism": 1,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


@asynccontextmanager
async def asking(reach: Reach) -> AsyncIterator[aiohttp.ClientSession]:
    trusted = ssl.create_default_context(cadata=reach.authority)
    async with aiohttp.ClientSession(
        reach.url,
        connector=aiohttp.TCPConnector(ssl=trusted),
        headers={"Authorization": f"Bearer {reach.token}"},
        timeout=aiohttp.ClientTimeout(total=60),
    ) as session:
        yield session


async def main(kubeconfig: Path, ours: int, theirs: int, minutes: float) -> None:
    """Measure both and print the figures, then the ratios."""
    found: dict[str, Figures] = {}
    async with asking(Reach.by_kubeconfig(kubeconfig)) as session:
        bench = Bench(kubeconfig, session)
        for kind, count in (("ours", ours), ("provider's", theirs)):
            if count:
                found[kind] = await bench.measure(kind, count, 60 * minutes)
                print(found[kind].line(kind), flush=True)
    if len(found) < len(KINDS):
        return
    mine, other = found.values()
    each = other.requests_per_minute / other.triggers
    asked = f"{each:.1f} times a minute and ours not once in that time"
    if mine.requests_per_minute:
        asked = f"{each * mine.triggers / mine.requests_per_minute:.0f} times as often"
    if other.triggers != mine.triggers:
        print(
            f"The provider's polls: {mine.triggers} of its triggers would not fit this machine's processor."
        )
    print(
        f"per trigger, the provider's asks {asked}, holds "
        f"{other.bytes_per_trigger / mine.bytes_per_trigger:.1f} times the memory, and fires "
        f"{other.p99_seconds / mine.p99_seconds:.0f} times as late (99 %)"
    )
    print(json.dumps({kind: one.requests_per_minute for kind, one in found.items()}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", choices=NAMES, default=LOCAL, help="what to measure on")
    parser.add_argument("--jobs", type=int, default=5000, help="that our triggers wait for")
    parser.add_argument("--theirs", type=int, default=200, help="that the provider's wait for; 0: none")
    parser.add_argument("--minutes", type=float, default=2.0, help="of counting requests")
    given = parser.parse_args()
    with opened(given.cluster) as kubeconfig:
        asyncio.run(main(kubeconfig, given.jobs, given.theirs, given.minutes))
