"""How many no-op pods a second the local cluster takes through their whole life, and what each costs.

A Job goes over HTTPS to a cluster started as `batchjob local start` does it; its pods are real
processes. In the same run: how many processes this machine starts and reaps with nothing around them
and, where asked, the same Job on a real node and on fake nodes. All in one table.

Run: ``python -m bench.local_cluster [--pods 1000 10000] [--real 1.34]``
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from airflow_batchjob.local.daemon import Settings, start
from airflow_batchjob.local.folder import ClusterFolder
from bench.no_op_job import PODS_PER_PAGE, Took, run
from tests.cluster.build import VERSIONS
from tests.cluster.cluster import running
from tests.contract.asking import Asker

MACHINE = {"name": "big", "cpu": 1000, "memory": "1000Gi", "pods": 10_000}
FAKES = 100
ON_FAKES = {"nodeSelector": {"type": "kwok"}, "tolerations": [{"key": "kwok", "operator": "Exists"}]}
BARE_SECONDS = 2.0
LEAST_PODS_PER_SECOND = 200
MOST_MEGABYTES = 200
MOST_MILLISECONDS = 20
_SLOWEST_PODS_PER_SECOND = 2.0  # of a kubelet; what is slower has stuck
_LEAVING_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the processes of a local cluster took."""

    server_seconds: float
    launcher_seconds: float
    commands_seconds: float
    peak_bytes: int


class Meter:
    """Looks at the server and its launcher while a Job runs."""

    def __init__(self, pid: int) -> None:
        self._server = psutil.Process(pid)
        (self._launcher,) = self._server.children()
        self._peak_bytes = 0
        self._before = self._now()

    def look(self) -> None:
        """Take note of the server's memory."""
        self._peak_bytes = max(self._peak_bytes, self._server.memory_info().rss)

    def cost(self) -> Cost:
        """Return what was used since the beginning."""
        server, launcher, commands = (
            now - before for now, before in zip(self._now(), self._before, strict=True)
        )
        return Cost(
            server_seconds=server,
            launcher_seconds=launcher,
            commands_seconds=commands,
            peak_bytes=self._peak_bytes,
        )

    def _now(self) -> tuple[float, float, float]:
        server, launcher = self._server.cpu_times(), self._launcher.cpu_times()
        commands = launcher.children_user + launcher.children_system
        return server.user + server.system, launcher.user + launcher.system, commands


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table."""

    cluster: str
    took: Took
    cost: Cost | None = None


def starts_per_second(starters: int) -> float:
    """Return how many no-op commands a second this machine starts and reaps, by so many starters at once."""
    context = multiprocessing.get_context("fork")
    counts = context.SimpleQueue()
    processes = [
        context.Process(target=_start_and_reap, args=(counts,), daemon=True) for _ in range(starters)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(10 * BARE_SECONDS)
    return sum(counts.get() for _ in processes) / BARE_SECONDS


def _start_and_reap(counts: multiprocessing.SimpleQueue[int]) -> None:
    end, count = time.perf_counter() + BARE_SECONDS, 0
    while time.perf_counter() < end:
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
        count += 1
    counts.put(count)


def on_local(pods: int, parallelism: int) -> Row:
    """Run a Job on a local cluster of its own."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        machines = Path(folder) / "machines.yaml"
        machines.write_text(json.dumps({"machines": [MACHINE]}))
        cluster = ClusterFolder(Path(folder) / "cluster")
        server = start(Settings(folder=str(cluster.path), machines=str(machines), ends_with=os.getpid()))
        try:
            meter = Meter(server.pid)
            api = Asker.by_kubeconfig(cluster.kubeconfig, is_local=True)
            took = run(api, pods, parallelism, limit_seconds=_limit_seconds(pods), tick=meter.look)
            return Row(cluster="local", took=took, cost=meter.cost())
        finally:
            cluster.stop()


@contextmanager
def _real(asked: argparse.Namespace) -> Iterator[tuple[str, Asker, bool]]:
    """Give the real cluster: its name, how to ask it, and whether it has fake nodes."""
    with ExitStack() as stack:
        if asked.kubeconfig:
            api = Asker.by_kubeconfig(asked.kubeconfig, is_local=False)
            nodes = api.ask("GET", "/api/v1/nodes", labelSelector="type=kwok").body["items"]
            yield "given", api, bool(nodes)
        else:
            print(f"starting Kubernetes {asked.real} …", flush=True)
            cluster = stack.enter_context(running(asked.real))
            if asked.fake_pods:
                cluster.fake_nodes(FAKES)
            api = Asker.by_kubeconfig(cluster.kubeconfig, is_local=False)
            yield asked.real, api, bool(asked.fake_pods)


