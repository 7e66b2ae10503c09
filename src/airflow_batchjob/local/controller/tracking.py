"""Counting ended pods, none of them twice: named in the status, then let go, then a number."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_batchjob.local.controller.conditions import Finish, Outcome
from airflow_batchjob.local.controller.facts import PodFacts
from airflow_batchjob.local.controller.failure_policy import match_policy
from airflow_batchjob.local.controller.look import Look, counts_as_failed, in_range, is_indexed
from airflow_batchjob.local.controller.model import MOST_UNCOUNTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracking:
    """What became of the pods that are still tracked."""

    succeeded: tuple[str, ...]
    """Uids to name as succeeded; for Jobs without indexes, whose status has no other trace of them."""
    failed: tuple[str, ...]
    strip: tuple[str, ...]
    """Names of pods to take the finalizer off."""
    more: bool
    """The lists are full: the rest is for the next sync."""


def track(look: Look, finish: Finish | None) -> Tracking:
    """Find what is to be counted and let go."""
    uncounted = look.status.get("uncountedTerminatedPods") or {}
    succeeded = list(uncounted.get("succeeded") or ())
    failed = list(uncounted.get("failed") or ())
    known = {*succeeded, *failed}
    strip: list[str] = []
    kept = {pod.uid for pod in look.delayed.values()}
    named = len(known)
    for pod in look.pods:
        if not pod.tracked or not _may_let_go(look, pod, finish, kept):
            continue
        if named >= MOST_UNCOUNTED:
            return Tracking(succeeded=tuple(succeeded), failed=tuple(failed), strip=tuple(strip), more=True)
        strip.append(pod.name)
        if pod.uid in known:
            continue
        if pod.phase == "Succeeded":
            if not is_indexed(look.job):
                succeeded.append(pod.uid)
            named += 1
        elif _is_failure(look, pod, finish):
            failed.append(pod.uid)
            named += 1
    return Tracking(succeeded=tuple(succeeded), failed=tuple(failed), strip=tuple(strip), more=False)


def _may_let_go(look: Look, pod: PodFacts, finish: Finish | None, kept: set[str]) -> bool:
    if finish is not None or look.job["metadata"].get("deletionTimestamp") or pod.phase == "Succeeded":
        return True
    # The last failed pod of an index carries its failure count until the next pod does.
    return counts_as_failed(look.job, pod) and pod.uid not in kept


def _is_failure(look: Look, pod: PodFacts, finish: Finish | None) -> bool:
    if is_indexed(look.job) and not in_range(look.job, pod):
        return False
    if counts_as_failed(look.job, pod):
        return match_policy(look.job, pod).counts
    # A Job that fails takes with it what still runs, and that counts.
    return finish is not None and finish.outcome is Outcome.FAILED
