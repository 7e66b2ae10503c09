"""The ends of failed indexes' logs, read after the Job has ended and before the task fails.

Failed indexes only, the newest attempt of each, within limits; what they leave out is said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from airflow_batchjob.client.protocol import JobClient
from airflow_batchjob.core.errors import ApiError, ApiRefusedError, NotFoundError
from airflow_batchjob.core.indexes import IndexSet
from airflow_batchjob.core.reading.causes import cause_of, newest_failed_pods
from airflow_batchjob.core.reading.endings import first_failure
from airflow_batchjob.core.reading.pods import Pod, index_of
from airflow_batchjob.core.telling.log_choice import LogChoice
from airflow_batchjob.core.telling.log_lines import shown
from airflow_batchjob.core.wording import counted
from airflow_batchjob.supervisor.logs import last_line, prefix_of

_AT_ONCE = 8
_CUT_TRIES = 3  # of a log whose last lines alone are longer than what may be read


@dataclass(frozen=True, slots=True, kw_only=True)
class TailLimits:
    """How much is read and shown."""

    pods: int = 20
    lines_each: int = 50
    lines: int = 500
    bytes_each: int = 65_536
    bytes: int = 262_144
    seconds: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tails:
    """Lines for the task's log, and each pod's last line, for the failure text."""

    lines: tuple[str, ...] = ()
    last_lines: Mapping[str, str] = field(default_factory=dict)  # by name of the pod


@dataclass(frozen=True, slots=True)
class _Tail:
    pod: Pod
    container: str
    lines: tuple[str, ...] = ()
    trouble: ApiError | None = None


async def gather_tails(
    client: JobClient,
    pods: Sequence[Pod],
    failed: IndexSet | None,
    choice: LogChoice,
    *,
    containers: Collection[str] | None = None,
    limits: TailLimits | None = None,
) -> Tails:
    """Read the ends of the logs of failed indexes. Never raises an `ApiError`: the lines say what is missing.

    Args:
        client: The cluster.
        pods: All pods of the Job that are still there.
        failed: The failed indexes; None on a Job that is not indexed.
        choice: Whose logs are shown. Of what was followed live only the last line is read, for the
            failure text; with `tails` off nothing is shown.
        containers: Names of the containers whose logs are shown; None: all.
        limits: How much; None: the defaults.
    """
    limits = limits or TailLimits()
    speaking = newest_failed_pods(failed, pods)
    read = speaking[: limits.pods]
    tails = await _read_all(client, read, containers, limits)
    to_show = [pod for pod in read if choice.tails and not choice.follows(index_of(pod))]
    lines = list(_blocks(to_show, tails, limits))
    if choice.tails:
        lines += _left_out(failed, speaking, read)
    return Tails(lines=tuple(lines), last_lines=_last_lines(tails))


async def _read_all(
    client: JobClient, pods: Sequence[Pod], containers: Collection[str] | None, limits: TailLimits
) -> list[_Tail]:
    slots = asyncio.Semaphore(_AT_ONCE)

    async def read(pod: Pod, container: str) -> _Tail:
        async with slots:
            return await _read(client, pod, container, limits)

    wanted = [(pod, name) for pod in pods for name in _containers(pod, containers)]
    tasks = [asyncio.ensure_future(read(pod, name)) for pod, name in wanted]
    if not tasks:
        return []
    try:
        await asyncio.wait(tasks, timeout=limits.seconds)
    finally:
        late = [task for task in tasks if not task.done()]
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
    return [
        _Tail(pod, name, trouble=ApiError("read a log", message="it did not come in time"))
        if task.cancelled()
        else task.result()
        for (pod, name), task in zip(wanted, tasks, strict=True)
    ]


def _containers(pod: Pod, chosen: Collection[str] | None) -> list[str]:
    """Return the containers to read: the one that failed first comes last, next to the exception."""
    failure = first_failure(pod)
    names = [one.name for one in pod.spec.containers] or [one.name for one in pod.status.container_statuses]
    if failure is not None:
        # After a failed init container the others never ran.
        names = (
            [failure.name] if failure.is_init else [n for n in names if n != failure.name] + [failure.name]
        )
    return [name for name in names if chosen is None or name in chosen]


async def _read(client: JobClient, pod: Pod, container: str, limits: TailLimits) -> _Tail:
    tail_lines, raw = limits.lines_each, b""
    try:
        for _ in range(_CUT_TRIES):
            raw = await client.pod_log(
                pod.metadata.namespace,
                pod.name,
                container=container,
                tail_lines=tail_lines,
                limit_bytes=limits.bytes_each,
            )
            # The server cuts at the end, where the reason stands; fewer lines fit whole.
            if len(raw) < limits.bytes_each or tail_lines == 1:
                break
            tail_lines = max(1, tail_lines // 10)
    except ApiError as trouble:
        return _Tail(pod, container, trouble=trouble)
    text = raw.decode("utf-8", "replace")
    return _Tail(
        pod, container, tuple(shown(line) for line in text.removesuffix("\n").split("\n")) if text else ()
    )


def _blocks(pods: Sequence[Pod], tails: Sequence[_Tail], limits: TailLimits) -> Iterator[str]:
    """Yield each pod's lines in a group that log views fold; every pod gets its share of the limits."""
    if not pods:
        return
    shares = len(pods)
    forbidden = next((tail.trouble for tail in tails if _is_forbidden(tail.trouble)), None)
    if forbidden is not None:
        yield f"Logs cannot be read: {forbidden}"
        return
    for pod in pods:
        cause = cause_of(pod)
        index = index_of(pod)
        where = f" on {pod.spec.node_name}" if pod.spec.node_name else ""
        what = f"index {index} ({pod.name}{where})" if index is not None else f"{pod.name}{where}"
        yield f"::group::Log of {what}: {cause.words}"
        for tail in tails:
            if tail.pod is pod:
                yield from _block(tail, limits.lines // shares, limits.bytes // shares)
        yield "::endgroup::"


def _block(tail: _Tail, most_lines: int, most_bytes: int) -> Iterator[str]:
    prefix = prefix_of(tail.pod, tail.container)
    if tail.trouble is not None:
        gone = isinstance(tail.trouble, NotFoundError)
        yield (
            f"{prefix} (its log is gone)" if gone else f"{prefix} (its log could not be read: {tail.trouble})"
        )
        return
    if not tail.lines:
        yield f"{prefix} (it wrote nothing)"
        return
    kept = _newest_within(tail.lines, max(1, most_lines), most_bytes)
    if len(kept) < len(tail.lines):
        yield f"{prefix} (… {len(tail.lines) - len(kept)} lines left out)"
    yield from (f"{prefix} {line}" for line in kept)


def _newest_within(lines: Sequence[str], most_lines: int, most_bytes: int) -> list[str]:
    kept: list[str] = []
    left = most_bytes
    for line in reversed(lines[-most_lines:]):
        cost = len(line.encode("utf-8", "replace")) + 1
        if cost > left:
            if not kept:
                kept.append(f"{line[: max(0, most_bytes // 4)]}…")
            break
        kept.append(line)
        left -= cost
    return kept[::-1]


def _left_out(failed: IndexSet | None, speaking: Sequence[Pod], read: Sequence[Pod]) -> Iterator[str]:
    if failed is None:
        if more := len(speaking) - len(read):
            yield f"The logs of {more:,} more failed pods are left out here."
        return
    there = IndexSet.of(index for pod in speaking if (index := index_of(pod)) is not None)
    shown_here = IndexSet.of(index for pod in read if (index := index_of(pod)) is not None)
    if more_indexes := there - shown_here:
        count = f"{more_indexes.count:,} more failed indexes"
        yield f"The logs of {count} are left out here: {_cut(more_indexes)}."
    if gone := failed - there:
        count = counted(gone.count, "failed index", "failed indexes")
        yield f"The pods of {count} are gone, and their logs: {_cut(gone)}."


def _cut(indexes: IndexSet) -> str:
    text, left_out = indexes.cut(200)
    return f"{text},…" if left_out else text


def _is_forbidden(trouble: ApiError | None) -> bool:
    return isinstance(trouble, ApiRefusedError) and trouble.code in {401, 403}


def _last_lines(tails: Sequence[_Tail]) -> dict[str, str]:
    """Return the last line of the container that failed, by pod: another's would accuse the wrong one."""
    found = {}
    for tail in tails:
        failure = first_failure(tail.pod)
        if failure is not None and failure.name == tail.container:
            found[tail.pod.name] = last_line("\n".join(tail.lines))
    return {name: line for name, line in found.items() if line}
