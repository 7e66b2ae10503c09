"""What a retry costs: containers started, and time, until all is done; ours and the provider's Job operator.

The same Job twice, on a local cluster: 200 indexes of which 6 fail once, each index with its chance. Then
what it takes to tell a Job of 10,000 indexes that every second one is done, and what a loss of 20 % of the
pods costs on spot machines, with and without a fallback.

    python bench/rerun.py [--indexes 200] [--failing 6] [--parallelism 20] [--many 10000]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from uuid import uuid4

ROOT = Path(__file__).parents[1]
NAMESPACE = "default"
LOSS_RATE, SEED = 0.2, 7

# Starts are counted in a file; an index of the first ones fails when it runs for the first time.
SCRIPT = """
echo $JOB_COMPLETION_INDEX >> $STATE/starts
sleep 0.2
if [ $JOB_COMPLETION_INDEX -lt $FAILING ] && rmdir $STATE/fails-$JOB_COMPLETION_INDEX; then exit 1; fi
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Of the Job that fails in part."""

    indexes: int
    failing: int
    parallelism: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What it took until all was done."""

    containers: int
    tries: int
    seconds: float


@contextmanager
def local_cluster() -> Iterator[Path]:
    """Start a local cluster; its kubeconfig."""
    from airflow_batchjob.local.daemon import Settings, start
    from airflow_batchjob.local.folder import ClusterFolder

    with tempfile.TemporaryDirectory() as folder:
        cluster = ClusterFolder(Path(folder) / "cluster")
        start(Settings(folder=str(cluster.path), machines=None))
        try:
            yield cluster.kubeconfig
        finally:
            cluster.stop()


class TaskInstance:
    """As much of a task instance as the operators ask for."""

    def __init__(self, number: int, run_id: str) -> None:
        self.dag_id, self.task_id, self.run_id, self.map_index = "bench", "work", run_id, -1
        self.id, self.try_number, self.max_tries = str(uuid4()), number, 1
        self.start_date = datetime.now(tz=timezone.utc)

    def xcom_push(self, key: str, value: Any) -> None:
        """Keep nothing."""


def to_the_end(task_of: Callable[[], Any], size: Size, state: Path) -> Cost:
    """Try until all is done, as Airflow would with its delay between tries left out."""
    began, run_id, said = time.perf_counter(), uuid4().hex, ""
    for number in (1, 2, 3):
        task, ti = task_of(), TaskInstance(number, run_id)
        context: Any = {
            "ti": ti,
            "task_instance": ti,
            "run_id": run_id,
            "params": {},
            "dag": task.dag,
            "task": task,
        }
        try:
            task.execute(context)
        except Exception as error:  # noqa: BLE001  a failed try, whatever the operator calls it
            said = f"{type(error).__name__}: {error}"
            continue
        containers = len((state / "starts").read_text().split())
        return Cost(containers=containers, tries=number, seconds=time.perf_counter() - began)
    raise RuntimeError(f"not done after three tries: {size}: {said}")


def prepared(folder: Path, size: Size) -> dict[str, str]:
    """Return the environment of the containers, with what is to fail made ready."""
    folder.mkdir()
    for index in range(size.failing):
        (folder / f"fails-{index}").mkdir()
    return {"STATE": str(folder), "FAILING": str(size.failing)}


def ours(kubeconfig: Path, size: Size, folder: Path) -> Cost:
    """Run it with our operator."""
    from airflow.sdk import DAG

    from airflow_batchjob import BatchJobOperator
    from airflow_batchjob.local.kubeconfig import airflow_connection

    os.environ["AIRFLOW_CONN_KUBERNETES_DEFAULT"] = airflow_connection(kubeconfig)
    env = prepared(folder, size)

    def task() -> BatchJobOperator:
        return BatchJobOperator(
            task_id="work",
            dag=DAG("bench", schedule=None),
            image="busybox:1.37",
            command=["sh", "-c", SCRIPT],
            env=env,
            completions=size.indexes,
            parallelism=size.parallelism,
            deferrable=False,
            retries=1,
            logs="none",
        )

    return to_the_end(task, size, folder)


def theirs(kubeconfig: Path, size: Size, folder: Path) -> Cost:
    """Run the same Job with the provider's operator."""
    from airflow.providers.cncf.kubernetes.operators.job import KubernetesJobOperator
    from airflow.sdk import DAG
    from kubernetes.client import models as k8s  # type: ignore[import-untyped]

    env = [k8s.V1EnvVar(name=name, value=value) for name, value in prepared(folder, size).items()]
    main = k8s.V1Container(name="main", image="busybox:1.37", command=["sh", "-c", SCRIPT], env=env)

    def task() -> KubernetesJobOperator:
        job = k8s.V1Job(
            metadata=k8s.V1ObjectMeta(name=f"theirs-{uuid4().hex[:8]}"),
            spec=k8s.V1JobSpec(
                completions=size.indexes,
                parallelism=size.parallelism,
                completion_mode="Indexed",
                backoff_limit_per_index=0,  # each index gets its chance, as ours does
                template=k8s.V1PodTemplateSpec(spec=k8s.V1PodSpec(containers=[main], restart_policy="Never")),
            ),
        )
        return KubernetesJobOperator(
            task_id="work",
            dag=DAG("bench", schedule=None),
            full_job_spec=job,
            namespace=NAMESPACE,
            config_file=str(kubeconfig),
            in_cluster=False,
            kubernetes_conn_id=None,
            completions=size.indexes,
            parallelism=size.parallelism,
            completion_mode="Indexed",
            wait_until_job_complete=True,
            job_poll_interval=1,
            get_logs=False,
            retries=1,
        )

    return to_the_end(task, size, folder)


