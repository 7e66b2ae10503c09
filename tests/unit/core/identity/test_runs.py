"""Whose Job it is: this run's, or that of a deleted run of the same name."""

from __future__ import annotations

import pytest

from airflow_batchjob.core.identity.marks import Marks
from airflow_batchjob.core.identity.runs import is_of_another_run

EARLIER, LATER = "0199a000-0000-7000-8000-00000000000a", "0199b000-0000-7000-8000-000000000001"
PERSON = "ada@desk/4711/0badf00d"

# The Job's incarnation and holder, those of whoever asks, and whether it is another run's.
CASES: dict[str, tuple[tuple[str, str], tuple[str, str], bool]] = {
    "two incarnations": (("old", f"{EARLIER}/1"), ("new", f"{LATER}/2"), True),
    "one incarnation outweighs ids and tries": (("new", f"{EARLIER}/3"), ("new", f"{LATER}/1"), False),
    "nobody knows, a retry": (("", f"{EARLIER}/1"), ("", f"{LATER}/2"), False),
    "nobody knows, the very same try": (("", f"{EARLIER}/1"), ("", f"{EARLIER}/1"), False),
    "nobody knows, and the number is there already": (("", f"{EARLIER}/1"), ("", f"{LATER}/1"), True),
    "nobody knows, and a higher number is there": (("", f"{EARLIER}/10"), ("", f"{LATER}/9"), True),
    "nobody knows, and an overtaken try comes late": (("", f"{LATER}/2"), ("", f"{EARLIER}/1"), False),
    "the Job does not know, a retry": (("", f"{EARLIER}/1"), ("new", f"{LATER}/2"), False),
    "the Job does not know, and the number is there": (("", f"{EARLIER}/2"), ("new", f"{LATER}/1"), True),
    "the store does not answer, a retry": (("new", f"{EARLIER}/1"), ("", f"{LATER}/2"), False),
    "the store does not answer, and the number is there": (
        ("old", f"{EARLIER}/2"),
        ("", f"{LATER}/1"),
        True,
    ),
    "a person on the command line": (("", PERSON), ("", f"{LATER}/1"), False),
    "a holder that somebody has edited": (("", f"{EARLIER}/1?"), ("", f"{LATER}/1"), False),
    "no holder": (("", ""), ("", f"{LATER}/1"), False),
}


@pytest.mark.parametrize(("job", "asking", "want"), CASES.values(), ids=CASES.keys())
def test_whose_job_it_is(job: tuple[str, str], asking: tuple[str, str], want: bool) -> None:
    marks = Marks(incarnation=job[0], holder=job[1])

    assert is_of_another_run(marks, incarnation=asking[0], holder=asking[1]) is want
