"""Why indexes failed, grouped, in the words of the failure text.

`18x exit 1 in main ("KeyError: 'id'"), 4x OOMKilled at 93 GiB`
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from types import MappingProxyType

from airflow_batchjob.core.indexes import IndexSet
from airflow_batchjob.core.quantity import memory_bytes
from airflow_batchjob.core.reading.endings import ContainerFailure, Ending, ending_of, first_failure
from airflow_batchjob.core.reading.pods import Pod, Terminated, index_of

MOST_GROUPS = 4
LONGEST_QUOTE = 120  # characters

_EPOCH = datetime.fromtimestamp(0, tz=timezone.utc)
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")
_SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
_WORDS = {
    Ending.NODE_PRESSURE: "evicted (its node ran low)",
    Ending.STORAGE_LIMIT: "evicted over its own storage limit",
    Ending.NOT_ADMITTED: "not admitted by its node",
    Ending.POD_DEADLINE: "over the pod's activeDeadlineSeconds",
    Ending.PREEMPTED: "preempted by a pod of higher priority",
    Ending.NODE_TAINTED: "evicted from a tainted node",
    Ending.DRAINED: "evicted by a drain or an autoscaler",
    Ending.NODE_GONE: "lost with its node",
    Ending.NODE_SHUTDOWN: "ended by its node's shutdown",
    Ending.BY_QUEUE: "taken back by its queue",
    Ending.RECLAIMED: "lost with its spot node",
    Ending.KILLED_ON_SPOT: "killed on a spot node",
    Ending.UNKNOWN: "unknown",
}
_COULD_NOT_START = {"StartError", "ContainerCannotRun"}
_GONE = "unknown (their pods are gone)"


@dataclass(frozen=True, slots=True)
class Cause:
    """Why one pod failed: words that group, and the program's own last words ("" if none)."""

    words: str
    quote: str = ""


def cause_of(pod: Pod, last_line: str = "") -> Cause:
    """Return why `pod` failed.

    Args:
        pod: A pod that failed, or whose container did before a restart in place.
        last_line: The last line of its log; quoted where it left no termination message.
    """
    failure = first_failure(pod)
    ending = ending_of(pod)
    match ending:
        case Ending.PROGRAM:
            return _program(failure, last_line)
        case Ending.OUT_OF_MEMORY:
            return Cause(_out_of_memory(pod, failure))
        case Ending.NODE_PRESSURE | Ending.STORAGE_LIMIT:
            return Cause(_WORDS[ending], last_words(pod.status.message))
        case Ending.NOT_ADMITTED | Ending.UNKNOWN:
            reason = f" ({pod.status.reason})" if pod.status.reason else ""
            return Cause(f"{_WORDS[ending]}{reason}")
        case _:
            return Cause(_WORDS[ending])


