"""Which pods to create and which to delete while a Job goes on. Never both in one sync."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from airflow_batchjob.local.controller.backoff import index_remaining_seconds, remaining_seconds
from airflow_batchjob.local.controller.facts import PodFacts
from airflow_batchjob.local.controller.failure_policy import match_policy
from airflow_batchjob.local.controller.look import Look, in_range, is_indexed, replaces_only_failed
from airflow_batchjob.local.controller.model import MOST_PODS_PER_SYNC, NewPod


@dataclass(frozen=True, slots=True, kw_only=True)
class Management:
    """What to do about the number of pods."""

    delete: tuple[PodFacts, ...] = ()
    create: tuple[NewPod, ...] = ()
    look_again_seconds: float | None = None


def manage(look: Look) -> Management:
    """Bring the pods of a Job that goes on to the number that is wanted."""
    if look.suspended:
        return Management(delete=tuple(look.active))
    wanted = _wanted(look)
    victims = _victims(look, len(look.active) - wanted)
    if victims:
        return Management(delete=tuple(victims[:MOST_PODS_PER_SYNC]))
    waiting = len(look.terminating) if replaces_only_failed(look.job) else 0
    room = min(wanted - len(look.active) - waiting, MOST_PODS_PER_SYNC)
    if room <= 0:
        return Management()
    if look.spec.get("backoffLimitPerIndex") is not None:
        return _create_after_own_delays(look, room)
    wait = remaining_seconds(look.memory.failures, look.memory.last_failure, look.now)
    if wait > 0:
        return Management(look_again_seconds=wait)
    if is_indexed(look.job):
        return Management(create=tuple(NewPod(index) for index in _pending_indexes(look, room)))
    return Management(create=(NewPod(),) * room)


def _wanted(look: Look) -> int:
    parallelism = int(look.spec["parallelism"])
    completions = look.spec.get("completions")
    if completions is None:  # a work queue: the first success says that there is no more work
        return len(look.active) if look.succeeded_count else parallelism
    return max(0, min(parallelism, int(completions) - look.succeeded_count))


def _victims(look: Look, surplus: int) -> list[PodFacts]:
    """Return the pods to delete: without a proper index or doubled first, then the least far ones."""
    misplaced: list[PodFacts] = []
    proper = list(look.active)
    if is_indexed(look.job):
        misplaced, proper = _misplaced(look)
    if len(misplaced) < surplus:
        proper.sort(key=lambda pod: pod.victim_order)
        misplaced += proper[: surplus - len(misplaced)]
    return misplaced


def _misplaced(look: Look) -> tuple[list[PodFacts], list[PodFacts]]:
    by_index: dict[int, list[PodFacts]] = defaultdict(list)
    misplaced, proper = [], []
    for pod in look.active:
        if pod.index is None or not in_range(look.job, pod):
            misplaced.append(pod)
        else:
            by_index[pod.index].append(pod)
    for pods in by_index.values():
        *doubled, best = sorted(pods, key=lambda pod: pod.victim_order)
        misplaced += doubled
        proper.append(best)
    return misplaced, proper


def _pending_indexes(look: Look, count: int) -> Iterator[int]:
    busy = {pod.index for pod in look.active}
    if replaces_only_failed(look.job):
        busy |= {pod.index for pod in look.terminating}
    done = look.completed.union(look.failed_indexes)
    return islice((i for i in done.missing(look.spec["completions"]) if i not in busy), count)


def _create_after_own_delays(look: Look, room: int) -> Management:
    # The lowest pending indexes are taken before their delays are looked at: an index that waits
    # keeps its place. So does Kubernetes.
    create: list[NewPod] = []
    waits: list[float] = []
    for index in _pending_indexes(look, room):
        last = look.delayed.get(index)
        wait = index_remaining_seconds(last, look.now) if last else 0.0
        if wait > 0:
            waits.append(wait)
        else:
            create.append(_next_attempt(look, index, last))
    return Management(create=tuple(create), look_again_seconds=min(waits, default=None))


def _next_attempt(look: Look, index: int, last: PodFacts | None) -> NewPod:
    if last is None:
        return NewPod(index, 0)
    if match_policy(look.job, last).counts:
        return NewPod(index, last.failure_count + 1, last.ignored_count)
    return NewPod(index, last.failure_count, last.ignored_count + 1)
