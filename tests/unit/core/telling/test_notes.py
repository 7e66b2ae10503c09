"""Notes are said when a state begins or has lasted, then hourly, and anew when it comes back."""

from __future__ import annotations

from airflow_batchjob.core.reading.diagnosis import Category, Diagnosis
from airflow_batchjob.core.telling.notes import Held, Note, note_of, say

HELD = Note("suspended", "suspended")
BRIEF = Note("image", "no image", after_seconds=30)


def said(notes: dict[float, list[Note]]) -> list[float]:
    """Return the times at which something is said, of looks at these times."""
    held: dict[str, Held] = {}
    times: list[float] = []
    for now, holding in notes.items():
        saying = say(holding, held, now)
        held = dict(saying.held)
        times += [now] * bool(saying.now)
    return times


def test_a_state_is_said_at_once_and_then_hourly() -> None:
    looks = {float(at): [HELD] for at in range(0, 7_300, 100)}

    assert said(looks) == [0, 3_600, 7_200]


def test_a_state_that_comes_back_is_said_anew() -> None:
    assert said({0: [HELD], 10: [HELD], 20: [], 30: [HELD]}) == [0, 30]


def test_what_every_pod_goes_through_is_said_only_if_it_lasts() -> None:
    assert said({0: [BRIEF], 20: [BRIEF], 25: []}) == []
    assert said({0: [BRIEF], 20: [BRIEF], 30: [BRIEF], 40: [BRIEF]}) == [30]


def test_the_next_time_is_known_beforehand() -> None:
    first = say([HELD, BRIEF], {}, 0.0)

    assert first.again_at == 30
    assert say([HELD, BRIEF], first.held, 30.0).again_at == 3_600


def test_a_count_that_changes_makes_no_new_note() -> None:
    def waiting(count: int) -> Note:
        summary = f"{count:,} pods wait for a machine"
        return note_of(Diagnosis(category=Category.UNSCHEDULABLE, summary=summary, pods=count))

    assert waiting(14).key == waiting(1_230).key


def test_two_silent_nodes_are_two_notes() -> None:
    def silent(node: str) -> Note:
        summary = f"node {node} does not answer, 2 pods are stuck on it"
        return note_of(Diagnosis(category=Category.NODE_SILENT, summary=summary))

    assert silent("gpu-1").key != silent("gpu-2").key
    assert silent("gpu-1").warning
