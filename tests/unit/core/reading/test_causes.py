"""Why pods ended, and the words of the failure text."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_batchjob.core.indexes import IndexSet
from airflow_batchjob.core.reading.causes import (
    LONGEST_QUOTE,
    MOST_GROUPS,
    cause_of,
    causes_text,
    in_words,
    last_words,
    newest_failed_pods,
)
from airflow_batchjob.core.reading.endings import Ending, ending_of, first_failure
from airflow_batchjob.core.reading.pods import Pod
from tests.unit.pods_made import condition, container, exited, pod


def failed(*statuses: dict[str, Any], index: int | None = 0, **more: Any) -> Pod:
    return pod(index, "Failed", *statuses, **more)


def disrupted(why: str, **more: Any) -> Pod:
    said = [condition("DisruptionTarget", reason=why)]
    return failed(container(terminated=exited(143)), conditions=said, **more)


ENDINGS = {
    "a program that fails": (failed(container(terminated=exited(1))), Ending.PROGRAM),
    "137 alone proves nothing, so it is the program": (
        failed(container(terminated=exited(137))), Ending.PROGRAM,
    ),
    "out of memory": (failed(container(terminated=exited(137, "OOMKilled"))), Ending.OUT_OF_MEMORY),
    "out of memory in a child, the program went on to exit 0": (
        failed(container(terminated=exited(0, "OOMKilled"))), Ending.OUT_OF_MEMORY,
    ),
    "out of memory, then evicted: its own doing all the same": (
        failed(
            container(terminated=exited(137, "OOMKilled")),
            conditions=[condition("DisruptionTarget", reason="EvictionByEvictionAPI")],
        ),
        Ending.OUT_OF_MEMORY,
    ),
    "preempted": (disrupted("PreemptionByScheduler"), Ending.PREEMPTED),
    "preempted, older word": (disrupted("PreemptionByKubeScheduler"), Ending.PREEMPTED),
    "tainted": (disrupted("DeletionByTaintManager"), Ending.NODE_TAINTED),
    "drained": (disrupted("EvictionByEvictionAPI"), Ending.DRAINED),
    "node gone": (disrupted("DeletionByPodGC"), Ending.NODE_GONE),
    "node shut down": (disrupted("TerminationByKubelet", reason="Terminated"), Ending.NODE_SHUTDOWN),
    "node under pressure": (
        disrupted("TerminationByKubelet", reason="Evicted", message="The node was low on resource: memory."),
        Ending.NODE_PRESSURE,
    ),
    "preempted by a critical pod": (
        disrupted("TerminationByKubelet", reason="Preempting"), Ending.PREEMPTED,
    ),
    "a disruption of the future": (disrupted("SomethingNew"), Ending.NODE_SHUTDOWN),
    "a disruption that is not true does not count": (
        failed(container(terminated=exited(1)), conditions=[condition("DisruptionTarget", "False")]),
        Ending.PROGRAM,
    ),
    "over its own ephemeral storage": (
        failed(reason="Evicted", message="Pod ephemeral local storage usage exceeds the total limit of 1Gi."),
        Ending.STORAGE_LIMIT,
    ),
    "a full node": (failed(reason="OutOfcpu"), Ending.NOT_ADMITTED),
    "an old shutdown": (failed(reason="Shutdown"), Ending.NODE_SHUTDOWN),
    "the pod's own deadline": (failed(reason="DeadlineExceeded"), Ending.POD_DEADLINE),
    "status lost with the node": (
        failed(container(terminated=exited(137, "ContainerStatusUnknown"))), Ending.NODE_GONE,
    ),
    "no sign at all": (failed(), Ending.UNKNOWN),
}  # fmt: skip


@pytest.mark.parametrize(("seen", "want"), ENDINGS.values(), ids=ENDINGS.keys())
def test_ending(seen: Pod, want: Ending) -> None:
    assert ending_of(seen) is want


def test_losses_are_what_another_node_would_mend() -> None:
    assert {ending for ending in Ending if not ending.is_loss} == {
        Ending.OUT_OF_MEMORY, Ending.STORAGE_LIMIT, Ending.POD_DEADLINE, Ending.PROGRAM, Ending.UNKNOWN,
    }  # fmt: skip


TWO = "2026-03-01T12:00:02Z"
THREE = "2026-03-01T12:00:03Z"

FIRST = {
    "the one that failed first; the other was killed for it": (
        failed(container("side", terminated=exited(143, at=THREE)), container(terminated=exited(1, at=TWO))),
        "main",
    ),
    "out of memory, though its parent ended first": (
        failed(
            container("side", terminated=exited(1, at=TWO)),
            container(terminated=exited(137, "OOMKilled", at=THREE)),
        ),
        "main",
    ),
    "one without a time comes last": (
        failed(container("side", terminated={"exitCode": 1}), container(terminated=exited(1))), "main",
    ),
    "a failure before a restart in place": (
        pod(0, "Running", container(waiting={"reason": "CrashLoopBackOff"}, last=exited(3))), "main",
    ),
    "a restart that succeeded": (
        pod(0, "Running", container(terminated=exited(0), last=exited(3))), None,
    ),
    "an init container": (
        failed(
            container(waiting={"reason": "PodInitializing"}),
            initContainerStatuses=[container("fetch", terminated=exited(2))],
        ),
        "fetch",
    ),
    "a native sidecar's exit is nobody's failure": (
        failed(
            initContainers=[{"name": "proxy", "restartPolicy": "Always"}],
            initContainerStatuses=[container("proxy", terminated=exited(1))],
        ),
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("seen", "want"), FIRST.values(), ids=FIRST.keys())
def test_the_container_to_blame(seen: Pod, want: str | None) -> None:
    found = first_failure(seen)

    assert (found.name if found else None) == want


GI93 = {"memory": "95583Mi"}

WORDS = {
    "an exit code": (failed(container(terminated=exited(1))), "exit 1 in main"),
    "a signal": (failed(container(terminated=exited(139))), "exit 139 (SIGSEGV) in main"),
    "a kill without a reason": (failed(container(terminated=exited(137))), "exit 137 (SIGKILL) in main"),
    "an exit code that is no signal": (failed(container(terminated=exited(255))), "exit 255 in main"),
    "out of memory, with the limit": (
        failed(container(terminated=exited(137, "OOMKilled")), limits=GI93), "OOMKilled at 93 GiB",
    ),
    "out of memory without a limit": (
        failed(container(terminated=exited(137, "OOMKilled"))), "OOMKilled",
    ),
    "out of memory in one of two": (
        failed(container("a"), container("b", terminated=exited(137, "OOMKilled")), limits=GI93),
        "OOMKilled in b at 93 GiB",
    ),
    "a limit in words of its own": (
        failed(container(terminated=exited(137, "OOMKilled")), limits={"memory": "a lot"}),
        "OOMKilled at a lot",
    ),
    "a command that is not there": (
        failed(container(terminated=exited(128, "StartError", 'exec: "foo": not found'))),
        "main could not start",
    ),
    "an init container": (
        failed(initContainerStatuses=[container("fetch", terminated=exited(2))]),
        "exit 2 in init container fetch",
    ),
    "not admitted": (failed(reason="OutOfpods"), "not admitted by its node (OutOfpods)"),
    "nothing known": (failed(), "unknown"),
    "a reason of the future": (failed(reason="Hibernated"), "unknown (Hibernated)"),
}  # fmt: skip


@pytest.mark.parametrize(("seen", "want"), WORDS.values(), ids=WORDS.keys())
def test_words(seen: Pod, want: str) -> None:
    assert cause_of(seen).words == want


@pytest.mark.parametrize("seen", [case[0] for case in ENDINGS.values()], ids=ENDINGS.keys())
def test_every_ending_has_words_and_none_of_them_is_none(seen: Pod) -> None:
    words = cause_of(seen).words

    assert words
    assert "None" not in words


def test_the_termination_message_is_quoted_before_the_log() -> None:
    seen = failed(container(terminated=exited(1, message="Traceback\nKeyError: 'id'\n")))

    assert cause_of(seen, "something else").quote == "KeyError: 'id'"
    assert cause_of(failed(container(terminated=exited(1))), "from the log").quote == "from the log"


# ---------------------------------------------------------------- the text


def many(count: int, start: int, *statuses: dict[str, Any], **more: Any) -> list[Pod]:
    return [failed(*statuses, index=index, **more) for index in range(start, start + count)]


def test_the_fixed_form() -> None:
    pods = [
        *many(4, 100, container(terminated=exited(137, "OOMKilled")), limits=GI93),
        *many(18, 0, container(terminated=exited(1, message="KeyError: 'id'"))),
    ]

    text = causes_text(IndexSet.of([*range(18), *range(100, 104)]), pods)

    assert text == """18x exit 1 in main ("KeyError: 'id'"), 4x OOMKilled at 93 GiB"""


def test_the_newest_attempt_speaks_for_its_index() -> None:
    old = failed(container(terminated=exited(1)), name="old")
    new = failed(container(terminated=exited(2)), name="new", created="2026-03-01T13:00:00Z")

    assert causes_text(IndexSet.of([0]), [new, old]) == "1x exit 2 in main"


def test_pods_of_indexes_that_did_not_fail_are_left_out() -> None:
    replaced = failed(container(terminated=exited(1)), index=7)

    assert causes_text(IndexSet.of([3]), [replaced]) == "1x unknown (their pods are gone)"


def test_failed_indexes_without_pods_are_counted() -> None:
    pods = many(2, 0, container(terminated=exited(1)))

    assert causes_text(IndexSet.of(range(5)), pods) == "3x unknown (their pods are gone), 2x exit 1 in main"


def test_a_job_without_indexes_counts_failed_pods() -> None:
    pods = [failed(container(terminated=exited(1)), index=None, name=f"p{n}") for n in range(3)]

    assert causes_text(None, pods) == "3x exit 1 in main"


def test_nothing_failed_gives_no_text() -> None:
    assert causes_text(IndexSet(), [pod(0, "Succeeded", container(terminated=exited(0)))]) == ""


QUOTES = {
    "one for all": (["a", "a", "a"], '3x exit 1 in main ("a")'),
    "some differ": (["a", "a", "b"], '3x exit 1 in main (2x "a")'),
    "some are silent": (["a", "a", ""], '3x exit 1 in main (2x "a")'),
    "all differ": (["a", "b", "c"], '3x exit 1 in main (e.g. "a")'),
    "all are silent": (["", "", ""], "3x exit 1 in main"),
}


@pytest.mark.parametrize(("lines", "want"), QUOTES.values(), ids=QUOTES.keys())
def test_quotes(lines: list[str], want: str) -> None:
    pods = many(3, 0, container(terminated=exited(1)))
    last_lines = dict(zip((one.name for one in pods), lines, strict=True))

    assert causes_text(IndexSet.of(range(3)), pods, last_lines) == want


def test_many_causes_end_in_a_count() -> None:
    pods = [failed(container(terminated=exited(code)), index=code) for code in range(1, 8)]

    text = causes_text(IndexSet.of(range(1, 8)), pods)

    assert text.count("in main") == MOST_GROUPS
    assert text.endswith(", 3x other")


def test_failed_pods_come_in_order_of_index() -> None:
    pods = [failed(container(terminated=exited(1)), index=index) for index in (10, 2, 7)]

    assert [one.name for one in newest_failed_pods(IndexSet.of([2, 7, 10]), pods)] == [
        "embed-2-x", "embed-7-x", "embed-10-x",
    ]  # fmt: skip


LAST_WORDS = {
    "the last of several": ("one\ntwo\n", "two"),
    "blank lines after it": ("one\n\n  \n", "one"),
    "nothing": ("", ""),
    "a progress bar": ("10%\r50%\r100%", "100%"),
    "Windows line ends": ("one\r\ntwo\r\n", "two"),
    "colours": ("\x1b[31mred\x1b[0m", "red"),
    "control characters": ("a\x00b\x07", "ab"),
}


@pytest.mark.parametrize(("text", "want"), LAST_WORDS.values(), ids=LAST_WORDS.keys())
def test_last_words(text: str, want: str) -> None:
    assert last_words(text) == want


def test_long_last_words_are_cut() -> None:
    assert len(last_words("x" * 1000)) == LONGEST_QUOTE


SIZES = {
    95583 * 2**20: "93 GiB", 3 * 2**29: "1.5 GiB", 2**29: "512 MiB", 10**9: "954 MiB", 1024: "1 KiB",
    7: "7 bytes", 2**40: "1 TiB",
}  # fmt: skip


@pytest.mark.parametrize(("size_bytes", "want"), SIZES.items())
def test_sizes(size_bytes: int, want: str) -> None:
    assert in_words(size_bytes) == want
