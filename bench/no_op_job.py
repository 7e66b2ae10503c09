"""One Job of no-op pods on a cluster, whichever it is: how long it took, and how quickly reads were answered.

The Job is created over HTTPS and its end is seen on a watch. Meanwhile a reader asks as a person's
tools do: the Job 20 times a second, and every half second a page of 100 of its pods and the page
after it. It keeps its connection, so a read is one question and one answer, received whole.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPSConnection
from typing import Any
from urllib.parse import urlencode

from tests.contract.asking import Asker, indexed
from tests.contract.living import SUCCEEDS, conditions, runs

NAME = "no-op"
GETS_PER_SECOND = 20
GETS_PER_PAGES = 10
PODS_PER_PAGE = 100
PROGRESS_SECONDS = 5.0
_TICK_SECONDS = 0.2
_ANSWER_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Answered:
    """How long reads of one kind took, in milliseconds."""

    milliseconds: tuple[float, ...]

    @property
    def half(self) -> float:
        """The median; not a number where nothing was asked."""
        return statistics.median(self.milliseconds) if self.milliseconds else float("nan")

    @property
    def p99(self) -> float:
        """99 in 100 took no longer; of fewer than 100, the slowest."""
        ranked = sorted(self.milliseconds)
        return ranked[-1 - len(ranked) // 100] if ranked else float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """What one Job took."""

    pods: int
    seconds: float
    gets: Answered
    pages: Answered

    @property
    def pods_per_second(self) -> float:
        return self.pods / self.seconds


def run(
    api: Asker,
    pods: int,
    parallelism: int,
    *,
    limit_seconds: float,
    fields: Mapping[str, Any] | None = None,
    tick: Callable[[], None] = lambda: None,
) -> Took:
    """Run a Job to its end, in the namespace of `api`.

    Args:
        api: The cluster.
        pods: How many indexes.
        parallelism: Of the Job.
        limit_seconds: How long it may take.
        fields: Further ones of the pod's spec.
        tick: Called a few times a second meanwhile.

    Raises:
        TimeoutError: It took longer.
        RuntimeError: It ended otherwise than well, or the cluster told no more of it.
    """
    pod = runs(*SUCCEEDS, **{"terminationGracePeriodSeconds": 1, **(fields or {})})
    job = indexed(NAME, completions=pods, parallelism=parallelism, pod=pod)
    with _reading(api) as reader:
        began = time.perf_counter()
        created = api.have_job(job)
        follower = _Follower(api, created["metadata"]["resourceVersion"], limit_seconds)
        follower.start()
        said = began
        while not follower.ended.wait(_TICK_SECONDS):
            tick()
            now = time.perf_counter()
            if now > began + limit_seconds:
                raise TimeoutError(
                    f"{follower.succeeded()} of {pods} pods succeeded within {limit_seconds:.0f} s"
                )
            if now > said + PROGRESS_SECONDS:
                said = now
                print(f"  {follower.succeeded():6,} of {pods:,} after {now - began:.0f} s", flush=True)
        tick()
    follower.raise_unless_complete()
    return Took(
        pods=pods,
        seconds=follower.ended_at - began,
        gets=Answered(tuple(reader.gets)),
        pages=Answered(tuple(reader.pages)),
    )


class _Follower(threading.Thread):
    """Watches the Job until it has ended, and reads no more of what comes than that needs."""

    def __init__(self, api: Asker, version: str, seconds: float) -> None:
        super().__init__(daemon=True)
        self._api, self._version, self._seconds = api, version, seconds
        self._line = b""
        self._error = "the watch ended before the Job did"
        self.ended = threading.Event()
        self.ended_at = 0.0

    def run(self) -> None:
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={NAME}",
            "resourceVersion": self._version,
            "timeoutSeconds": str(int(self._seconds) + 1),
        }
        connection = self._api.connection(self._seconds)
        try:
            connection.request("GET", f"{self._api.jobs()}?{urlencode(query)}", headers=self._api.headers)
            for line in connection.getresponse():
                self._line = line
                if b'"type":"Complete"' in line or b'"type":"Failed"' in line:
                    break
        except OSError as error:
            self._error = f"the watch broke: {error}"
        finally:
            self.ended_at = time.perf_counter()
            connection.close()
            self.ended.set()

    def succeeded(self) -> int:
        """Return how many pods have succeeded, as far as was seen."""
        return (self._job().get("status") or {}).get("succeeded") or 0

    def raise_unless_complete(self) -> None:
        found = [kind for kind, _ in conditions(self._job())] if self._line else []
        if "Complete" not in found:
            raise RuntimeError(f"the Job failed: {self._job()}" if "Failed" in found else self._error)

    def _job(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._line)["object"] if self._line else {}
        return found


@dataclass(slots=True)
class _Reader:
    """Asks while the Job runs; milliseconds of each answer."""

    api: Asker
    stopping: threading.Event = field(default_factory=threading.Event)
    gets: list[float] = field(default_factory=list)
    pages: list[float] = field(default_factory=list)

    def read(self) -> None:
        connection = self.api.connection(_ANSWER_SECONDS)
        selector = {"labelSelector": f"batch.kubernetes.io/job-name={NAME}", "limit": str(PODS_PER_PAGE)}
        number, due = 0, time.perf_counter()
        try:
            self._ask(connection, self.api.jobs(), [])  # connects: paid once
            while not self.stopping.wait(max(0.0, due - time.perf_counter())):
                due = max(due, time.perf_counter() - 1) + 1 / GETS_PER_SECOND
                self._ask(connection, self.api.jobs(NAME), self.gets)
                number += 1
                if number % GETS_PER_PAGES == 0:
                    pods = f"{self.api.core('pods')}?{urlencode(selector)}"
                    token = _token(self._ask(connection, pods, self.pages))
                    if token:
                        self._ask(connection, f"{pods}&{urlencode({'continue': token})}", self.pages)
        finally:
            connection.close()

    def _ask(self, connection: HTTPSConnection, path: str, took: list[float]) -> bytes:
        asked = time.perf_counter()
        connection.request("GET", path, headers={**self.api.headers, "Accept": "application/json"})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status == 200:  # the Job itself is not there for the first moment
            took.append(1000 * (time.perf_counter() - asked))
        return body


def _token(page: bytes) -> str:
    # Not parsed whole: this process shares the processor with what it measures.
    before, found, rest = page.partition(b'"continue":"')
    return rest.partition(b'"')[0].decode() if found and len(before) < 1000 else ""


@contextmanager
def _reading(api: Asker) -> Iterator[_Reader]:
    reader = _Reader(api)
    thread = threading.Thread(target=reader.read, daemon=True)
    thread.start()
    try:
        yield reader
    finally:
        reader.stopping.set()
        thread.join(_ANSWER_SECONDS + 1)
