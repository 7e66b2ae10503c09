"""Following logs: a scripted cluster, reconnects, the Job's end, and what must never be waited for."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

import pytest

from airflow_batchjob.core.errors import ApiRefusedError, ApiUnavailableError, NotFoundError
from airflow_batchjob.core.telling.log_choice import LogChoice
from airflow_batchjob.supervisor.logs import LogFollower, follower_for, last_line
from tests.unit.pods_made import container, exited, pod

EVERY = LogChoice(every=True)
T1, T2, T3 = (f"2026-03-01T12:00:0{second}Z".encode() for second in (1, 2, 3))
BLOCK = object()  # a stream that says nothing more, and does not end


class Logs:
    """A cluster that knows nothing but logs: for each pod and container, connections in order."""

    def __init__(self, connections: dict[tuple[str, str], list[Any]]) -> None:
        self.connections = connections
        self.asked: dict[tuple[str, str], list[str | None]] = defaultdict(list)

    async def follow_log(
        self, namespace: str, name: str, *, container: str, since_time: str | None = None
    ) -> AsyncIterator[bytes]:
        self.asked[name, container].append(since_time)
        script = self.connections.get((name, container), [])
        step = script.pop(0) if script else []
        await asyncio.sleep(0)
        if isinstance(step, Exception):
            raise step
        for line in step:
            if line is BLOCK:
                await asyncio.Event().wait()
            if isinstance(line, Exception):
                raise line
            yield line


async def no_sleep(_seconds: float) -> None:
    await asyncio.sleep(0)


def follower(cluster: Logs, choice: LogChoice = EVERY, **more: Any) -> LogFollower:
    log = logging.getLogger("test.logs")
    settings = {"sleep": no_sleep, "grace_seconds": 2.0} | more
    return LogFollower(cluster, choice, log, **settings)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.INFO, logger="test.logs")
    return lambda level=logging.INFO: [r.getMessage() for r in caplog.records if r.levelno == level]


async def until(happens: Any) -> None:
    for _ in range(1000):
        if happens():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never happened")


RUNNING = pod(3, "Running", container(running={}), name="p")
OVER = pod(3, "Succeeded", container(terminated=exited(0)), name="p")


async def test_lines_carry_index_and_container(said: Any) -> None:
    cluster = Logs({("p", "main"): [[T1 + b" one", T2 + b" two"]]})

    async with follower(cluster) as logs:
        logs.see([OVER])
        await logs.finish()

    assert said() == ["[3 main] one", "[3 main] two"]


async def test_a_pod_without_an_index_goes_by_its_name(said: Any) -> None:
    cluster = Logs({("p", "main"): [[T1 + b" one"]]})

    async with follower(cluster) as logs:
        await logs.finish([pod(None, "Succeeded", container(terminated=exited(0)), name="p")])

    assert said() == ["[p main] one"]


async def test_a_cut_connection_is_resumed_where_it_was(said: Any) -> None:
    same = [T1 + b" a", T1 + b" b", T1 + b" c"]
    cluster = Logs({("p", "main"): [[*same[:2], ApiUnavailableError("follow", message="reset")], same]})

    async with follower(cluster) as logs:
        logs.see([RUNNING])
        await until(lambda: len(said()) == 3)
        await logs.finish([OVER])

    assert said() == ["[3 main] a", "[3 main] b", "[3 main] c"]
    assert cluster.asked["p", "main"][:2] == [None, T1.decode()]


async def test_a_stream_that_ends_early_is_opened_again(said: Any) -> None:
    cluster = Logs({("p", "main"): [[T1 + b" a"], [], [T1 + b" a", T2 + b" b"]]})

    async with follower(cluster) as logs:
        logs.see([RUNNING])
        await until(lambda: len(said()) == 2)

    assert said() == ["[3 main] a", "[3 main] b"]


async def test_a_container_that_is_over_is_read_to_its_end_once(said: Any) -> None:
    cluster = Logs({("p", "main"): [[T1 + b" a"]]})

    async with follower(cluster) as logs:
        logs.see([OVER])
        await until(lambda: not logs._tasks)
        logs.see([OVER])
        await logs.finish([OVER])

    assert cluster.asked["p", "main"] == [None]


async def test_the_jobs_end_never_waits_longer_than_the_grace(said: Any) -> None:
    cluster = Logs({("p", "main"): [[T1 + b" a", T2 + b" b", T3 + b" c", BLOCK]]})

    async with follower(cluster, grace_seconds=0.05) as logs:
        logs.see([RUNNING])
        await until(lambda: len(said()) == 3)
        await asyncio.wait_for(logs.finish([OVER]), 5)

    assert said(logging.WARNING) == [
        "The Job has ended; 1 logs did not end within 0.05 s and may lack their last lines"
    ]


async def test_a_pause_between_connections_does_not_outlast_the_job(said: Any) -> None:
    async def for_ever(_seconds: float) -> None:
        await asyncio.Event().wait()

    cluster = Logs({("p", "main"): [[T1 + b" a"], [T1 + b" a", T2 + b" b"]]})

    async with follower(cluster, sleep=for_ever) as logs:
        logs.see([RUNNING])
        await until(lambda: said() == ["[3 main] a"])
        await asyncio.wait_for(logs.finish([OVER]), 5)

    assert said() == ["[3 main] a", "[3 main] b"]
    assert said(logging.WARNING) == []


async def test_leaving_ends_what_is_under_way(said: Any) -> None:
    cluster = Logs({("p", "main"): [[T1 + b" a", BLOCK]]})

    async with follower(cluster) as logs:
        logs.see([RUNNING])
        await until(said)

    assert len(asyncio.all_tasks()) == 1


async def test_a_missing_right_is_said_once_and_the_rest_goes_on(said: Any) -> None:
    refused = ApiRefusedError("follow the log", code=403, reason="Forbidden", message="no pods/log")
    pods = [pod(n, "Running", container(running={}), name=f"p{n}") for n in range(5)]
    cluster = Logs({(one.name, "main"): [refused, refused] for one in pods})

    async with follower(cluster) as logs:
        logs.see(pods)
        await until(lambda: not logs._tasks)
        logs.see([*pods, RUNNING])
        await logs.finish()

    assert len(said(logging.WARNING)) == 1
    assert "no pods/log" in said(logging.WARNING)[0]


async def test_a_container_that_is_about_to_start_is_tried_again(said: Any) -> None:
    soon = ApiRefusedError("follow", code=400, message="waiting to start: ContainerCreating")
    cluster = Logs({("p", "main"): [soon, [T1 + b" a"]]})

    async with follower(cluster) as logs:
        logs.see([RUNNING])
        await until(said)
        await logs.finish([OVER])

    assert said() == ["[3 main] a"]
    assert said(logging.WARNING) == []


async def test_a_pod_that_is_gone_is_let_go(said: Any) -> None:
    cluster = Logs({("p", "main"): [NotFoundError("follow", code=404)]})

    async with follower(cluster) as logs:
        logs.see([RUNNING])
        await until(lambda: not logs._tasks)

    assert said(logging.WARNING) == []


async def test_trouble_of_another_kind_is_said_and_costs_nothing_else(said: Any) -> None:
    cluster = Logs({("p", "main"): [RuntimeError("odd")], ("q", "main"): [[T1 + b" a"]]})

    async with follower(cluster) as logs:
        await logs.finish([OVER, pod(4, "Succeeded", container(terminated=exited(0)), name="q")])

    assert said() == ["[4 main] a"]
    assert "odd" in said(logging.WARNING)[0]


READABLE = {
    "containers that have begun": (
        pod(0, "Running", container("a", running={}), container("b", waiting={}), name="p"), None, {"a"},
    ),
    "those asked for": (
        pod(0, "Running", container("a", running={}), container("b", running={}), name="p"), ["b"], {"b"},
    ),
    "an init container that failed": (
        pod(
            0, "Failed", container("a", waiting={}), name="p",
            initContainerStatuses=[
                container("i", terminated=exited(1)), container("j", terminated=exited(0)),
            ],
        ),
        None,
        {"i"},
    ),
    "a container before its restart in place": (
        pod(0, "Running", container("a", waiting={"reason": "CrashLoopBackOff"}, last=exited(1)), name="p"),
        None,
        {"a"},
    ),
    "nothing yet": (pod(0, "Pending", name="p"), None, set()),
}  # fmt: skip


@pytest.mark.parametrize(("seen", "containers", "want"), READABLE.values(), ids=READABLE.keys())
async def test_what_is_read(seen: Any, containers: list[str] | None, want: set[str]) -> None:
    cluster = Logs({})

    async with follower(cluster, containers=containers) as logs:
        await logs.finish([seen])

    assert {name for _, name in cluster.asked} == want


async def test_only_the_chosen_indexes_are_followed() -> None:
    cluster = Logs({})
    pods = [pod(n, "Succeeded", container(terminated=exited(0)), name=f"p{n}") for n in range(20)]

    logs = follower_for(cluster, "0,17", 20, logging.getLogger("test.logs"))
    async with logs:
        await logs.finish(pods)

    assert {name for name, _ in cluster.asked} == {"p0", "p17"}


async def test_nothing_is_asked_where_nothing_is_followed() -> None:
    cluster = Logs({})

    async with follower(cluster, LogChoice()) as logs:
        await logs.finish([OVER])

    assert not cluster.asked


async def test_more_logs_than_at_once_all_come(said: Any) -> None:
    pods = [pod(n, "Succeeded", container(terminated=exited(0)), name=f"p{n}") for n in range(200)]
    cluster = Logs({(one.name, "main"): [[T1 + b" a"]] for one in pods})

    async with follower(cluster) as logs:
        await logs.finish(pods)

    assert len([line for line in said() if line.endswith("] a")]) == 200
    assert len([line for line in said() if "at once" in line]) == 1


def test_last_line() -> None:
    assert last_line(b"Traceback\nKeyError: 'id'\n") == "KeyError: 'id'"
    assert last_line(b"\xff") == "\N{REPLACEMENT CHARACTER}"
    assert last_line("") == ""
