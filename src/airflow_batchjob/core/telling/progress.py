"""How far a Job has come: one line for the log, and when the next one is due.

"640 of 2,000 done, 200 running, 3 failed, 1,157 left, 3.2/s, about 6 min left"

The rate is taken over a sliding window of active time: what a suspension lasts does not slow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from airflow_batchjob.core.reading.status import JobStatus, Phase
from airflow_batchjob.core.wording import counted

WINDOW_SECONDS = 600.0
LINE_EVERY_SECONDS = 30.0
# A Job of half a minute shows that it moves; one of a day does not fill the log.
FIRST_LINE_AFTER_SECONDS = 3.0
_MOST_SAMPLES = 120
_LONGEST_ETA_SECONDS = 30 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """How many indexes had ended at a moment of active time."""

    active_seconds: float
    ended: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What earlier looks left behind, and the newest counts. Start with `Progress()`; change by `seen`."""

    completions: int | None = None  # None: a work queue, of which nobody knows how much is left
    done: int = 0
    running: int = 0
    not_ready: int = 0  # pods that wait for a machine, start, or have partly ended
    failed: int = 0
    failed_pods: int = 0  # where more than indexes have failed: each may have been replaced
    suspended: bool = False
    final: bool = False
    samples: Sequence[Sample] = ()
    active_seconds: float = 0.0  # since the first look, suspensions left out
    looked_at: float | None = None  # epoch or monotonic seconds, of the newest look
    began_at: float | None = None  # when the first line was said
    said_at: float | None = None
    said: str = ""

    @property
    def remaining(self) -> int | None:
        """Indexes neither done nor failed, without a pod; None on a work queue."""
        if self.completions is None:
            return None
        return max(0, self.completions - self.done - self.running - self.not_ready - self.failed)

    @property
    def rate_per_second(self) -> float | None:
        """Indexes ended per second of active time within the window; None while nothing is known."""
        if len(self.samples) < 2:
            return None
        first, last = self.samples[0], self.samples[-1]
        # Time since the newest sample counts too: a Job that stands still slows down.
        seconds = min(self.active_seconds - first.active_seconds, WINDOW_SECONDS)
        ended = last.ended - first.ended
        return ended / seconds if seconds > 0 and ended > 0 else None

    @property
    def eta_seconds(self) -> float | None:
        """Seconds until the last index ends, at this rate; None where nobody can tell."""
        rate = self.rate_per_second
        if rate is None or self.completions is None or self.suspended or self.final:
            return None
        seconds = (self.completions - self.done - self.failed) / rate
        return seconds if seconds <= _LONGEST_ETA_SECONDS else None

    def seen(self, status: JobStatus, now: float, *, completions: int | None = None) -> Progress:
        """Return the progress after one more look.

        Args:
            status: What was seen.
            now: Seconds on a clock that does not run backwards between two looks.
            completions: What was asked for, where that is not what the Job has.
        """
        suspended = status.phase is Phase.SUSPENDED or status.suspend_asked
        passed = 0.0 if self.looked_at is None else max(0.0, now - self.looked_at)
        # A pause counts from the look that saw it to the one that saw its end.
        active = self.active_seconds + (0.0 if self.suspended else passed)
        ended = status.succeeded + status.failed
        most = status.completions if completions is None else completions
        active_pods = 0 if status.phase.is_final else status.active
        return replace(
            self,
            # What is only asserted to be completed is neither done nor to be done.
            completions=None if most is None else most - status.asserted_indexes.count,
            done=status.succeeded,
            running=min(status.ready, active_pods),
            not_ready=max(0, active_pods - status.ready),
            failed=status.failed,
            failed_pods=_replaced(status) if status.indexed else status.failed_pods,
            suspended=suspended,
            final=status.phase.is_final,
            samples=_with(self.samples, Sample(active_seconds=active, ended=ended)),
            active_seconds=active,
            looked_at=now,
        )

    def due_line(self, *, every_seconds: float = LINE_EVERY_SECONDS) -> tuple[str | None, Progress]:
        """Return the line if one is due now, and the progress that remembers it was said.

        The first look and the end always get one; between them only a change does, at first after
        some seconds, then each time after as long as has passed, and at last every `every_seconds`.
        """
        line, counts = progress_line(self), _counts(self)
        now = self.looked_at or 0.0
        is_first = self.said_at is None
        began, said_at = (now if at is None else at for at in (self.began_at, self.said_at))
        gap = min(every_seconds, max(FIRST_LINE_AFTER_SECONDS, said_at - began))
        if counts == self.said or not (is_first or self.final or now - said_at >= gap):
            return None, self
        return line, replace(self, began_at=began, said_at=now, said=counts)


def progress_line(progress: Progress) -> str:
    """Return counts, rate and time left in one line."""
    parts = [_counts(progress)]
    rate, eta = progress.rate_per_second, progress.eta_seconds
    if rate is not None and not progress.suspended and not progress.final:
        parts.append(rate_in_words(rate))
    if eta is not None and eta > 0:
        parts.append(f"about {duration_in_words(eta)} left")
    return ", ".join(parts)


def rate_in_words(per_second: float) -> str:
    """Write a rate so that its number is neither tiny nor huge: "3.2/s", "12/min", "1.5/h"."""
    for unit, seconds in (("s", 1), ("min", 60)):
        if per_second * seconds >= 1:
            return f"{_short(per_second * seconds)}/{unit}"
    return f"{_short(per_second * 3600)}/h"


def duration_in_words(seconds: float) -> str:
    """Write how long something takes, as precisely as is known: "40 s", "6 min", "2 h 10 min", "3 d 4 h"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def _counts(progress: Progress) -> str:
    of = "" if progress.completions is None else f" of {progress.completions:,}"
    parts = [f"{progress.done:,}{of} done"]
    if not progress.final:
        parts.append("suspended" if progress.suspended else f"{progress.running:,} running")
    if progress.not_ready:
        parts.append(f"{progress.not_ready:,} not ready")
    if progress.failed:
        parts.append(f"{progress.failed:,} failed")
    if progress.failed_pods:
        parts.append(f"{counted(progress.failed_pods, 'pod')} failed")
    if progress.remaining:
        parts.append(f"{progress.remaining:,} {'not run' if progress.final else 'left'}")
    return ", ".join(parts)


def _replaced(status: JobStatus) -> int:
    """Return how many pods failed, where that says more than how many indexes did."""
    # In the end those are among them that were killed with the Job.
    says_more = status.failed_pods > status.failed and not status.phase.is_final
    return status.failed_pods if says_more else 0


def _with(samples: Sequence[Sample], newest: Sample) -> tuple[Sample, ...]:
    # The moment a count was first seen is the one to keep; the window moves on all the same.
    is_new = not samples or newest.ended != samples[-1].ended
    kept = (*samples, newest) if is_new else tuple(samples)
    start = newest.active_seconds - WINDOW_SECONDS
    # The newest sample from before the window stays: it says what was known when the window began.
    while len(kept) > 1 and kept[1].active_seconds <= start:
        kept = kept[1:]
    if len(kept) > _MOST_SAMPLES:
        kept = (kept[0], *kept[1:-1:2], kept[-1])
    return kept


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}"
