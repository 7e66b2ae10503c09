"""Logs of running pods, followed at the side: nothing ever waits for them but a short grace at the end.

A `LogFollower` is told of pods by `see` and reads each container's log in a task of its own, over
any number of connections, each line once. What a log can't give is said, not hidden.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from typing_extensions import Self

from airflow_batchjob.client.protocol import JobClient
from airflow_batchjob.core.errors import ApiError, ApiRefusedError, NotFoundError
from airflow_batchjob.core.reading.causes import last_words
from airflow_batchjob.core.reading.pods import ContainerStatus, Pod, index_of
from airflow_batchjob.core.telling.log_choice import LogChoice, read_log_choice
from airflow_batchjob.core.telling.log_lines import FreshLines, shown

MOST_AT_ONCE = 64
GRACE_SECONDS = 10.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 30.0

_Key = tuple[str, str]  # pod uid, container


@dataclass(frozen=True, slots=True)
class _Followed:
    """One container whose log is read."""

    pod: Pod
    container: str

    @property
    def key(self) -> _Key:
        return self.pod.metadata.uid, self.container

    @property
    def prefix(self) -> str:
        return prefix_of(self.pod, self.container)


def prefix_of(pod: Pod, container: str) -> str:
    """Return what stands before each line: "[17 main]"; the pod's name where there is no index."""
    index = index_of(pod)
    return f"[{pod.name if index is None else index} {container}]"


def last_line(text: str | bytes) -> str:
    """Return the last line of a log that says something, cut; "" if none does."""
    return last_words(text.decode("utf-8", "replace") if isinstance(text, bytes) else text)


