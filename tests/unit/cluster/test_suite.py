"""The table of a run on all clusters."""

from __future__ import annotations

from tests.cluster.suite import Run, read_outcomes, table

REPORT = """<?xml version="1.0"?>
<testsuites><testsuite name="pytest">
<testcase classname="tests.contract.test_a" name="test_one[a case]" />
<testcase classname="tests.contract.test_a" name="test_two"><failure message="x">y</failure></testcase>
<testcase classname="tests.contract.test_b" name="test_three"><skipped message="z" /></testcase>
<testcase classname="tests.contract.test_b" name="test_four"><error message="z" /></testcase>
</testsuite></testsuites>
"""


def test_outcomes_are_read_from_pytests_report(tmp_path):
    (tmp_path / "report.xml").write_text(REPORT)

    assert read_outcomes(tmp_path / "report.xml") == {
        "contract.test_a::test_one[a case]": "passed",
        "contract.test_a::test_two": "failed",
        "contract.test_b::test_three": "skipped",
        "contract.test_b::test_four": "error",
    }


def test_each_case_has_a_line_and_each_cluster_a_column():
    runs = [
        Run(cluster="local", exit_code=0, outcomes={"a": "passed", "b": "skipped"}),
        Run(cluster="1.37", exit_code=1, outcomes={"a": "failed", "c": "passed"}),
    ]

    assert [line.split() for line in table(runs).splitlines()] == [
        ["case", "local", "1.37"],
        ["a", "ok", "FAILED"],
        ["b", "-", "."],
        ["c", ".", "ok"],
        ["case", "local", "1.37"],
        ["3", "cases,", "passed", "1", "1"],
    ]


def test_a_second_attempt_is_told_apart():
    first = Run(cluster="1.37", exit_code=1, outcomes={"a": "passed", "b": "failed", "c": "error"})
    second = Run(cluster="1.37", exit_code=1, outcomes={"b": "passed", "c": "failed"})

    both = first.with_second(second)

    assert (both.exit_code, both.outcomes) == (1, {"a": "passed", "b": "again", "c": "failed"})
    assert [line.split() for line in table([both]).splitlines()][1:4] == [
        ["a", "ok"],
        ["b", "ok,", "2nd"],
        ["c", "FAILED"],
    ]