def causes_text(
    failed: IndexSet | None,
    pods: Sequence[Pod],
    last_lines: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Group failures by cause, the most frequent first: the part of the failure text after the indexes.

    Args:
        failed: The failed indexes; None on a Job that is not indexed: then every failed pod counts.
        pods: All pods of the Job that are known; the newest failed one speaks for its index.
        last_lines: The last line of a log, by the name of its pod.

    Returns:
        E.g. ``18x exit 1 in main ("KeyError: 'id'"), 4x OOMKilled at 93 GiB``; "" for no failures.
    """
    speaking = newest_failed_pods(failed, pods)
    causes = [cause_of(pod, last_lines.get(pod.name, "")) for pod in speaking]
    if failed is not None:
        causes += [Cause(_GONE)] * (failed.count - len(causes))
    counts = Counter(cause.words for cause in causes)
    groups = counts.most_common()
    texts = [f"{count:,}x {words}{_quotes(words, causes)}" for words, count in groups[:MOST_GROUPS]]
    if left := groups[MOST_GROUPS:]:
        texts.append(f"{sum(count for _, count in left):,}x other")
    return ", ".join(texts)


def newest_failed_pods(failed: IndexSet | None, pods: Sequence[Pod]) -> list[Pod]:
    """Return for each failed index the newest pod that shows a failure, in order of index."""
    showing = [pod for pod in pods if shows_failure(pod)]
    showing.sort(key=lambda pod: pod.metadata.creation_timestamp or _EPOCH)
    if failed is None:
        return showing
    newest = {index: pod for pod in showing if (index := index_of(pod)) is not None and index in failed}
    return [newest[index] for index in sorted(newest)]


def last_words(text: str) -> str:
    """Return the last line of `text` that says something, cut and without control characters."""
    # A progress bar rewrites its line: only what stands there last was meant to stay.
    lines = (line.rsplit("\r", 1)[-1] for line in text.replace("\r\n", "\n").split("\n"))
    said = [line for raw in lines if (line := _CONTROL.sub("", raw).strip())]
    if not said:
        return ""
    return said[-1] if len(said[-1]) <= LONGEST_QUOTE else f"{said[-1][: LONGEST_QUOTE - 1]}…"


def _program(failure: ContainerFailure | None, last_line: str) -> Cause:
    if failure is None:
        return Cause("unknown")
    terminated = failure.terminated
    where = f"init container {failure.name}" if failure.is_init else failure.name
    quote = last_words(terminated.message) or last_words(last_line)
    if terminated.reason in _COULD_NOT_START:
        return Cause(f"{where} could not start", last_words(_start_error(terminated.message)) or quote)
    return Cause(f"{_exit(terminated)} in {where}", quote)


def _start_error(message: str) -> str:
    # What matters stands at the end, behind what each layer of the runtime said of the one below.
    return message.rsplit("unable to start container process: ", 1)[-1].removesuffix(": unknown")


def _exit(terminated: Terminated) -> str:
    code = terminated.exit_code
    number = terminated.signal or (code - 128 if 128 < code < 160 else 0)
    signal = f" ({_SIGNALS[number]})" if number in _SIGNALS else ""
    return f"exit {code}{signal}"


def _out_of_memory(pod: Pod, failure: ContainerFailure | None) -> str:
    if failure is None:
        return "OOMKilled"
    where = f" in {failure.name}" if len(pod.spec.containers) > 1 or failure.is_init else ""
    limit = _memory_limit(pod, failure.name)
    return f"OOMKilled{where}{f' at {limit}' if limit else ''}"


def _memory_limit(pod: Pod, container: str) -> str:
    for one in (*pod.spec.containers, *pod.spec.init_containers):
        if one.name == container and "memory" in one.resources.limits:
            try:
                return in_words(memory_bytes(one.resources.limits["memory"]))
            except ValueError:
                return str(one.resources.limits["memory"])
    return ""


def in_words(size_bytes: int) -> str:
    """Write a memory size for people: "93 GiB", "1.5 GiB", "512 MiB"."""
    for unit, exponent in (("TiB", 4), ("GiB", 3), ("MiB", 2), ("KiB", 1)):
        if size_bytes >= 1024**exponent:
            size = size_bytes / 1024**exponent
            return f"{size:.0f} {unit}" if size >= 10 or size == int(size) else f"{size:.1f} {unit}"
    return f"{size_bytes} bytes"


def shows_failure(pod: Pod) -> bool:
    """Tell whether `pod` failed, or a container of it did before a restart in place."""
    return pod.status.phase == "Failed" or (
        pod.status.phase != "Succeeded" and first_failure(pod) is not None
    )


def _quotes(words: str, causes: Sequence[Cause]) -> str:
    quotes = Counter(cause.quote for cause in causes if cause.words == words)
    said = [(quote, count) for quote, count in quotes.most_common() if quote]
    if not said:
        return ""
    quote, count = said[0]
    if len(quotes) == 1:
        return f' ("{quote}")'
    return f' ({count:,}x "{quote}")' if count > 1 else f' (e.g. "{quote}")'