class LogFollower:
    """Follows the logs that were chosen. An async context manager: leaving it ends what is under way.

    Args:
        client: The cluster.
        choice: Whose logs.
        log: Gets the lines, at INFO, and one warning where logs may not be read.
        containers: Names of the containers whose logs are shown; None: all.
        grace_seconds: How long `finish` waits for the last lines.
        sleep: Waits between connections; tests bring their own.
    """

    def __init__(
        self,
        client: JobClient,
        choice: LogChoice,
        log: logging.Logger,
        *,
        containers: Collection[str] | None = None,
        grace_seconds: float = GRACE_SECONDS,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._client, self._choice, self._log, self._sleep = client, choice, log, sleep
        self._containers = None if containers is None else frozenset(containers)
        self._grace_seconds = grace_seconds
        self._pods: dict[_Key, Pod] = {}  # the newest state of what is being followed
        self._tasks: dict[_Key, asyncio.Task[None]] = {}
        self._begun: set[_Key] = set()
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)
        self._ending = asyncio.Event()
        self._is_forbidden = False
        self._said_crowded = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def see(self, pods: Sequence[Pod]) -> None:
        """Take the newest state of all pods; begin with logs that have begun. Call it inside the loop."""
        if not self._choice.follows_any or self._is_forbidden:
            return
        for pod in pods:
            if self._choice.follows(index_of(pod)):
                for container in self._readable(pod):
                    self._take(pod, container)

    async def finish(self, pods: Sequence[Pod] = ()) -> None:
        """Let the last lines come, for the grace at most, and stop.

        Args:
            pods: A last look, if there was one: pods that came and went since the one before.
        """
        self.see(pods)
        self._ending.set()
        if self._tasks:
            _, late = await asyncio.wait(set(self._tasks.values()), timeout=self._grace_seconds)
            if late:
                self._log.warning(
                    "The Job has ended; %d logs did not end within %g s and may lack their last lines",
                    len(late), self._grace_seconds,
                )  # fmt: skip
        await self.close()

    async def close(self) -> None:
        """Stop at once."""
        self._ending.set()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _readable(self, pod: Pod) -> Iterator[str]:
        """Yield the containers that have something to read; init containers only if they failed."""
        for status in pod.status.init_container_statuses:
            ended = status.state.terminated or status.last_state.terminated
            if ended is not None and ended.exit_code != 0 and self._is_chosen(status.name):
                yield status.name
        for status in pod.status.container_statuses:
            if _has_begun(status) and self._is_chosen(status.name):
                yield status.name

    def _is_chosen(self, container: str) -> bool:
        return self._containers is None or container in self._containers

    def _take(self, pod: Pod, container: str) -> None:
        one = _Followed(pod, container)
        if one.key in self._tasks or one.key not in self._begun:
            self._pods[one.key] = pod
        if one.key not in self._begun:
            self._begun.add(one.key)
            self._tasks[one.key] = task = asyncio.ensure_future(self._guarded(one))
            task.add_done_callback(lambda _task: self._forget(one.key))

    def _forget(self, key: _Key) -> None:
        self._tasks.pop(key, None)
        self._pods.pop(key, None)

    async def _guarded(self, one: _Followed) -> None:
        if self._slots.locked() and not self._said_crowded:
            self._said_crowded = True
            self._log.info("%d logs are followed at once; the others follow as these end", MOST_AT_ONCE)
        async with self._slots:
            try:
                await self._follow(one)
            except Exception as error:  # noqa: BLE001  a log is never worth a Job
                self._log.warning("%s its log is not followed any further: %s", one.prefix, error)

    async def _follow(self, one: _Followed) -> None:
        lines, pause = FreshLines(), _FIRST_PAUSE_SECONDS
        while not self._is_forbidden:
            # Asked before reading: what is over now has all its lines in what is read next.
            is_over = self._is_over(one)
            lines.reconnected()
            heard = False
            try:
                heard = await self._read(one, lines)
            except NotFoundError:
                return
            except ApiRefusedError as refused:
                if not self._is_passing(refused):
                    return
            except ApiError as trouble:
                is_over = False
                self._log.debug("%s reading the log again: %s", one.prefix, trouble)
            if is_over:
                return
            pause = _FIRST_PAUSE_SECONDS if heard else min(pause * 2, _LONGEST_PAUSE_SECONDS)
            await self._pause(pause)

    async def _pause(self, seconds: float) -> None:
        """Wait, but not beyond the moment the Job's end becomes known: the last lines are due then."""
        if self._ending.is_set():
            await self._sleep(seconds)
            return
        waits = {asyncio.ensure_future(self._sleep(seconds)), asyncio.ensure_future(self._ending.wait())}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _read(self, one: _Followed, lines: FreshLines) -> bool:
        """Read one connection to its end; tell whether it brought anything new."""
        heard = False
        metadata = one.pod.metadata
        stream: Any = self._client.follow_log(
            metadata.namespace, metadata.name, container=one.container, since_time=lines.since_time
        )
        async with aclosing(stream):
            async for raw in stream:
                text = lines.fresh(raw.decode("utf-8", "replace"))
                if text is not None:
                    heard = True
                    self._log.info("%s %s", one.prefix, shown(text))
        return heard

    def _is_over(self, one: _Followed) -> bool:
        if self._ending.is_set():
            return True
        pod = self._pods[one.key]
        if pod.is_over:
            return True
        statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
        ended = any(s.name == one.container and s.state.terminated is not None for s in statuses)
        return ended and pod.spec.restart_policy == "Never"

    def _is_passing(self, refused: ApiRefusedError) -> bool:
        """Tell a container that is about to start from a right that is missing, which is said once."""
        if refused.code == 400:
            return not self._ending.is_set()
        if not self._is_forbidden:
            self._is_forbidden = True
            self._log.warning("Logs cannot be followed; the Job goes on without: %s", refused)
        return False


def follower_for(
    client: JobClient,
    logs: str,
    completions: int | None,
    log: logging.Logger,
    *,
    containers: Collection[str] | None = None,
) -> LogFollower:
    """Return a follower for the parameters `logs` and `log_containers`, e.g. of an `Order`."""
    return LogFollower(client, read_log_choice(logs, completions), log, containers=containers)


def _has_begun(status: ContainerStatus) -> bool:
    state = status.state
    return bool(state.running or state.terminated or status.last_state.terminated)
