"""What a supervisor says about waiting: when it begins, then once an hour."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from airflow_batchjob.core.reading.diagnosis import Category, Diagnosis

SAID_AGAIN_SECONDS = 3_600.0
# Every pod waits for a machine, an image, a volume in its first moments.
_LASTING_SECONDS = 30.0
_AT_ONCE = frozenset({Category.NODE_SILENT, Category.SIDECAR})
_COUNT = re.compile(r"\b[\d,]+ pods?\b")


@dataclass(frozen=True, slots=True)
class Note:
    """One waiting state in words.

    `key` tells it from others, whatever its words; it is said once it has lasted `after_seconds`.
    """

    key: str
    text: str
    warning: bool = False
    after_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Since when a note holds, and when it was said last (None: not yet); epoch seconds."""

    since: float
    said_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Saying:
    """Notes to say now, what is to be remembered, and when there will be something to say again."""

    now: tuple[Note, ...]
    held: Mapping[str, Held]
    again_at: float


def say(notes: Iterable[Note], held: Mapping[str, Held], now: float) -> Saying:
    """Return which of the `notes` that hold now are to be said now.

    Args:
        notes: All that hold. One that no longer does is forgotten, and is new when it comes back.
        held: What the call before this one returned.
        now: Epoch seconds.
    """
    due: list[Note] = []
    after: dict[str, Held] = {}
    again_at = float("inf")
    for note in {note.key: note for note in notes}.values():
        before = held.get(note.key, Held(since=now))
        if now >= _due_at(note, before):
            due.append(note)
            before = Held(since=before.since, said_at=now)
        after[note.key] = before
        again_at = min(again_at, _due_at(note, before))
    return Saying(now=tuple(due), held=MappingProxyType(after), again_at=again_at)


def note_of(diagnosis: Diagnosis) -> Note:
    """Return a diagnosis as a note; how many pods it concerns may change without a new note."""
    category = diagnosis.category
    return Note(
        key=f"{category.value}: {_COUNT.sub('', diagnosis.summary)}",
        text=str(diagnosis),
        warning=category.is_sure or category in _AT_ONCE,
        after_seconds=0.0 if category in _AT_ONCE else _LASTING_SECONDS,
    )


def _due_at(note: Note, held: Held) -> float:
    if held.said_at is None:
        return held.since + note.after_seconds
    return held.said_at + SAID_AGAIN_SECONDS
