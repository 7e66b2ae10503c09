"""What a supervisor says about waiting: at once when it begins, then once an hour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from airflow_batchjob.core.pods import Pod
from airflow_batchjob.core.stock_out import Shortage

SAID_AGAIN_SECONDS = 3_600.0
# A pod without a machine for a moment is every pod's beginning.
_SHORTAGE_SAID_AFTER_SECONDS = 30.0
# `deletionTimestamp` has the grace period in it.
_STUCK_AFTER_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Note:
    """One waiting state in words; `key` tells it from others, whatever the words."""

    key: str
    text: str
    warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """Notes to say now, when each was said, and when the next is due."""

    now: tuple[Note, ...]
    said: Mapping[str, float]
    again_at: float


def say(notes: Iterable[Note], said: Mapping[str, float], now: float) -> Say:
    """Return which of the `notes` that hold now are to be said now.

    Args:
        notes: All that hold. One that no longer does is forgotten, and is new when it comes back.
        said: When each key was said, in epoch seconds.
        now: Epoch seconds.
    """
    holding = {note.key: note for note in notes}
    due = {
        key: note for key, note in holding.items() if key not in said or now - said[key] >= SAID_AGAIN_SECONDS
    }
    times = {key: now if key in due else said[key] for key in holding}
    again_at = min((at + SAID_AGAIN_SECONDS for at in times.values()), default=float("inf"))
    return Say(now=tuple(due.values()), said=MappingProxyType(times), again_at=again_at)


def unscheduled_note(short: Shortage | None, now: float) -> tuple[Note, ...]:
    """Say that pods wait for a machine, once that has lasted a little."""
    if short is None or now - short.since < _SHORTAGE_SAID_AFTER_SECONDS:
        return ()
    words = f": {short.words}" if short.words else ""
    return (Note("unscheduled", f"{short.unscheduled:,} pods wait for a machine{words}"),)


def leaving_notes(pods: Sequence[Pod], now: float) -> tuple[Note, ...]:
    """Name the nodes whose pods should have gone long ago, with the mend."""
    stuck: dict[str, list[str]] = {}
    for pod in pods:
        leaving_at = pod.metadata.deletion_timestamp
        if pod.is_leaving and leaving_at and now - leaving_at.timestamp() > _STUCK_AFTER_SECONDS:
            stuck.setdefault(pod.spec.node_name, []).append(pod.name)
    return tuple(_stuck_note(node, names) for node, names in sorted(stuck.items()))


def _stuck_note(node: str, pods: Sequence[str]) -> Note:
    names = ", ".join(pods[:3]) + (f" and {len(pods) - 3} more" if len(pods) > 3 else "")
    text = (
        f"node {node or '(none)'} does not answer: {names} should have gone long ago. "
        f"Delete the Node if its machine is gone (kubectl delete node {node}), or taint it "
        "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
    )
    return Note(f"stuck:{node}", text, warning=True)
