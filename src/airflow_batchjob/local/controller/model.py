"""What goes into a sync beside the Job and its pods, and what comes out: values, nothing done yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from airflow_batchjob.local.controller.intervals import Intervals

Object = dict[str, Any]

MOST_PODS_PER_SYNC = 500  # created, or deleted to scale down; Kubernetes' own limit
MOST_UNCOUNTED = 500  # keeps the lists of uids in the status below about 20 kB; Kubernetes' own limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What the controller knows of a Job that no object says. Lost with the process, as in Kubernetes."""

    failures: int = 0
    """Failed pods since the last success."""
    last_failure: datetime | None = None
    completed: Intervals = field(default_factory=Intervals)
    """As last read or written: spares reading its text again."""
    failed: Intervals = field(default_factory=Intervals)


@dataclass(frozen=True, slots=True)
class NewPod:
    """A pod to create."""

    index: int | None = None
    failure_count: int | None = None
    """None where failures are not counted per index."""
    ignored_count: int = 0


@dataclass(frozen=True, slots=True)
class Deletion:
    """A pod to delete."""

    name: str
    untracked: bool
    """Drop the tracking finalizer first, so that the pod never counts as failed."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something to tell about the Job."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do, in this order: delete, create, write `status`, strip finalizers, write `final_status`."""

    delete: tuple[Deletion, ...] = ()
    create: tuple[NewPod, ...] = ()
    status: Object | None = None
    """None: as it is."""
    strip: tuple[str, ...] = ()
    """Names of pods to take the tracking finalizer off."""
    final_status: Object | None = None
    events: tuple[Event, ...] = ()
    look_again_seconds: float | None = None
    """The latest time of the next sync; None: when something changes."""
    memory: Memory = field(default_factory=Memory)
