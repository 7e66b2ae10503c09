"""One watch of pods for all who count losses: what is forbidden for a moment ends nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from airflow_batchjob.client.protocol import EventType, Page, WatchEvent
from airflow_batchjob.core.errors import ApiError
from airflow_batchjob.core.reading.job import JobRef
from airflow_batchjob.core.reading.pods import Pod
from airflow_batchjob.supervisor.pace import DEFAULT_PACE
from airflow_batchjob.supervisor.pod_watch import PodWatch, join
from tests.unit.supervisor.small_cluster import SmallCluster, pod_of, refused
from tests.unit.supervisor.virtual import virtual_time

REF = JobRef(namespace="batch", name="embed", uid="uid-1")


class Pods(SmallCluster):
    """One pod; a watch of it says nothing, and ends after a minute."""

    async def list_pods(self, namespace: str, label_selector: str) -> Page[Pod]:
        await self._ask("list_pods")
        return Page((msgspec.convert(pod_of(REF, 0, "Running"), Pod),), "1")

    async def watch_pods(
        self, namespace: str, label_selector: str, resource_version: str
    ) -> AsyncIterator[WatchEvent[Pod]]:
        await self._ask("watch_pods")
        await asyncio.sleep(60)
        yield WatchEvent(EventType.BOOKMARK, msgspec.convert(pod_of(REF, 0), Pod))


class Listening:
    """Counts what it hears."""

    def __init__(self) -> None:
        self.seen = 0
        self.refusals: list[ApiError] = []

    def see(self, pod: Pod, *, gone: bool = False) -> None:
        self.seen += 1

    def refused(self, error: ApiError) -> None:
        self.refusals.append(error)


def listening(cluster: Any) -> tuple[PodWatch, Listening]:
    one = Listening()
    return join(cluster, REF, DEFAULT_PACE, one), one


@virtual_time
async def test_who_was_let_in_is_not_turned_away_by_a_refusal_that_passes() -> None:
    cluster = Pods()
    watch, one = listening(cluster)
    await asyncio.sleep(60)
    cluster.fail = {"watch_pods": [refused(401)], "list_pods": [refused(403)] * 3}

    await asyncio.sleep(600)

    assert one.refusals == []
    assert one.seen >= 3
    await watch.remove(REF.uid, one)


@virtual_time
async def test_a_refusal_that_lasts_is_told_once() -> None:
    cluster = Pods()
    watch, one = listening(cluster)
    await asyncio.sleep(60)
    cluster.always_fail = {"watch_pods": refused(401), "list_pods": refused(403)}

    await asyncio.sleep(1_000)

    assert len(one.refusals) == 1
    await watch.remove(REF.uid, one)


@virtual_time
async def test_who_never_was_let_in_is_told_at_once() -> None:
    cluster = Pods()
    cluster.always_fail = {"list_pods": refused(403)}
    watch, one = listening(cluster)

    await asyncio.sleep(1)

    assert len(one.refusals) == 1
    await watch.remove(REF.uid, one)


@virtual_time
async def test_watching_is_tried_again_after_it_was_forbidden() -> None:
    cluster = Pods()
    cluster.fail = {"watch_pods": [refused(403)]}
    watch, one = listening(cluster)
    await asyncio.sleep(590)
    assert cluster.count("watch_pods") == 1

    await asyncio.sleep(300)

    assert cluster.count("watch_pods") > 1
    await watch.remove(REF.uid, one)
