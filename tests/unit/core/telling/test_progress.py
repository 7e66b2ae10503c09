"""Progress: the line, the rate, and when a line is due."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_batchjob.core.indexes import IndexSet
from airflow_batchjob.core.reading.job import JobRef
from airflow_batchjob.core.reading.status import JobStatus, Phase
from airflow_batchjob.core.telling.progress import (
    WINDOW_SECONDS,
    Progress,
    duration_in_words,
    progress_line,
    rate_in_words,
)


def look(done: int = 0, running: int = 0, failed: int = 0, **more: Any) -> JobStatus:
    given: dict[str, Any] = {
        "phase": Phase.RUNNING,
        "completions": 2000,
        "indexed": True,
        "active": running,
    } | more
    return JobStatus(
        job=JobRef("ml", "embed", "u"),
        ready=running,
        succeeded=done,
        failed=failed,
        succeeded_indexes=IndexSet(),
        failed_indexes=IndexSet(),
        **given,
    )


def after(*looks: tuple[float, JobStatus]) -> Progress:
    progress = Progress()
    for now, status in looks:
        progress = progress.seen(status, now)
    return progress


LINES = {
    "at first nothing is known but the counts": (
        after((0, look(running=200))),
        "0 of 2,000 done, 200 running, 1,800 left",
    ),
    "rate and time left, once something has ended": (
        after((0, look()), (200, look(done=640, running=200, failed=3))),
        "640 of 2,000 done, 200 running, 3 failed, 1,157 left, 3.2/s, about 7 min left",
    ),
    "pods that do not run yet are not called running": (
        after((0, look(done=10, running=5, active=25))),
        "10 of 2,000 done, 5 running, 20 not ready, 1,965 left",
    ),
    "suspended": (
        after((0, look()), (100, look(done=100, phase=Phase.SUSPENDED))),
        "100 of 2,000 done, suspended, 1,900 left",
    ),
    "a suspension that the controller has not seen yet": (
        after((0, look(running=7, suspend_asked=True))),
        "0 of 2,000 done, suspended, 1,993 left",
    ),
    "over, and all done": (
        after((0, look()), (100, look(done=2000, phase=Phase.SUCCEEDED))),
        "2,000 of 2,000 done",
    ),
    "over, and not all done": (
        after((0, look()), (100, look(done=1978, failed=2, phase=Phase.FAILED))),
        "1,978 of 2,000 done, 2 failed, 20 not run",
    ),
    "a work queue knows no end": (
        after((0, look(completions=None)), (10, look(done=20, running=3, completions=None))),
        "20 done, 3 running, 2.0/s",
    ),
    "failed pods of a Job that is not indexed": (
        after((0, look(done=1, indexed=False, completions=3, failed_pods=2))),
        "1 of 3 done, 0 running, 2 pods failed, 2 left",
    ),
    "failed pods that are replaced": (
        after((0, look(completions=3, active=3, failed_pods=3))),
        "0 of 3 done, 0 running, 3 not ready, 3 pods failed",
    ),
    "pods that are killed when their Job is stopped": (
        after((0, look(completions=3, failed_pods=3, phase=Phase.FAILED))),
        "0 of 3 done, 3 not run",
    ),
    "failed pods of indexes that may fail once": (
        after((0, look(completions=3, failed=1, failed_pods=1))),
        "0 of 3 done, 0 running, 1 failed, 2 left",
    ),
}


@pytest.mark.parametrize(("progress", "want"), LINES.values(), ids=LINES.keys())
def test_the_line(progress: Progress, want: str) -> None:
    assert progress_line(progress) == want


def test_more_completions_may_be_asked_for_than_the_job_has() -> None:
    progress = Progress().seen(look(done=5, completions=10), 0, completions=20)

    assert progress_line(progress) == "5 of 20 done, 0 running, 15 left"


# ---------------------------------------------------------------- rate


def test_what_nobody_asked_for_is_not_left_to_do() -> None:
    seen = Progress().seen(
        look(done=3, running=1, completions=10, asserted_indexes=IndexSet.of([7, 8, 9])), 0
    )

    assert progress_line(seen).startswith("3 of 7 done, 1 running, 3 left")


def test_the_rate_is_of_the_window_not_of_the_whole_time() -> None:
    slow = [(float(t), look(done=t // 100)) for t in range(0, 10_000, 10)]
    fast = [(10_000.0 + t, look(done=100 + t)) for t in range(0, int(WINDOW_SECONDS) + 20, 10)]

    rate = after(*slow, *fast).rate_per_second

    assert rate == pytest.approx(1.0, rel=0.05)


def test_a_job_that_stands_still_slows_down_and_then_has_no_rate() -> None:
    moving = after((0, look()), (100, look(done=100)))
    slower = moving.seen(look(done=100), 400)
    still = slower.seen(look(done=100), 100 + WINDOW_SECONDS + 1)

    assert moving.rate_per_second == pytest.approx(1.0)
    assert slower.rate_per_second == pytest.approx(0.25)
    assert still.rate_per_second is None


def test_what_was_done_before_the_first_look_is_no_rate() -> None:
    progress = after((0, look(done=1900)), (10, look(done=1910)))

    assert progress.rate_per_second == pytest.approx(1.0)


def test_a_suspension_does_not_slow_the_rate() -> None:
    suspended: dict[str, Any] = {"phase": Phase.SUSPENDED}
    progress = after(
        (0, look()), (100, look(done=100)), (110, look(done=110, **suspended)),
        (5000, look(done=110, **suspended)), (5010, look(done=110)), (5110, look(done=210)),
    )  # fmt: skip

    assert progress.rate_per_second == pytest.approx(1.0)


def test_a_clock_that_jumps_back_does_no_harm() -> None:
    progress = after((1000, look()), (900, look(done=5)), (1000, look(done=10)))

    assert progress.rate_per_second is not None


@given(st.lists(st.tuples(st.floats(0, 1000), st.integers(0, 50)), max_size=400))
def test_the_rate_is_never_negative_and_memory_is_bounded(steps: list[tuple[float, int]]) -> None:
    progress, now, done = Progress(), 0.0, 0
    for seconds, more in steps:
        now, done = now + seconds, done + more
        progress = progress.seen(look(done=done, completions=10**9), now)
        assert (progress.rate_per_second or 1) > 0
        assert len(progress.samples) <= 130


# ---------------------------------------------------------------- when a line is due


def lines(*looks: tuple[float, JobStatus]) -> list[str]:
    said, progress = [], Progress()
    for now, status in looks:
        line, progress = progress.seen(status, now).due_line(every_seconds=30)
        said += [line] if line else []
    return said


def test_the_first_look_gets_a_line() -> None:
    assert lines((0, look(running=3))) == ["0 of 2,000 done, 3 running, 1,997 left"]


def test_nothing_new_gets_none() -> None:
    assert len(lines(*((t, look(running=3)) for t in range(0, 1000, 10)))) == 1


def test_changes_get_lines_at_a_growing_distance() -> None:
    said = lines(*((second, look(done=second)) for second in range(140)))

    assert [int(line.split()[0]) for line in said] == [0, 3, 6, 12, 24, 48, 78, 108, 138]


def test_the_end_gets_a_line_at_once_and_once() -> None:
    end = look(done=2000, phase=Phase.SUCCEEDED)

    said = lines((0, look()), (1, end), (2, end))

    assert said[-1] == "2,000 of 2,000 done"
    assert len(said) == 2


def test_an_end_like_the_first_look_gets_its_line() -> None:
    said = lines((0, look(completions=0)), (1, look(completions=0, phase=Phase.SUCCEEDED)))

    assert len(said) == 2


DURATIONS = {
    0.2: "1 s", 59: "59 s", 89: "89 s", 90: "2 min", 360: "6 min", 5399: "1 h 30 min", 7200: "2 h",
    7800: "2 h 10 min", 172_800: "2 d", 273_600: "3 d 4 h",
}  # fmt: skip


@pytest.mark.parametrize(("seconds", "want"), DURATIONS.items())
def test_durations(seconds: float, want: str) -> None:
    assert duration_in_words(seconds) == want


RATES = {3.2: "3.2/s", 150: "150/s", 0.2: "12/min", 0.0004: "1.4/h"}


@pytest.mark.parametrize(("per_second", "want"), RATES.items())
def test_rates(per_second: float, want: str) -> None:
    assert rate_in_words(per_second) == want
