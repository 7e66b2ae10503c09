"""How many, how often and how long: completions, budgets, thresholds, exit codes and deadlines of a Job.

A parameter overrides, and one that is not given changes nothing. The exceptions are all here or in
`core.manifest`, and each leaves a note.
"""

from __future__ import annotations

from collections.abc import Iterator

from airflow_batchjob.core.capacity.spot_rules import DEFAULT_PENDING_SECONDS, falls_back, is_spot
from airflow_batchjob.core.errors import Problem
from airflow_batchjob.core.request.budget import (
    Share,
    Thresholds,
    ceiling_of,
    count_problem,
    floor_of,
    share_problem,
    threshold_problems,
    whole_number,
)
from airflow_batchjob.core.request.draft import INDEXED, NON_INDEXED, Draft, number_or_raw
from airflow_batchjob.core.request.parameters import skip_problem
from airflow_batchjob.core.request.policies import (
    FAIL_INDEX,
    SKIP,
    exit_code_problems,
    exit_code_rules,
    read_exit_codes,
    success_policy,
)
from airflow_batchjob.core.request.spec import JobSpec


def set_limits(draft: Draft, asked: JobSpec, container: str) -> None:
    """Put everything about size, budgets and ends into `draft`.

    Args:
        draft: With its pod in place, whose restart policy decides which budgets there are.
        asked: The parameters.
        container: Whose exit codes have a meaning.
    """
    _set_size(draft, asked)
    if asked.deadline_seconds is not None:
        draft.put("activeDeadlineSeconds", asked.deadline_seconds, "deadline_seconds")
    if draft.mode == NON_INDEXED:
        draft.problems.extend(_index_problems(draft, asked))
        if asked.backoff_limit is not None:
            draft.put("backoffLimit", asked.backoff_limit, "backoff_limit")
    elif draft.restarts_in_place:
        _set_budget_in_place(draft, asked)
    else:
        _set_budgets(draft, asked)
    _set_exit_codes(draft, asked, container)
    if draft.mode != NON_INDEXED:
        _set_success(draft, asked)
        _check_thresholds(draft, asked)


def thresholds_of(draft: Draft, asked: JobSpec) -> Thresholds:
    """Return the numbers that the supervisor judges by. Takes a draft without problems."""
    completions, fuse = draft.completions, draft.spec.get("maxFailedIndexes")
    deadline = draft.spec.get("activeDeadlineSeconds")
    pending = asked.pending_seconds
    if pending is None and falls_back(asked.capacity):
        pending = DEFAULT_PENDING_SECONDS
    needed = None
    if asked.min_succeeded is not None and completions is not None:
        needed = ceiling_of(asked.min_succeeded, completions)
    return Thresholds(
        completions=completions,
        indexed=draft.mode == INDEXED,
        min_succeeded=needed,
        stop_when_succeeded=asked.stop_when_succeeded,
        max_failed_indexes=None if fuse is None else whole_number(fuse),
        deadline_seconds=None if deadline is None else whole_number(deadline),
        pending_seconds=None if pending is None else whole_number(pending),
    )


def _set_size(draft: Draft, asked: JobSpec) -> None:
    spec = draft.spec
    if asked.completions is not None:
        draft.put("completions", asked.completions, "completions")
    if asked.parallelism is not None:
        draft.put("parallelism", asked.parallelism, "parallelism")
    if draft.from_parameters:
        spec["completionMode"] = INDEXED
        spec.setdefault("completions", 1)
        if "parallelism" not in spec:
            # Who wrote no number for completions wrote nothing about parallelism.
            is_number = count_problem("completions", spec["completions"]) is None
            draft.put("parallelism", spec["completions"], "parallelism" if is_number else "completions")
        spec["podReplacementPolicy"] = "Failed"
        _check_parallelism(draft, asked)
        return
    if asked.completions is not None and spec.get("completionMode") is None:
        spec["completionMode"] = INDEXED
        draft.notes.append("completionMode is Indexed: completions is given, and the manifest names no mode")
    if spec.get("parallelism") is None and (draft.completions or 0) > 1:
        draft.notes.append("parallelism is not given: Kubernetes runs one pod at a time")
    _check_parallelism(draft, asked)


def _check_parallelism(draft: Draft, asked: JobSpec) -> None:
    if draft.completions == 0 or number_or_raw(draft.spec.get("parallelism")) != 0:
        return
    if asked.parallelism is not None:
        why = "no pod would ever start, so the Job would never end"
        draft.refuse("parallelism", asked.parallelism, why, "Give 1 or more")
    else:
        draft.notes.append("the manifest's parallelism is 0: no pod starts until someone raises it")


def _index_problems(draft: Draft, asked: JobSpec) -> Iterator[Problem]:
    needing = {
        "retries_per_index": asked.retries_per_index,
        "max_failed_indexes": asked.max_failed_indexes,
        "min_succeeded": asked.min_succeeded,
        "stop_when_succeeded": asked.stop_when_succeeded or None,
        f"exit_codes[{FAIL_INDEX!r}]": asked.exit_codes.get(FAIL_INDEX) or None,
    }
    named = draft.spec.get("completionMode") is not None
    mode = "NonIndexed" if named else "NonIndexed (none is named)"
    why = f"it needs indexes, and the manifest's completionMode is {mode}"
    mend = f"Write completionMode: Indexed in the manifest{'' if named else ', or give completions'}"
    return (Problem(name, value, why, mend) for name, value in needing.items() if value is not None)


