"""How often each index of one Job was lost in one try, over suspensions and crashes: from pods as seen.

Kubernetes' own count of an index stands on its newest pod. It starts again at 0 after a suspension, and
goes on when another try takes a living Job over: both are made up for here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from airflow_batchjob.core.capacity.capacity import Signs
from airflow_batchjob.core.capacity.losses import Count, Loss, Losses, loss_of
from airflow_batchjob.core.capacity.marks import LossMark, from_ranges, to_ranges
from airflow_batchjob.core.reading.endings import Confidence, Ending, Node
from airflow_batchjob.core.reading.job import Job
from airflow_batchjob.core.reading.pods import Lifecycle, Pod, index_of, lifecycle_of, losses_before

_MOST_SECONDS = 500  # indexes whose lost time is written onto the Job


@dataclass(kw_only=True)
class LossCount:
    """The state of one try's counting; what matters of it is in `mark`, on the Job.

    Attributes:
        holder: Whose try it is.
        signs: What tells a spot node, and one that is about to go.
        since: The Job's start that Kubernetes' counts belong to, in epoch seconds.
        before: Losses by index up to then, and those that Kubernetes does not count.
        skipped: Of `seen`, what an earlier try or an earlier start has had.
        seen: What Kubernetes counts since then.
        totals: All losses by index.
        pressure: Of these, evictions because a node ran low.
        seconds: For how long lost pods had run, by index.
    """

    holder: str
    signs: Signs
    since: float = 0.0
    before: Counter[int] = field(default_factory=Counter)
    skipped: Counter[int] = field(default_factory=Counter)
    seen: Counter[int] = field(default_factory=Counter)
    totals: Counter[int] = field(default_factory=Counter)
    pressure: Counter[int] = field(default_factory=Counter)
    pressure_words: str = ""
    seconds: dict[int, float] = field(default_factory=dict)
    lost_seconds: float = 0.0
    told: set[str] = field(default_factory=set)  # uids of pods whose loss is counted
    ended: set[str] = field(default_factory=set)
    running: set[str] = field(default_factory=set)
    has_seen_any: bool = False  # of its pods: until they have been listed, nothing is known of them

    @classmethod
    def of(cls, mark: LossMark | None, holder: str, signs: Signs) -> LossCount:
        """Go on from what a mark says; another try's is what has to be left out."""
        if mark is None:
            return cls(holder=holder, signs=signs)
        totals, before = Counter(from_ranges(mark.counts)), Counter(from_ranges(mark.before))
        skipped = Counter(from_ranges(mark.skipped))
        seen = totals - before + skipped
        if mark.holder != holder:
            return cls(holder=holder, signs=signs, since=mark.since, skipped=seen, seen=seen.copy())
        return cls(
            holder=holder,
            signs=signs,
            since=mark.since,
            before=before,
            skipped=skipped,
            seen=seen,
            totals=totals,
            pressure=Counter(from_ranges(mark.pressure)),
            seconds=mark.seconds_by_index,
            lost_seconds=mark.lost_seconds,
        )

    def start(self, job: Job) -> None:
        """Take note of a start: after a suspension Kubernetes counts from 0 again."""
        began = job.status.start_time
        if began is None or began.timestamp() <= self.since:
            return
        if self.since:
            # An index that was lost and not replaced yet keeps its count over a suspension; of one that ran,
            # the first pod says 0: see `_know`.
            self.before, self.skipped, self.seen = self.totals.copy(), self.seen, Counter()
        self.since = began.timestamp()

    def see(self, pod: Pod, now: float, *, gone: bool = False, node: Node | None = None) -> Loss | None:
        """Take a pod as it is; return its loss if that is new."""
        uid, index = pod.metadata.uid, index_of(pod)
        stage = lifecycle_of(pod)
        self.has_seen_any = True
        if stage is Lifecycle.RUNNING and not gone:
            self.running.add(uid)
        else:
            self.running.discard(uid)
        if index is None or self._is_of_an_earlier_start(pod):
            return None
        before = losses_before(pod)
        if before < self.skipped[index]:
            self.skipped[index] = before
            self._know(index, self.seen[index])
        loss = loss_of(pod, now=now, signs=self.signs, node=node)
        if loss is None:
            if pod.is_over:
                self.ended.add(uid)
            return self._from_count(pod, index)
        if uid in self.told:
            return None
        self.told.add(uid)
        self.ended.discard(uid)
        return loss if self._is_new(pod, loss) else None

    def snapshot(self) -> Losses:
        """Return all that decides."""
        by_capacity = self.totals - self.pressure
        return Losses(
            total=self.totals.total(),
            worst=_most(by_capacity),
            pressed=_most(self.pressure),
            pressed_words=self.pressure_words,
            ended=len(self.ended),
            running=len(self.running) if self.has_seen_any else None,
        )

    @property
    def mark(self) -> LossMark:
        """What whoever comes later needs to know."""
        longest = sorted(self.seconds, key=lambda index: -self.seconds[index])
        return LossMark(
            holder=self.holder,
            counts=to_ranges(self.totals),
            before=to_ranges(self.before),
            skipped=to_ranges(self.skipped),
            pressure=to_ranges(self.pressure),
            since=self.since,
            seconds={str(index): round(self.seconds[index], 1) for index in longest[:_MOST_SECONDS]},
            lost_seconds=round(self.lost_seconds, 1),
        )

    def _is_new(self, pod: Pod, loss: Loss) -> bool:
        """Count a loss; an earlier process may have done so, or its replacement may have told of it."""
        index = loss.index
        if loss.is_marked:
            known = self.totals[index]
            self._know(index, losses_before(pod) + 1)
            if self.totals[index] == known:
                return False
        elif loss.confidence is Confidence.HIGH:
            self.before[index] += 1  # Kubernetes takes it for a fault
            self.totals[index] += 1
        self.seconds[index] = self.seconds.get(index, 0.0) + loss.seconds
        self.lost_seconds += loss.seconds
        if loss.ending is Ending.NODE_PRESSURE:
            self.pressure[index] += 1
            self.pressure_words = pod.status.message or self.pressure_words
        return True

    def _from_count(self, pod: Pod, index: int) -> Loss | None:
        """Return a loss that nobody saw, and that the replacement tells of."""
        known = self.totals[index]
        self._know(index, losses_before(pod))
        if self.totals[index] <= known:
            return None
        return Loss(index=index, pod="", node="", ending=Ending.UNKNOWN)

    def _know(self, index: int, count: int) -> None:
        """Take what Kubernetes counts for an index since the latest start."""
        self.seen[index] = max(self.seen[index], count)
        self.totals[index] = self.before[index] + max(0, self.seen[index] - self.skipped[index])

    def _is_of_an_earlier_start(self, pod: Pod) -> bool:
        created = pod.metadata.creation_timestamp
        return created is not None and created.timestamp() < self.since


def _most(counts: Counter[int]) -> Count | None:
    if not counts:
        return None
    index, losses = max(counts.items(), key=lambda item: (item[1], -item[0]))
    return Count(index=index, losses=losses) if losses > 0 else None