@dataclass(slots=True)
class Traffic:
    """Bytes of requests' and answers' bodies."""

    sent: int = 0
    received: int = 0
    requests: int = 0

    def count(self) -> None:
        """Count what every client of this process says from now on."""
        from airflow_batchjob.client.transport import Transport

        send = Transport.send

        async def counted(transport: Any, call: Any) -> bytes:
            answer = await send(transport, call)
            self.requests += 1
            self.sent += len(json.dumps(call.body)) if call.body is not None else 0
            self.received += len(answer)
            return answer

        setattr(Transport, "send", counted)  # noqa: B010  mypy knows a method when it sees one


async def resume_many(kubeconfig: Path, completions: int) -> str:
    """Resume a Job of so many indexes, every second one done; say what that took."""
    from airflow_batchjob.client.config import ClusterSettings, connect
    from airflow_batchjob.core.event import Order
    from airflow_batchjob.core.identity.names import TaskIdentity
    from airflow_batchjob.core.indexes import IndexSet
    from airflow_batchjob.core.reading.status import read_status
    from airflow_batchjob.core.request.manifest import build
    from airflow_batchjob.core.request.spec import JobSpec
    from airflow_batchjob.supervisor.request import Request
    from airflow_batchjob.supervisor.stopping import stop
    from airflow_batchjob.supervisor.submit import submit

    nowhere = {"nodeSelector": {"nowhere": "at-all"}}
    spec = JobSpec(image="none", command=["true"], completions=completions, parallelism=2, pod=nowhere)
    built, log = build(spec, default_name="many"), logging.getLogger("bench")
    done = str(IndexSet.of(range(0, completions, 2)))

    def request(number: int) -> Request:
        return Request(
            manifest=built.manifest,
            thresholds=built.thresholds,
            identity=TaskIdentity("bench", "bench", "run", f"many-{completions}"),
            holder=f"ti/{number}",
            try_number=number,
            max_tries=2,
            logs="none",
        )

    async with await connect(ClusterSettings(kube_config_path=str(kubeconfig))) as client:
        first = await submit(client, request(1), log=log)
        assert isinstance(first, Order)  # noqa: S101  for the type
        told = [{"op": "add", "path": "/status/completedIndexes", "value": done}]
        await client.patch_job_status(first.job.namespace, first.job.name, told)
        await stop(client, first.job, holder="ti/1", reason="half of it is done")
        for _ in range(100):
            if read_status(await client.get_job(first.job.namespace, first.job.name)).phase.is_final:
                break
            await asyncio.sleep(0.1)
        traffic = Traffic()
        traffic.count()
        began = time.perf_counter()
        second = await submit(client, request(2), log=log)
        seconds = time.perf_counter() - began
        kept = IndexSet.parse(
            (await client.get_job(second.job.namespace, second.job.name)).status.completed_indexes
        )
        await stop(client, second.job, holder="ti/2", reason="measured")
    return (
        f"{completions:,} indexes, {kept.count:,} of them done: resumed in {seconds:.2f} s with "
        f"{traffic.requests} requests, {traffic.sent:,} bytes sent, {traffic.received:,} received "
        f"(the ranges themselves: {len(done):,})"
    )


def measured(size: Size, many: int) -> None:
    """Measure, and print."""
    with tempfile.TemporaryDirectory() as folder, local_cluster() as kubeconfig:
        for name, run in {"ours": ours, "the provider's Job operator": theirs}.items():
            cost = run(kubeconfig, size, Path(folder) / name.replace(" ", "-"))
            print(
                f"{size.indexes} indexes of which {size.failing} fail once, {name}: {cost.containers} "
                f"containers started in {cost.tries} tries, all done after {cost.seconds:.1f} s"
            )
        print(asyncio.run(resume_many(kubeconfig, many)))
    sys.path.insert(0, str(ROOT))
    from bench import spot_losses

    spot_losses.report(size.indexes, LOSS_RATE, SEED)


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--indexes", type=int, default=200)
    parser.add_argument("--failing", type=int, default=6)
    parser.add_argument("--parallelism", type=int, default=20)
    parser.add_argument("--many", type=int, default=10_000)
    args = parser.parse_args()
    os.environ.setdefault("AIRFLOW_HOME", str(ROOT / "build" / "airflow"))
    os.environ.setdefault("AIRFLOW__LOGGING__LOGGING_LEVEL", "ERROR")
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    measured(Size(indexes=args.indexes, failing=args.failing, parallelism=args.parallelism), args.many)


if __name__ == "__main__":
    main()
