"""Beside one Job: its losses, told as they come, counted, and written onto it now and then.

Idle, and without any request, for a Job that has no plan for its capacity.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

import msgspec

from airflow_batchjob.client.protocol import JobClient
from airflow_batchjob.core.capacity.losses import CUT_OFF_SECONDS, Loss, Losses, is_suspect, loss_of
from airflow_batchjob.core.capacity.marks import LOSSES, LossMark, read_capacity
from airflow_batchjob.core.errors import ApiError, NotFoundError
from airflow_batchjob.core.event import Order, Verdict
from airflow_batchjob.core.indexes import IndexSet
from airflow_batchjob.core.reading.causes import cause_of
from airflow_batchjob.core.reading.endings import Confidence, Node
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.pods import Pod
from airflow_batchjob.supervisor.loss_count import LossCount
from airflow_batchjob.supervisor.pace import Pace
from airflow_batchjob.supervisor.patches import Operation, annotate, if_held
from airflow_batchjob.supervisor.pod_watch import PodWatch, join

WRITE_SECONDS = 10.0
"""So long a loss may stay unwritten: Kubernetes' own counts make up for what a crash loses of ours."""

_LONGEST_LIST_BYTES = 120


class Losing:
    """Counts one Job's losses for one supervisor; to be closed."""

    def __init__(
        self,
        client: JobClient,
        order: Order,
        log: logging.Logger,
        pace: Pace,
        clock: Callable[[], float],
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._client, self._order, self._log, self._pace = client, order, log, pace
        self._clock, self._wake = clock, wake
        self._watch: PodWatch | None = None
        self._count: LossCount | None = None
        self._may_read = True
        self._may_read_nodes = True
        self._suspects: list[Pod] = []
        self._news: list[tuple[Loss, str]] = []
        self._written: LossMark | None = None
        self._write_due = float("inf")  # on the loop's clock
        self._leaving: dict[str, Pod] = {}

    async def close(self) -> None:
        """Stop listening."""
        if self._watch is not None:
            await self._watch.remove(self._order.job.uid, self)
            self._watch = None

    @property
    def mark(self) -> LossMark | None:
        """What was counted so far; None where nothing is counted."""
        return self._count.mark if self._count is not None else None

    def due_in_seconds(self) -> float:
        """Return how long nothing need be done."""
        due = [max(0.0, self._write_due - asyncio.get_running_loop().time())]
        ends = [pod.metadata.deletion_timestamp for pod in self._leaving.values()]
        due += [end.timestamp() + CUT_OFF_SECONDS + 1 - self._clock() for end in ends if end is not None]
        return max(0.0, min(due))

    async def look(self, job: Job) -> Losses | None:
        """Take note of `job`; tell what was lost, write what is due, and return what counts."""
        marks = read_capacity(job)
        if marks.plan is None:
            return None
        if self._count is None:
            self._count = LossCount.of(marks.losses, self._order.holder, marks.plan.signs)
            self._written = self._count.mark
        self._count.start(job)
        if self._watch is None and self._may_read:
            self._watch = join(self._client, job.ref, self._pace, self)
        for pod in tuple(self._leaving.values()):  # time alone may make one of them a loss
            self.see(pod)
        suspects, self._suspects = self._suspects, []
        for pod in suspects:
            self._take(pod, self._count.see(pod, self._clock(), node=await self._node_of(pod)))
        self._tell()
        if asyncio.get_running_loop().time() >= self._write_due:
            await self.write()
        return self._count.snapshot() if self._may_read else None

    def see(self, pod: Pod, *, gone: bool = False) -> None:
        """Take a pod as it is now."""
        if self._count is None:
            return
        if not self._count.has_seen_any:
            self._wake()  # what had to wait until they were seen need not wait longer
        found = loss_of(pod, now=self._clock(), signs=self._count.signs)
        if found is not None and is_suspect(found) and pod.metadata.uid not in self._count.told:
            self._suspects.append(pod)
            self._wake()
            return
        loss = self._count.see(pod, self._clock(), gone=gone)
        if pod.is_leaving and not gone and pod.metadata.uid not in self._count.told:
            self._leaving[pod.metadata.uid] = pod
        else:
            self._leaving.pop(pod.metadata.uid, None)
        self._take(pod, loss)

    def refused(self, error: ApiError) -> None:
        """Go without: what can be told from the Job alone is not."""
        self._may_read = False
        self._log.warning(
            "Pods can't be read, so losses are not counted and never lead to on-demand machines: %s", error
        )

    def operations(self) -> list[Operation]:
        """Return the change that writes what was counted onto the Job, if it is not there yet."""
        mark = self.mark
        if mark is None or mark == self._written:
            return []
        return [annotate(LOSSES, mark.to_text())]

    async def write(self) -> None:
        """Write what was counted onto the Job; what fails is tried again later."""
        self._write_due = float("inf")
        operations = self.operations()
        if not operations:
            return
        ref, mark = self._order.job, self.mark
        try:
            await self._client.patch_job(
                ref.namespace, ref.name, [*if_held(ref.uid, self._order.holder), *operations]
            )
        except ApiError as error:
            self._log.debug("The losses could not be written onto %s: %s", ref, error)
            if error.retryable:
                self._write_due = asyncio.get_running_loop().time() + WRITE_SECONDS
        else:
            self._written = mark

    async def finish(self, verdict: Verdict) -> Verdict:
        """Write the last losses, and return the verdict with them."""
        mark = self.mark
        if mark is None or verdict.job.uid != self._order.job.uid:
            return verdict
        self._tell()
        await self.write()
        return msgspec.structs.replace(verdict, losses=mark.total, lost_seconds=mark.lost_seconds)

    def _take(self, pod: Pod, loss: Loss | None) -> None:
        if loss is not None:
            self._news.append((loss, cause_of(pod).words))
            self._write_due = min(self._write_due, asyncio.get_running_loop().time() + WRITE_SECONDS)
            self._wake()

    async def _node_of(self, pod: Pod) -> Node | None:
        """Return the node of a pod that nothing explains; None where it can't be read."""
        if not self._may_read_nodes:
            return None
        try:
            return (await self._client.get_node(pod.spec.node_name)).seen()
        except NotFoundError:
            return Node(is_missing=True)
        except ApiError as error:
            self._may_read_nodes = error.retryable
            self._log.debug("Nodes can't be read, so they tell nothing of their pods' ends: %s", error)
            return None

    def _tell(self) -> None:
        """Say what was lost: one line for what a node took with it."""
        news, self._news = self._news, []
        groups: dict[tuple[str, str, bool, bool], list[int]] = {}
        for loss, words in news:
            unseen = not loss.pod
            spent = not loss.is_marked
            key = (
                loss.node,
                "lost while nobody looked" if unseen else words,
                spent,
                loss.confidence is Confidence.LOW,
            )
            groups.setdefault(key, []).append(loss.index)
        total = self._count.snapshot().total if self._count is not None else 0
        for (node, words, spent, low), indexes in groups.items():
            where = f" on {node}" if node else ""
            sure = "suspected loss" if low else "lost"
            cost = "; Kubernetes counts it as a failure, since nothing marks the pod" if spent else ""
            self._log.warning(
                "%s%s: %s (%s)%s. %s lost in this try so far",
                sure.capitalize(),
                where,
                _listed(indexes),
                words,
                cost,
                f"{total:,}",
            )


def _listed(indexes: Iterable[int]) -> str:
    found = IndexSet.of(indexes)
    text, left_out = found.cut(_LONGEST_LIST_BYTES)
    what = "index" if found.count == 1 else f"{found.count:,} indexes"
    return f"{what} {text}{',…' if left_out else ''}"
