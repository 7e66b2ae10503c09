"""One watch for many supervisors: how often it asks, and that nobody misses an end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import pytest

from airflow_batchjob.core.errors import ApiRefusedError
from airflow_batchjob.core.identity.marks import MANAGED_BY, OURS
from airflow_batchjob.core.reading.job import JobRef
from airflow_batchjob.supervisor.watch import Seen, subscribe
from tests.unit.supervisor.small_cluster import SmallCluster, down, refused
from tests.unit.supervisor.virtual import virtual_time

LOG = logging.getLogger("test")


def job_in(cluster: SmallCluster, name: str = "embed") -> JobRef:
    labels = {MANAGED_BY: OURS}
    return cluster.put({"metadata": {"name": name, "labels": labels, "annotations": {}}}).ref


async def ends(cluster: SmallCluster, ref: JobRef) -> Seen:
    """Follow a Job to its end, as a supervisor does."""
    async with subscribe(cluster, ref) as view:
        while True:
            seen = await view.next(100_000)
            over = seen is not None and seen.job is not None and seen.job.status.conditions
            if seen is not None and (seen.gone or over):
                return seen


def begun(work: Coroutine[Any, Any, Seen]) -> asyncio.Task[Seen]:
    return asyncio.ensure_future(work)


@virtual_time
async def test_a_thousand_supervisors_cost_one_list_and_one_watch() -> None:
    cluster = SmallCluster()
    refs = [job_in(cluster, f"embed-{n}") for n in range(1_000)]
    watching = [begun(ends(cluster, ref)) for ref in refs]
    await asyncio.sleep(60)
    assert (cluster.count("list_jobs"), cluster.count("watch_jobs"), cluster.count("get_job")) == (1, 1, 0)

    for ref in refs:
        cluster.end(ref.name)

    assert all(not seen.gone for seen in await asyncio.gather(*watching))


@virtual_time
async def test_late_joiners_share_a_read() -> None:
    cluster = SmallCluster()
    refs = [job_in(cluster, f"embed-{n}") for n in range(101)]
    watching = [begun(ends(cluster, refs[0]))]
    await asyncio.sleep(60)
    watching += [begun(ends(cluster, ref)) for ref in refs[1:]]
    await asyncio.sleep(60)
    assert (cluster.count("list_jobs"), cluster.count("watch_jobs")) == (2, 1)

    for ref in refs:
        cluster.end(ref.name)

    await asyncio.gather(*watching)


@virtual_time
async def test_a_single_late_joiner_reads_its_job_alone() -> None:
    cluster = SmallCluster()
    first, second = job_in(cluster, "one"), job_in(cluster, "two")
    cluster.end("two")
    watching = begun(ends(cluster, first))
    await asyncio.sleep(60)

    seen = await ends(cluster, second)

    assert not seen.gone
    assert (cluster.count("list_jobs"), cluster.count("get_job")) == (1, 1)
    cluster.end("one")
    await watching


@virtual_time
async def test_an_expired_version_is_listed_again() -> None:
    cluster = SmallCluster()
    ref = job_in(cluster)
    watching = begun(ends(cluster, ref))
    await asyncio.sleep(10)
    cluster.fail["watching"] = [down()]
    cluster.update("embed", active=1)
    await asyncio.sleep(0.1)
    cluster.update("embed", active=2)

    cluster.end("embed")
    cluster.forget_changes()

    assert not (await asyncio.wait_for(watching, 60)).gone
    assert cluster.count("list_jobs") == 2


@virtual_time
async def test_a_deletion_brings_the_last_state() -> None:
    cluster = SmallCluster()
    watching = begun(ends(cluster, job_in(cluster)))
    await asyncio.sleep(10)

    cluster.update("embed", succeeded=3)
    cluster.remove("embed")

    seen = await watching
    assert seen.gone
    assert seen.job is not None
    assert seen.job.status.succeeded == 3


@virtual_time
async def test_a_watch_that_is_silent_is_not_trusted_for_ever() -> None:
    cluster = SmallCluster()
    ref = job_in(cluster)
    watching = begun(ends(cluster, ref))
    await asyncio.sleep(10)
    cluster.mute = True
    cluster.end("embed")

    seen = await asyncio.wait_for(watching, 400)

    assert not seen.gone


@virtual_time
async def test_watches_that_end_at_once_are_not_begun_in_a_rush() -> None:
    cluster = SmallCluster()
    watching = begun(ends(cluster, job_in(cluster)))
    for _ in range(100):
        await asyncio.sleep(0.02)
        cluster.end_watches()
    await asyncio.sleep(1)

    assert cluster.count("watch_jobs") < 10
    cluster.end("embed")
    await watching


@virtual_time
async def test_where_watching_is_forbidden_one_list_per_interval_serves_all() -> None:
    cluster = SmallCluster()
    cluster.always_fail = {"watch_jobs": refused(403)}
    refs = [job_in(cluster, f"embed-{n}") for n in range(50)]
    watching = [begun(ends(cluster, ref)) for ref in refs]
    await asyncio.sleep(600)
    assert cluster.count("list_jobs") == pytest.approx(40, abs=15)
    assert cluster.count("watch_jobs") == 1

    for ref in refs:
        cluster.end(ref.name)

    await asyncio.wait_for(asyncio.gather(*watching), 30)


@virtual_time
async def test_an_outage_is_met_with_growing_pauses_and_told() -> None:
    cluster = SmallCluster()
    ref = job_in(cluster)
    cluster.always_fail = {"list_jobs": down()}
    async with subscribe(cluster, ref) as view:
        await asyncio.sleep(600)
        in_between = view.trouble
        assert in_between is not None
        assert cluster.count("list_jobs") < 40

        cluster.always_fail = {}
        await asyncio.sleep(60)
        assert view.trouble is None
        seen = await view.next(0)
        assert seen is not None
        assert seen.job is not None


@virtual_time
async def test_forbidden_lists_reach_every_supervisor_and_the_next_one_tries_again() -> None:
    cluster = SmallCluster()
    refs = [job_in(cluster, name) for name in ("one", "two")]
    cluster.always_fail = {"list_jobs": refused(403)}

    answers = await asyncio.gather(*(ends(cluster, ref) for ref in refs), return_exceptions=True)
    assert [type(answer) for answer in answers] == [ApiRefusedError, ApiRefusedError]

    cluster.always_fail = {}
    cluster.end("one")
    assert not (await ends(cluster, refs[0])).gone


LATE = {
    "a refusal that passes": {"fail": {"get_job": [refused(403)]}},
    "credentials that are renewed": {"fail": {"get_job": [refused(401)], "list_jobs": [refused(401)] * 3}},
    "Jobs may be listed, and none read alone": {"always_fail": {"get_job": refused(403)}},
}


@pytest.mark.parametrize("trouble", LATE.values(), ids=LATE.keys())
@virtual_time
async def test_what_a_late_joiner_is_refused_passes_or_is_got_round(trouble: dict[str, Any]) -> None:
    cluster = SmallCluster()
    refs = [job_in(cluster, name) for name in ("early", "late")]
    early = begun(ends(cluster, refs[0]))
    await asyncio.sleep(60)
    vars(cluster).update(trouble)
    async with subscribe(cluster, refs[1]) as view:
        seen = await view.next(30)
        assert seen is not None
        assert seen.job is not None
    assert cluster.count("list_jobs") < 7
    assert not early.done()

    cluster.end("early")

    assert not (await early).gone


@virtual_time
async def test_what_can_not_be_mended_is_the_late_joiners_trouble_alone() -> None:
    cluster = SmallCluster()
    refs = [job_in(cluster, name) for name in ("early", "late")]
    early = begun(ends(cluster, refs[0]))
    await asyncio.sleep(60)
    cluster.fail = {"get_job": [refused(400, "BadRequest")]}

    with pytest.raises(ApiRefusedError):
        await ends(cluster, refs[1])

    cluster.end("early")
    assert not (await early).gone


@virtual_time
async def test_after_the_last_has_left_nothing_is_asked() -> None:
    cluster = SmallCluster()
    refs = [job_in(cluster, name) for name in ("one", "two")]
    watching = [begun(ends(cluster, ref)) for ref in refs]
    await asyncio.sleep(10)
    cluster.end("one")
    cluster.end("two")
    await asyncio.gather(*watching)
    asked = len(cluster.asked)

    await asyncio.sleep(10_000)

    assert len(cluster.asked) == asked


@virtual_time
async def test_only_the_newest_state_is_kept_for_a_slow_reader() -> None:
    cluster = SmallCluster()
    async with subscribe(cluster, job_in(cluster)) as view:
        await view.next(10)
        for count in range(500):
            cluster.update("embed", succeeded=count)
        await asyncio.sleep(10)

        seen = await view.next(0)
        assert seen is not None
        assert seen.job is not None
        assert seen.job.status.succeeded == 499
        assert await view.next(1) is None


@virtual_time
async def test_an_older_state_never_takes_the_place_of_a_newer_one() -> None:
    cluster = SmallCluster()
    ref = job_in(cluster)
    older, newer = cluster.update("embed", succeeded=1), cluster.update("embed", succeeded=2)
    async with subscribe(cluster, ref) as view:
        view.deliver(newer)
        view.deliver(older)

        seen = await view.next(0)
        assert seen is not None
        assert seen.job == newer
