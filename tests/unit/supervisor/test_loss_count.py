"""Counting losses: what Kubernetes counts, what it forgets, and what another try had already."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_batchjob.core.capacity.losses import Count
from airflow_batchjob.core.capacity.marks import LossMark, from_ranges
from airflow_batchjob.core.capacity.profiles import KNOWN_SIGNS
from airflow_batchjob.core.reading.endings import Ending
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.pods import FAILURE_COUNT_KEY, IGNORED_FAILURE_COUNT_KEY, INDEX_KEY, Pod
from airflow_batchjob.supervisor.loss_count import LossCount
from tests.unit.pods_made import condition, container, exited
from tests.unit.supervisor.small_cluster import when

START = 1_800_000_000.0
GONE = condition("DisruptionTarget", reason="DeletionByPodGC")
PRESSURE = {
    "reason": "Evicted",
    "message": "The node was low on resource: memory.",
    "conditions": [condition("DisruptionTarget", reason="TerminationByKubelet")],
}


def started(at: float = START) -> Job:
    return msgspec.convert({"metadata": {"name": "j"}, "status": {"startTime": when(at)}}, Job)


def pod(index: int, ignored: int, phase: str = "Running", *, at: float = START, **status: Any) -> Pod:
    """The pod of an index after so many ignored losses; its uid is the same whatever its phase."""
    counts = {FAILURE_COUNT_KEY: "0"} | ({IGNORED_FAILURE_COUNT_KEY: str(ignored)} if ignored else {})
    deleted = {"deletionTimestamp": status.pop("deleted")} if "deleted" in status else {}
    plain = {
        "metadata": {
            "name": f"p{index}",
            "uid": f"{index}/{ignored}/{at}",
            "creationTimestamp": when(at),
            "annotations": {INDEX_KEY: str(index), **counts},
            "labels": {"airflow-batchjob/capacity": "spot"},
            **deleted,
        },
        "spec": {"nodeName": "spot-1"},
        "status": {"phase": phase, "startTime": when(at), **status},
    }
    return msgspec.convert(plain, Pod)


def lost(index: int, ignored: int, **more: Any) -> Pod:
    return pod(index, ignored, "Failed", **{"conditions": [GONE], **more})


def counting(mark: LossMark | None = None, holder: str = "h", at: float = START) -> LossCount:
    count = LossCount.of(mark, holder, KNOWN_SIGNS)
    count.start(started(at))
    return count


def test_a_loss_counts_once_however_often_it_is_seen() -> None:
    count = counting()

    told = [count.see(one, START + 9) for one in (pod(3, 0), lost(3, 0), lost(3, 0), pod(3, 1))]

    assert [loss is not None for loss in told] == [False, True, False, False]
    assert told[1] is not None
    assert (told[1].index, told[1].node, told[1].ending, told[1].seconds) == (
        3,
        "spot-1",
        Ending.NODE_GONE,
        9.0,
    )
    assert count.snapshot().worst == Count(index=3, losses=1)


def test_a_loss_that_nobody_saw_shows_on_the_replacement() -> None:
    count = counting()

    told = count.see(pod(3, 2), START)

    assert told is not None
    assert told.pod == ""
    assert count.snapshot().total == 2


def test_kubernetes_forgets_at_a_suspension_and_we_do_not() -> None:
    count = counting()
    for one in (lost(3, 0), lost(3, 1), pod(3, 2)):
        count.see(one, START)

    count.start(started(START + 100))
    for one in (pod(3, 0, at=START + 100), lost(3, 0, at=START + 100)):
        count.see(one, START + 100)

    assert count.snapshot().worst == Count(index=3, losses=3)


def test_an_index_that_waited_for_its_replacement_keeps_kubernetes_count_over_a_suspension() -> None:
    count = counting()
    for one in (lost(3, 0), lost(4, 0)):
        count.see(one, START)

    count.start(started(START + 100))
    told = [count.see(pod(index, 1, at=START + 100), START + 100) for index in (3, 4)]

    assert told == [None, None]
    assert count.snapshot().total == 2
    count.see(lost(3, 1, at=START + 100), START + 110)
    assert count.snapshot().worst == Count(index=3, losses=2)


def test_another_process_goes_on_where_this_one_was() -> None:
    first = counting()
    for one in (lost(3, 0), lost(3, 1)):
        first.see(one, START)

    second = counting(first.mark)
    told = [second.see(one, START) for one in (pod(3, 2), lost(3, 2))]

    assert [loss is not None for loss in told] == [False, True]
    assert second.snapshot().worst == Count(index=3, losses=3)


def test_what_somebody_wrote_into_the_mark_is_left_out() -> None:
    edited = LossMark(holder="h", counts={"²": "3", "1": "4"}, seconds={"²": 1.0, "abc": 2.0, "4": 3.0})

    assert counting(edited).mark.seconds == {"4": 3.0}
    assert counting(edited).snapshot().worst == Count(index=4, losses=1)


def test_another_try_begins_at_nothing_on_a_living_job() -> None:
    first = counting()
    for one in (lost(3, 0), lost(3, 1)):
        first.see(one, START)

    second = counting(first.mark, holder="next try")
    second.see(pod(3, 2), START)
    assert second.snapshot().total == 0
    second.see(lost(3, 2), START)
    assert second.snapshot().total == 1


def test_a_follow_up_job_goes_on_counting_the_try() -> None:
    first = counting()
    first.see(lost(3, 0), START)

    second = counting(first.mark.of_a_new_job(), at=START + 50)
    second.see(pod(3, 0, at=START + 50), START + 50)
    second.see(lost(3, 0, at=START + 50), START + 60)

    assert second.snapshot().worst == Count(index=3, losses=2)


def test_pressure_is_told_from_capacity() -> None:
    count = counting()
    for one in (lost(3, 0, **PRESSURE), lost(3, 1, **PRESSURE), lost(3, 2)):
        count.see(one, START)
    seen = count.snapshot()

    assert (seen.worst, seen.pressed) == (Count(index=3, losses=1), Count(index=3, losses=2))
    assert "memory" in seen.pressed_words


NO_LOSS = {
    "an out of memory": pod(
        1, 0, "Failed", containerStatuses=[container(terminated=exited(137, "OOMKilled"))]
    ),
    "an exit code": pod(1, 0, "Failed", containerStatuses=[container(terminated=exited(1))]),
    "a success": pod(1, 0, "Succeeded"),
    "a pod that a suspension kills": pod(
        1, 0, "Failed", deleted=when(START), containerStatuses=[container(terminated=exited(143))]
    ),
    "one that is only just being deleted": pod(1, 0, deleted=when(START)),
    "one of before the latest start": lost(1, 0, at=START - 5),
}


@pytest.mark.parametrize("one", NO_LOSS.values(), ids=NO_LOSS.keys())
def test_faults_are_no_losses(one: Pod) -> None:
    count = counting()

    assert count.see(one, START + 1) is None
    assert count.snapshot().total == 0


def test_a_suspected_loss_is_told_and_not_counted() -> None:
    count = counting()
    told = count.see(pod(1, 0, "Failed", containerStatuses=[container(terminated=exited(137))]), START)

    assert told is not None
    assert (told.ending, told.is_marked) == (Ending.KILLED_ON_SPOT, False)
    assert count.snapshot().total == 0


def test_a_pod_whose_node_does_not_answer_is_lost_five_minutes_after_its_grace() -> None:
    count, cut_off = counting(), pod(1, 0, deleted=when(START))

    assert count.see(cut_off, START + 299) is None
    assert count.see(cut_off, START + 301) is not None


def test_what_runs_and_what_has_ended_is_known() -> None:
    count = counting()
    for one in (pod(1, 0), pod(2, 0), pod(3, 0, "Succeeded"), lost(4, 0)):
        count.see(one, START)
    count.see(pod(2, 0), START, gone=True)

    assert (count.snapshot().running, count.snapshot().ended) == (1, 1)


Event = tuple[str, int]
EVENTS = st.lists(
    st.tuples(st.sampled_from(["lose", "lose unseen", "suspend", "restart"]), st.integers(0, 2)), max_size=25
)


@given(EVENTS)
def test_no_loss_is_counted_twice_and_none_that_was_seen_is_missed(events: list[Event]) -> None:
    """Kubernetes: an index that waits for its replacement keeps its count; one that runs begins at 0."""
    count, now = counting(), START
    kube, wanted, waiting = Counter[int](), Counter[int](), set[int]()
    for what, index in events:
        now += 10
        if what == "suspend":
            for alive in {0, 1, 2} - waiting:
                kube[alive] = 0
            count.start(started(now))
            for each in range(3):
                count.see(pod(each, kube[each], at=now), now)
            waiting.clear()
        elif what == "restart":
            count = counting(count.mark, at=count.since)
        else:
            wanted[index] += 1
            if what == "lose":
                count.see(lost(index, kube[index], at=now), now)
            kube[index] += 1
            waiting.add(index)
            if index % 2:  # some are replaced before anything else happens
                count.see(pod(index, kube[index], at=now), now)
                waiting.discard(index)
    for each in range(3):
        count.see(pod(each, kube[each], at=now), now)

    assert Counter(from_ranges(count.mark.counts)) == +wanted
