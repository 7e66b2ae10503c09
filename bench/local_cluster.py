"""How many no-op pods a second the local cluster takes through their whole life.

Run: ``python bench/local_cluster.py [--pods 2000] [--parallelism 64] [--memory 64Mi]``
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

from airflow_batchjob.local.cluster import LocalCluster
from airflow_batchjob.local.nodes.machines import Machine


def a_job(pods: int, parallelism: int, memory: str | None) -> dict[str, Any]:
    """Return an Indexed Job with its defaults filled in, as the API would store it."""
    container: dict[str, Any] = {"name": "main", "image": "none", "command": ["true"], "resources": {}}
    if memory:
        container["resources"] = {"limits": {"memory": memory, "cpu": "10m"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "bench", "namespace": "default"},
        "spec": {
            "completionMode": "Indexed",
            "completions": pods,
            "parallelism": parallelism,
            "backoffLimit": 6,
            "podReplacementPolicy": "TerminatingOrFailed",
            "template": {
                "metadata": {"labels": {"job-name": "bench"}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [container],
                    "terminationGracePeriodSeconds": 1,
                },
            },
        },
        "status": {},
    }


def bare_starts_per_second(count: int = 500) -> float:
    """Return how many no-op commands a second this machine starts and reaps with nothing around them."""
    began = time.perf_counter()
    for _ in range(count):
        os.posix_spawn("/bin/true", ["true"], {})
    for _ in range(count):
        os.wait()
    return count / (time.perf_counter() - began)


async def run(pods: int, parallelism: int, memory: str | None) -> None:
    """Run one Job and print what it took."""
    machine = Machine(name="big", cpu="1000", memory="1000Gi", pods=10_000)
    ended = asyncio.get_running_loop().create_future()

    def heard(change: Any) -> None:
        if change.kind == "jobs" and not ended.done():
            for condition in change.object["status"].get("conditions") or ():
                if condition["type"] in ("Complete", "Failed"):
                    ended.set_result(condition["type"])

    with tempfile.TemporaryDirectory() as folder:
        async with LocalCluster(Path(folder), machines=[machine]) as cluster:
            store = cluster.store
            store.subscribe(heard)
            before, began, cpu = store.version, time.perf_counter(), time.process_time()
            store.create("jobs", a_job(pods, parallelism, memory))
            how = await asyncio.wait_for(ended, 600)
            seconds = time.perf_counter() - began
            used = time.process_time() - cpu
    versions = (store.version - before) / pods
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    launcher = children.ru_utime + children.ru_stime
    memory_mebibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{how}: {pods} pods at parallelism {parallelism} in {seconds:.1f} s: {pods / seconds:.0f} pods/s, "
        f"{1000 * used / pods:.2f} ms of the server's processor time and {versions:.1f} changes per pod, "
        f"{memory_mebibytes:.0f} MiB; launcher and commands {1000 * launcher / pods:.2f} ms per pod"
    )


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--parallelism", type=int, default=64)
    parser.add_argument(
        "--memory", default=None, help="limit of each container, e.g. 64Mi: turns sampling on"
    )
    arguments = parser.parse_args()
    print(f"bare starts: {bare_starts_per_second():.0f}/s")
    asyncio.run(run(arguments.pods, arguments.parallelism, arguments.memory))


if __name__ == "__main__":
    main()