def _set_budgets(draft: Draft, asked: JobSpec) -> None:
    spec = draft.spec
    if asked.retries_per_index is not None:
        draft.put("backoffLimitPerIndex", asked.retries_per_index, "retries_per_index")
    if asked.max_failed_indexes is not None:
        draft.put("maxFailedIndexes", _allowed(draft, asked.max_failed_indexes), "max_failed_indexes")
        if spec.get("backoffLimitPerIndex") is None and not draft.from_parameters:
            spec["backoffLimitPerIndex"] = 0
            draft.notes.append("retries_per_index is 0, since max_failed_indexes is given without it")
    spot = is_spot(asked.capacity)
    if spot and spec.get("backoffLimitPerIndex") is None:
        spec["backoffLimitPerIndex"] = 0
        draft.notes.append(
            "retries_per_index is 0, since spot is asked for without it: losses are counted by index; a lost "
            "machine costs no retry, a fault of the program has none"
        )
    if draft.from_parameters:
        spec.setdefault("backoffLimitPerIndex", 0)
    given = spot or asked.retries_per_index is not None or asked.max_failed_indexes is not None
    if asked.backoff_limit is not None:
        draft.put("backoffLimit", asked.backoff_limit, "backoff_limit")
    elif given and (limit := spec.pop("backoffLimit", None)) is not None:
        draft.notes.append(
            f"the manifest's backoffLimit ({limit}) is left out, since budgets per index are given: it would "
            "end the Job after so many pod failures whatever they say; backoff_limit brings it back"
        )


def _set_budget_in_place(draft: Draft, asked: JobSpec) -> None:
    why = (
        "with restartPolicy OnFailure containers restart in place: pods hardly ever fail, and the restarts "
        "of all live pods count together, so there is no budget per index"
    )
    mend = "Give backoff_limit in its place, or write restartPolicy: Never"
    for name in ("retries_per_index", "max_failed_indexes"):
        if (value := getattr(asked, name)) is not None:
            draft.refuse(name, value, why, mend)
    if asked.backoff_limit is not None:
        draft.put("backoffLimit", asked.backoff_limit, "backoff_limit")
    elif draft.spec.get("backoffLimit") is None:
        mend = "Give the number of restarts, over all pods, at which the Job ends"
        draft.refuse("backoff_limit", None, f"missing: {why}", mend)
    if draft.spec.get("backoffLimitPerIndex") is not None:
        draft.notes.append(
            "the manifest's backoffLimitPerIndex hardly ever acts: OnFailure restarts in place"
        )


def _set_exit_codes(draft: Draft, asked: JobSpec, container: str) -> None:
    if not asked.exit_codes or not container or any(exit_code_problems(asked.exit_codes)):
        return
    if draft.restarts_in_place:
        why = "with restartPolicy OnFailure containers restart in place, whatever their exit code"
        draft.refuse("exit_codes", dict(asked.exit_codes), why, "Write restartPolicy: Never")
        return
    codes = read_exit_codes(asked.exit_codes)
    if draft.mode == NON_INDEXED:
        codes.pop(FAIL_INDEX, None)
    is_queue = draft.spec.get("completions") is None and draft.completions is None
    if SKIP in codes and (is_queue or (draft.completions or 1) > 1):
        draft.problems.append(skip_problem(asked, draft.completions))
    if not codes:
        return
    policy = draft.spec.get("podFailurePolicy") or {}
    ours = exit_code_rules(codes, container)
    draft.spec["podFailurePolicy"] = {**policy, "rules": [*ours, *(policy.get("rules") or [])]}
    for at, meaning in enumerate(codes):
        draft.names[f"spec.podFailurePolicy.rules[{at}]"] = f"exit_codes[{meaning!r}]"
    # The manifest's own rules have moved; their author knows them by their old places.
    for at in range(len(policy.get("rules") or [])):
        draft.names[f"spec.podFailurePolicy.rules[{at + len(ours)}]"] = f"spec.podFailurePolicy.rules[{at}]"


def _set_success(draft: Draft, asked: JobSpec) -> None:
    if not asked.stop_when_succeeded:
        return
    if asked.min_succeeded is None:
        draft.notes.append("stop_when_succeeded does nothing without min_succeeded: all indexes are needed")
        return
    completions = draft.completions
    if not completions or share_problem("min_succeeded", asked.min_succeeded):
        return
    if draft.spec.get("successPolicy") is not None:
        draft.notes.append("the manifest's successPolicy is replaced by that of stop_when_succeeded")
    draft.spec["successPolicy"] = success_policy(ceiling_of(asked.min_succeeded, completions))
    draft.names["spec.successPolicy"] = "min_succeeded"


def _check_thresholds(draft: Draft, asked: JobSpec) -> None:
    if not draft.completions:
        return
    if asked.min_succeeded is not None and _least(asked.min_succeeded, draft.completions) == 0:
        draft.notes.append("min_succeeded is 0: however many indexes fail, the Job has met what is asked")
    own = draft.spec.get("maxFailedIndexes")
    fuse = own if asked.max_failed_indexes is None else asked.max_failed_indexes
    draft.problems.extend(
        threshold_problems(
            draft.completions,
            max_failed_indexes=fuse,
            min_succeeded=asked.min_succeeded,
            fuse_field=draft.names.get("spec.maxFailedIndexes", "spec.maxFailedIndexes"),
        )
    )


def _least(share: Share, completions: int) -> int | None:
    try:
        return ceiling_of(share, completions)
    except ValueError:
        return None  # named already


def _allowed(draft: Draft, share: Share) -> Share:
    if draft.completions is None:
        return share
    try:
        return floor_of(share, draft.completions)
    except ValueError:
        return share  # named already