def on_real(asked: argparse.Namespace) -> Iterator[Row]:
    """Run the Job on a real node, then on fake nodes where there are some."""
    with _real(asked) as (name, api, has_fakes):
        counts = {"node": asked.real_pods, "fakes": asked.fake_pods if has_fakes else 0}
        if asked.fake_pods and not has_fakes:
            print("no node has the label type=kwok: nothing is run on fake nodes")
        for where, pods in counts.items():
            if not pods:
                continue
            print(f"{name}, {where}: {pods:,} pods", flush=True)
            fields = ON_FAKES if where == "fakes" else {}
            with api.in_a_new_namespace() as its:
                took = run(its, pods, asked.parallelism, limit_seconds=_limit_seconds(pods), fields=fields)
            yield Row(cluster=f"{name} {where}", took=took)
            # What is being deleted would slow the next.
            gone = f"/api/v1/namespaces/{its.namespace}"
            api.eventually(lambda path=gone: api.ask("GET", path).code == 404, seconds=_LEAVING_SECONDS)


def _limit_seconds(pods: int) -> float:
    return 60 + pods / _SLOWEST_PODS_PER_SECOND


def table(rows: list[Row], bare: float) -> str:
    """Return the figures; ratios are to the local cluster at its largest."""
    local = max((row for row in rows if row.cost), key=lambda row: row.took.pods).took.pods_per_second
    head = (
        f"{'cluster':12} {'pods':>7} {'pods/s':>7} {'ratio':>6}  {'ms of processor per pod':^25}  {'peak':>6}"
        f"  {'GET Job, ms':^13}  {f'{PODS_PER_PAGE} pods, ms':^13}\n"
        f"{'':12} {'':7} {'':7} {'':6}  {'server':>7} {'launcher':>8} {'commands':>8}  {'MB':>6}"
        f"  {'half':>6} {'99 %':>6}  {'half':>6} {'99 %':>6}"
    )
    lines = [f"{'bare starts':12} {'':7} {bare:7.0f} {bare / local:6.2f}"]
    for row in rows:
        took, each = row.took, [" " * width for width in (7, 8, 8, 6)]
        if row.cost:
            seconds = (row.cost.server_seconds, row.cost.launcher_seconds, row.cost.commands_seconds)
            each = [
                f"{1000 * one / took.pods:{width}.2f}" for one, width in zip(seconds, (7, 8, 8), strict=True)
            ]
            each.append(f"{row.cost.peak_bytes / 1e6:6.0f}")
        reads = "  ".join(f"{one.half:6.1f} {one.p99:6.1f}" for one in (took.gets, took.pages))
        lines.append(
            f"{row.cluster:12} {took.pods:7,} {took.pods_per_second:7.1f} {took.pods_per_second / local:6.2f}"
            f"  {each[0]} {each[1]} {each[2]}  {each[3]}  {reads}"
        )
    return "\n".join([head, *lines])


def verdicts(rows: list[Row]) -> Iterator[str]:
    """Tell which goals the local cluster meets."""
    ours = sorted(((row.took, row.cost) for row in rows if row.cost), key=lambda one: one[0].pods)
    slowest = min(took.pods_per_second for took, _ in ours)
    yield _verdict(slowest >= LEAST_PODS_PER_SECOND, f"{LEAST_PODS_PER_SECOND} pods/s", f"{slowest:.0f}")
    peak = max(cost.peak_bytes for _, cost in ours) / 1e6
    most = f"{ours[-1][0].pods:,} pods below {MOST_MEGABYTES} MB"
    yield _verdict(peak < MOST_MEGABYTES, most, f"{peak:.0f} MB")
    for name, p99 in (
        ("GET of the Job", max(took.gets.p99 for took, _ in ours)),
        (f"a page of {PODS_PER_PAGE} pods", max(took.pages.p99 for took, _ in ours)),
    ):
        yield _verdict(
            p99 <= MOST_MILLISECONDS, f"{name} within {MOST_MILLISECONDS} ms (99 %)", f"{p99:.1f} ms"
        )
    (few, first), (many, last) = ours[0], ours[-1]
    growth = (last.server_seconds / many.pods) / (first.server_seconds / few.pods)
    yield f"the server's cost per pod at {many.pods:,} pods is {growth:.2f} times that at {few.pods:,}"


def _verdict(is_met: bool, goal: str, found: str) -> str:  # noqa: FBT001
    return f"{'met' if is_met else 'MISSED':6} {goal}: {found}"


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--pods", type=int, nargs="+", default=[1000, 2000, 5000, 10_000], help="sizes of the Job"
    )
    parser.add_argument("--parallelism", type=int, default=64)
    parser.add_argument("--real", choices=sorted(VERSIONS), help="start real Kubernetes, too (root, Linux)")
    parser.add_argument("--kubeconfig", type=Path, help="use a real cluster that runs already, too")
    parser.add_argument("--real-pods", type=int, default=200, help="on the real node; 0: none")
    parser.add_argument("--fake-pods", type=int, default=2000, help=f"on {FAKES} fake nodes; 0: none")
    asked = parser.parse_args()
    cores = os.cpu_count() or 1
    bare = starts_per_second(cores)
    print(f"bare starts: {bare:.0f}/s by {cores} starters at once, {starts_per_second(1):.0f}/s by one")
    rows = []
    for pods in sorted(asked.pods):
        print(f"local: {pods:,} pods", flush=True)
        rows.append(on_local(pods, asked.parallelism))
    try:
        if asked.real or asked.kubeconfig:
            rows += on_real(asked)
    finally:  # what was measured until then is told all the same
        print(table(rows, bare), *verdicts(rows), sep="\n")


if __name__ == "__main__":
    main()
