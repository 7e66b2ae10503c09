"""Whether a Job ends, and why: the first reason that holds. Failure beats success."""

from __future__ import annotations

from airflow_batchjob.local.controller.conditions import Finish, Outcome, announced
from airflow_batchjob.local.controller.facts import parse_time
from airflow_batchjob.local.controller.failure_policy import Action, match_policy
from airflow_batchjob.local.controller.look import Look
from airflow_batchjob.local.controller.success_policy import met_rule

COMPLETIONS_REACHED = Finish(
    Outcome.COMPLETE, "CompletionsReached", "Reached expected number of succeeded pods"
)


def decide(look: Look) -> Finish | None:
    """Return the reason to end the Job now, other than that all its completions are there."""
    return (
        announced(look.job)
        or _fail_job_rule(look)
        or _backoff_limit(look)
        or _deadline(look)
        or _failed_indexes(look)
        or _success_policy(look)
    )


def deadline_seconds(look: Look) -> float | None:
    """Return how long the Job may still be active; None without a deadline or while suspended."""
    limit = look.spec.get("activeDeadlineSeconds")
    if limit is None or look.suspended:
        return None
    started = look.status.get("startTime")
    elapsed = (look.now - parse_time(started)).total_seconds() if started else 0.0
    return float(limit - elapsed)


def _fail_job_rule(look: Look) -> Finish | None:
    if not look.spec.get("podFailurePolicy"):
        return None
    for pod in look.failed:
        match = match_policy(look.job, pod)
        if match.action is Action.FAIL_JOB:
            return Finish(Outcome.FAILED, "PodFailurePolicy", match.message)
    return None


def _backoff_limit(look: Look) -> Finish | None:
    limit = look.spec["backoffLimit"]
    if look.failures > limit or _restarts_reach(look, limit):
        message = "Job has reached the specified backoff limit"
        return Finish(Outcome.FAILED, "BackoffLimitExceeded", message)
    return None


def _restarts_reach(look: Look, limit: int) -> bool:
    if look.spec["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    # Limits 0 and 1 both stop at the first restart: the controller compares so.
    restarts = sum(pod.restarts for pod in look.pods if pod.phase in ("Pending", "Running"))
    return restarts >= max(limit, 1)


def _deadline(look: Look) -> Finish | None:
    left = deadline_seconds(look)
    if left is None or left > 0:
        return None
    return Finish(Outcome.FAILED, "DeadlineExceeded", "Job was active longer than specified deadline")


def _failed_indexes(look: Look) -> Finish | None:
    failed = len(look.failed_indexes)
    if look.spec.get("backoffLimitPerIndex") is None or not failed:
        return None
    most = look.spec.get("maxFailedIndexes")
    if most is not None and failed > most:
        message = "Job has exceeded the specified maximal number of failed indexes"
        return Finish(Outcome.FAILED, "MaxFailedIndexesExceeded", message)
    if failed + look.succeeded_count >= look.spec["completions"]:
        return Finish(Outcome.FAILED, "FailedIndexes", "Job has failed indexes")
    return None


def _success_policy(look: Look) -> Finish | None:
    rule = met_rule(look.job, look.completed)
    if rule is None:
        return None
    return Finish(Outcome.COMPLETE, "SuccessPolicy", f"Matched rules at index {rule}")
