"""The ends of failed indexes' logs, within limits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from airflow_batchjob.core.errors import ApiError, ApiRefusedError, NotFoundError
from airflow_batchjob.core.indexes import IndexSet
from airflow_batchjob.core.reading.pods import Pod, index_of
from airflow_batchjob.core.telling.log_choice import LogChoice
from airflow_batchjob.supervisor.tails import TailLimits, Tails, gather_tails
from tests.unit.pods_made import container, exited, pod

TAILS = LogChoice()


class Cluster:
    """Gives logs by pod and container, as the API cuts them; remembers what was asked for."""

    def __init__(self, logs: dict[tuple[str, str], Any] | None = None, every: Any = b"") -> None:
        self.logs, self.every = logs or {}, every
        self.asked: list[tuple[str, str, int]] = []

    async def pod_log(
        self, namespace: str, name: str, *, container: str, tail_lines: int, limit_bytes: int
    ) -> bytes:
        self.asked.append((name, container, tail_lines))
        log = self.logs.get((name, container), self.every)
        if log is None:
            await asyncio.Event().wait()
        if isinstance(log, Exception):
            raise log
        tail: bytes = b"".join(log.splitlines(keepends=True)[-tail_lines:])
        return tail[:limit_bytes]


def failed(index: int | None, *names: str, **more: Any) -> Pod:
    statuses = [container(name, terminated=exited(1)) for name in names or ("main",)]
    return pod(index, "Failed", *statuses, **({"name": f"p{index}"} | more))


async def gathered(cluster: Cluster, pods: list[Pod], choice: LogChoice = TAILS, **more: Any) -> Tails:
    """Gather for `failed`; without it, for the index of every pod."""
    indexes = IndexSet.of(index for one in pods if (index := index_of(one)) is not None)
    failed = more.pop("failed", indexes)
    return await gather_tails(cluster, pods, failed, choice, **more)


async def test_a_group_for_each_failed_index() -> None:
    cluster = Cluster({("p3", "main"): b"one\ntwo\n", ("p7", "main"): b"three\n"})

    got = await gathered(cluster, [failed(7), failed(3)])

    assert got.lines == (
        "::group::Log of index 3 (p3 on node-1): exit 1 in main",
        "[3 main] one",
        "[3 main] two",
        "::endgroup::",
        "::group::Log of index 7 (p7 on node-1): exit 1 in main",
        "[7 main] three",
        "::endgroup::",
    )
    assert got.last_lines == {"p3": "two", "p7": "three"}


async def test_only_failed_indexes_and_their_newest_attempt() -> None:
    pods = [
        failed(3, name="old"),
        failed(3, name="new", created="2026-03-01T13:00:00Z"),
        failed(4, name="replaced"),
        pod(4, "Succeeded", container(terminated=exited(0)), name="done"),
    ]
    cluster = Cluster(every=b"x\n")

    await gathered(cluster, pods, failed=IndexSet.of([3]))

    assert {name for name, _, _ in cluster.asked} == {"new"}


async def test_what_is_left_out_is_said() -> None:
    pods = [failed(index) for index in range(30)]

    got = await gathered(
        Cluster(every=b"x\n"), pods, failed=IndexSet.of(range(40)), limits=TailLimits(pods=20)
    )

    assert sum(line.startswith("::group::") for line in got.lines) == 20
    assert got.lines[-2:] == (
        "The logs of 10 more failed indexes are left out here: 20-29.",
        "The pods of 10 failed indexes are gone, and their logs: 30-39.",
    )


async def test_a_long_log_shows_its_end_and_says_so() -> None:
    log = b"".join(b"line %d\n" % number for number in range(50))

    got = await gathered(Cluster(every=log), [failed(0)], limits=TailLimits(lines=3))

    assert got.lines[1:-1] == (
        "[0 main] (… 47 lines left out)", "[0 main] line 47", "[0 main] line 48", "[0 main] line 49",
    )  # fmt: skip


async def test_all_lines_and_bytes_stay_within_limits() -> None:
    pods = [failed(index) for index in range(20)]
    limits = TailLimits(lines=100, bytes=10_000)

    got = await gathered(Cluster(every=b"x" * 400 + b"\n" + b"y\n" * 200), pods, limits=limits)

    lines = [line for line in got.lines if line.startswith("[")]
    assert len(lines) <= 100 + 20
    assert sum(map(len, lines)) <= 10_000 + 20 * 60


async def test_one_endless_line_is_cut_but_shown() -> None:
    got = await gathered(Cluster(every=b"x" * 1_000_000), [failed(0)])

    assert "xxx" in got.lines[1]
    assert sum(map(len, got.lines)) < 300_000


async def test_the_end_is_read_though_the_server_cuts_it_off() -> None:
    log = b"".join(b"%d " % number + b"x" * 5000 + b"\n" for number in range(49)) + b"KeyError: 'id'\n"
    cluster = Cluster(every=log)

    got = await gathered(cluster, [failed(0)])

    assert got.last_lines == {"p0": "KeyError: 'id'"}
    assert [lines for _, _, lines in cluster.asked] == [50, 5]


async def test_the_container_that_failed_comes_last_and_is_the_one_quoted() -> None:
    seen = pod(
        0, "Failed",
        container("main", terminated=exited(1, at="2026-03-01T12:00:01Z")),
        container("side", terminated=exited(143, at="2026-03-01T12:00:09Z")),
        name="p0",
    )  # fmt: skip
    cluster = Cluster({("p0", "main"): b"boom\n", ("p0", "side"): b"bye\n"})

    got = await gathered(cluster, [seen])

    assert got.lines[1:-1] == ("[0 side] bye", "[0 main] boom")
    assert got.last_lines == {"p0": "boom"}


async def test_another_containers_words_are_never_quoted() -> None:
    cluster = Cluster({("p0", "side"): b"all is well\n"})
    seen = pod(0, "Failed", container(terminated=exited(1)), container("side", running={}), name="p0")

    got = await gathered(cluster, [seen])

    assert got.last_lines == {}


async def test_of_a_failed_init_container_only_its_log_is_read() -> None:
    seen = pod(
        0, "Failed", container(waiting={}), name="p0",
        initContainerStatuses=[container("fetch", terminated=exited(2))],
    )  # fmt: skip
    cluster = Cluster(every=b"no route\n")

    got = await gathered(cluster, [seen])

    assert [name for _, name, _ in cluster.asked] == ["fetch"]
    assert got.lines[1] == "[0 fetch] no route"


async def test_containers_that_were_not_asked_for_are_not_read() -> None:
    cluster = Cluster(every=b"x\n")

    await gathered(cluster, [failed(0, "main", "side")], containers=["side"])

    assert [name for _, name, _ in cluster.asked] == ["side"]


TROUBLE: dict[str, tuple[ApiError, str]] = {
    "its pod is gone": (NotFoundError("read", code=404), "[0 main] (its log is gone)"),
    "its node does not answer": (
        ApiError("read it", code=500, message="dial tcp"),
        "could not be read: read it",
    ),
    "it never started": (
        ApiRefusedError("read it", code=400, message="waiting to start"),
        "waiting to start",
    ),
}


@pytest.mark.parametrize(("trouble", "says"), TROUBLE.values(), ids=TROUBLE.keys())
async def test_a_log_that_cannot_be_read_is_said(trouble: ApiError, says: str) -> None:
    got = await gathered(Cluster({("p0", "main"): trouble}, every=b"x\n"), [failed(0), failed(1)])

    assert says in got.lines[1]
    assert "[1 main] x" in got.lines


async def test_a_missing_right_is_said_once() -> None:
    refused = ApiRefusedError("read the log", code=403, reason="Forbidden", message="no pods/log")

    got = await gathered(Cluster(every=refused), [failed(0), failed(1)])

    assert len(got.lines) == 1
    assert got.lines[0].startswith("Logs cannot be read: read the log")


async def test_a_log_that_never_comes_is_not_waited_for() -> None:
    cluster = Cluster({("p0", "main"): None}, every=b"x\n")

    got = await asyncio.wait_for(
        gathered(cluster, [failed(0), failed(1)], limits=TailLimits(seconds=0.05)), 5
    )

    assert "did not come in time" in got.lines[1]
    assert "[1 main] x" in got.lines


async def test_an_empty_log_is_said() -> None:
    got = await gathered(Cluster(), [failed(0)])

    assert got.lines[1] == "[0 main] (it wrote nothing)"


async def test_what_was_followed_live_is_not_shown_again_but_quoted() -> None:
    got = await gathered(Cluster(every=b"boom\n"), [failed(0)], LogChoice(every=True))

    assert got.lines == ()
    assert got.last_lines == {"p0": "boom"}


async def test_none_shows_nothing() -> None:
    got = await gathered(
        Cluster(every=b"boom\n"), [failed(0)], LogChoice(tails=False), failed=IndexSet.of(range(9))
    )

    assert got.lines == ()


async def test_a_job_without_indexes_shows_its_failed_pods() -> None:
    pods = [failed(None, name=f"p{n}") for n in range(3)]

    got = await gathered(Cluster(every=b"x\n"), pods, failed=None, limits=TailLimits(pods=2))

    assert got.lines[0] == "::group::Log of p0 on node-1: exit 1 in main"
    assert got.lines[-1] == "The logs of 1 more failed pods are left out here."


async def test_nothing_failed_asks_for_nothing() -> None:
    cluster = Cluster()

    got = await gathered(cluster, [])

    assert (got.lines, cluster.asked) == ((), [])
