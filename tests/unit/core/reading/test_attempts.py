"""Index by index: attempts, losses, capacity and seconds."""

from __future__ import annotations

from typing import Any

import msgspec

from airflow_batchjob.core.capacity.marks import LossMark
from airflow_batchjob.core.reading.attempts import per_index
from airflow_batchjob.core.reading.pods import FAILURE_COUNT_KEY, INDEX_KEY, Pod
from tests.unit.pods_made import container, exited

NOW = 1_772_366_500.0
START, END = "2026-03-01T12:00:00Z", "2026-03-01T12:00:30Z"


def pod(index: int, kind: str, *, failures: int = 0, created: str = START, **more: Any) -> Pod:
    status = {
        "phase": "Succeeded",
        "startTime": START,
        "containerStatuses": [container(terminated=exited(0, at=END))],
        **more,
    }
    plain = {
        "metadata": {
            "name": f"p{index}-{created}",
            "creationTimestamp": created,
            "labels": {"airflow-batchjob/capacity": kind},
            "annotations": {INDEX_KEY: str(index), FAILURE_COUNT_KEY: str(failures)},
        },
        "spec": {"nodeName": "node"},
        "status": status,
    }
    return msgspec.convert(plain, Pod)


def test_each_index_tells_what_became_of_it() -> None:
    pods = [pod(0, "spot"), pod(1, "on-demand"), pod(2, "spot", failures=1)]
    mark = LossMark(holder="h", counts={"2": "1"}, seconds={"1": 12.0}, lost_seconds=12.0)

    assert per_index(pods, mark, NOW) == {
        "attempts": {"3": "1", "2": "2", "1": "0"},
        "losses": {"2": "1"},
        "capacity": {"on-demand": "1", "spot": "0,2"},
        "seconds": {"0": 30.0, "1": 42.0, "2": 30.0},
    }


def test_the_newest_pod_says_where_an_index_ran_last() -> None:
    pods = [pod(0, "on-demand", created=END), pod(0, "spot", phase="Failed")]

    assert per_index(pods, None, NOW)["capacity"] == {"on-demand": "0"}


def test_of_many_indexes_the_seconds_are_left_out() -> None:
    assert "seconds" not in per_index([pod(index, "spot") for index in range(2001)], None, NOW)


def test_an_index_whose_pods_are_gone_still_counts_its_losses() -> None:
    mark = LossMark(holder="h", counts={"1": "7"}, seconds={"7": 3.0})

    assert per_index([], mark, NOW) == {
        "attempts": {"2": "7"}, "losses": {"1": "7"}, "capacity": {}, "seconds": {"7": 3.0},
    }  # fmt: skip


def test_what_somebody_wrote_in_place_of_an_index_is_left_out() -> None:
    mark = LossMark(holder="h", seconds={"abc": 1.0, "²": 2.0, "1" * 5_000: 3.0, "7": 4.0})

    assert per_index([], mark, NOW)["seconds"] == {"7": 4.0}
