"""Which lines of a log are new after a reconnect."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_batchjob.core.telling.log_lines import FreshLines, read_stamped, shown

SAME = "2026-03-01T12:00:00.5Z"


def through(*connections: list[str]) -> list[str]:
    lines, seen = FreshLines(), []
    for connection in connections:
        lines.reconnected()
        seen += [text for line in connection if (text := lines.fresh(line)) is not None]
    return seen


A, B, C = (f"{SAME} {text}" for text in "abc")
LATER, EARLIER = "2026-03-01T12:00:01Z later", "2026-03-01T12:00:00.1Z earlier"

CONNECTIONS: dict[str, tuple[list[list[str]], list[str]]] = {
    "three of one time, cut after the second": ([[A, B], [A, B, C]], ["a", "b", "c"]),
    "cut before the first": ([[], [A]], ["a"]),
    "the same text twice at one time is two lines": ([[A, A], [A, A, A]], ["a", "a", "a"]),
    "all that came in that second comes again": (
        [[EARLIER, A], [EARLIER, A, LATER]],
        ["earlier", "a", "later"],
    ),
    "several cuts": ([[A], [A, B], [A, B, C], [A, B, C]], ["a", "b", "c"]),
    "the same text later is another line": ([[A], ["2026-03-01T12:00:09Z a"]], ["a", "a"]),
    "a line back in time within one connection is new": ([[LATER, A]], ["later", "a"]),
    "no timestamp: it goes on from a line that was new": ([[A, "rest"]], ["a", "rest"]),
    "no timestamp: it goes on from a line that was seen": ([[A, "rest"], [A, "rest", B]], ["a", "rest", "b"]),
    "digits that are left out at the end": (
        [["2026-03-01T12:00:00.120Z a"], ["2026-03-01T12:00:00.1Z old", "2026-03-01T12:00:00.12Z a", C]],
        ["a", "c"],
    ),
    "another zone": ([[A], ["2026-03-01T14:00:00.5+02:00 a", LATER]], ["a", "later"]),
    "an empty line": ([["2026-03-01T12:00:00Z "], ["2026-03-01T12:00:00Z ", A]], ["", "a"]),
}


@pytest.mark.parametrize(("connections", "want"), CONNECTIONS.values(), ids=CONNECTIONS.keys())
def test_each_line_comes_once(connections: list[list[str]], want: list[str]) -> None:
    assert through(*connections) == want


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.sampled_from("ab")), max_size=30),
    st.lists(st.integers(0, 30), max_size=5),
)
def test_wherever_it_is_cut_each_line_comes_once(log: list[tuple[int, int, str]], cuts: list[int]) -> None:
    log = sorted(log, key=lambda line: line[:2])
    raw = [f"2026-03-01T12:00:0{second}.{part}Z {text}" for second, part, text in log]
    lines, seen = FreshLines(), []

    for cut in [*cuts, len(raw)]:
        since = lines.since_time
        # As the API does: from the second on, not from the fraction.
        served = raw if since is None else [line for line in raw if line[:19] >= since[:19]]
        first = len(raw) - len(served)
        lines.reconnected()
        seen += [text for line in served[: max(0, cut - first)] if (text := lines.fresh(line)) is not None]

    assert seen == [text for _, _, text in log]


def test_it_resumes_from_the_newest_timestamp() -> None:
    lines = FreshLines()
    before = lines.since_time

    for line in (LATER, A):
        lines.fresh(line)

    assert before is None
    assert lines.since_time == "2026-03-01T12:00:01Z"


NOT_STAMPED = ["", "hello", "2026-03-01 12:00:00 x", "2026-99-01T12:00:00Z x", "2026-03-01T12:00:00 x"]


@pytest.mark.parametrize("line", NOT_STAMPED)
def test_what_has_no_timestamp(line: str) -> None:
    assert read_stamped(line) is None


SHOWN = {
    "plain": ("a b", "a b"),
    "a progress bar": ("10%\r90%\r100%", "100%"),
    "Windows line ends": ("a\r", "a"),
    "colours stay": ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
    "cursor moves go": ("\x1b[2Ka\x1b[1A", "a"),
    "control characters go, tabs stay": ("a\x00\tb\x07", "a\tb"),
}


@pytest.mark.parametrize(("text", "want"), SHOWN.values(), ids=SHOWN.keys())
def test_what_is_shown(text: str, want: str) -> None:
    assert shown(text) == want
