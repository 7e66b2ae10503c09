"""What Kubernetes refuses in a write of a Job's status. A rule looks only at what the write changes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from airflow_batchjob.local.api.job_policy_rules import overlap, parse_indexes
from airflow_batchjob.local.api.status import OMITTED, Problem, Problems, duplicate, invalid, required
from airflow_batchjob.local.store import Object

_COUNTS = ("active", "succeeded", "failed", "ready", "terminating")
_LASTING = ("Failed", "Complete", "FailureTarget")


class _Look:
    """A status, read: the questions that the rules ask."""

    def __init__(self, job: Object) -> None:
        self.spec: Object = job["spec"]
        self.status: Object = job.get("status") or {}
        self.true = {c["type"] for c in self.status.get("conditions", ()) if c.get("status") == "True"}
        self.false = {c["type"] for c in self.status.get("conditions", ()) if c.get("status") == "False"}

    @property
    def finished(self) -> bool:
        return bool(self.true & {"Complete", "Failed"})

    def count(self, name: str) -> int:
        return self.status.get(name) or 0


def job_status_problems(job: Object, old: Object) -> Problems:
    """Return everything that is wrong with writing the status of `job` over that of `old`."""
    new, was = _Look(job), _Look(old)
    problems: Problems = [
        invalid(f"status.{name}", new.count(name), "must be greater than or equal to 0")
        for name in _COUNTS
        if new.count(name) < 0
    ]
    problems += _uncounted_problems(new)
    problems += _condition_problems(new, was)
    problems += _time_problems(new, was)
    problems += _finished_problems(new, was)
    problems += _index_problems(new, was)
    return [*problems, *_lasting_problems(new, was)]


def _changed(new: _Look, was: _Look, *names: str) -> bool:
    return any(new.status.get(name) != was.status.get(name) for name in names)


def _turned(new: _Look, was: _Look, *types: str) -> bool:
    return any((type_ in new.true) != (type_ in was.true) for type_ in types)


def _uncounted_problems(new: _Look) -> Iterable[Problem]:
    seen: set[str] = set()
    for name in ("succeeded", "failed"):
        uids = (new.status.get("uncountedTerminatedPods") or {}).get(name) or ()
        for number, uid in enumerate(uids):
            field = f"status.uncountedTerminatedPods.{name}[{number}]"
            if not uid:
                yield invalid(field, uid, "must not be empty")
            elif uid in seen:
                yield duplicate(field, uid)
            seen.add(uid)


def _condition_problems(new: _Look, was: _Look) -> Iterable[Problem]:
    def wrong(words: str) -> Problem:
        return invalid("status.conditions", OMITTED, words)

    true = new.true
    if _turned(new, was, "Complete", "Failed") and {"Complete", "Failed"} <= true:
        yield wrong("cannot set Complete=True and Failed=true conditions")
    if _turned(new, was, "Complete", "FailureTarget") and {"Complete", "FailureTarget"} <= true:
        yield wrong("cannot set Complete=True and FailureTarget=true conditions")
    unannounced = "Failed" in true and "FailureTarget" not in true
    if unannounced and (_turned(new, was, "Failed") or _changed(new, was, "failedIndexes")):
        yield wrong("cannot set Failed=True condition without the FailureTarget=true condition")
    unmet = "Complete" in true and "SuccessCriteriaMet" not in true
    if unmet and _turned(new, was, "Complete", "SuccessCriteriaMet"):
        yield wrong("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
    if {"SuccessCriteriaMet", "Failed"} <= true:
        yield wrong("cannot set SuccessCriteriaMet=True and Failed=true conditions")
    if {"SuccessCriteriaMet", "FailureTarget"} <= true:
        yield wrong("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")


def _time_problems(new: _Look, was: _Look) -> Iterable[Problem]:
    start, end = new.status.get("startTime"), new.status.get("completionTime")
    complete = "Complete" in new.true
    if _turned(new, was, "Complete") or _changed(new, was, "completionTime"):
        if end and not complete:
            words = "cannot set completionTime when there is no Complete=True condition"
            yield invalid("status.completionTime", end, words)
        if complete and not end:
            yield required("status.completionTime", "completionTime is required for Complete jobs")
    if _changed(new, was, "startTime", "completionTime") and start and end and _moment(end) < _moment(start):
        yield invalid("status.completionTime", end, "must be equal to or after `startTime`")
    if end and was.status.get("completionTime") not in (None, end):
        yield invalid("status.completionTime", end, "field is immutable")
    resuming = "Suspended" in was.true and "Suspended" in new.false
    started = was.status.get("startTime")
    if started and started != start and not resuming and not new.spec.get("suspend"):
        yield invalid("status.startTime", start, "field is immutable for unsuspended job once set")


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _finished_problems(new: _Look, was: _Look) -> Iterable[Problem]:
    turned = new.finished != was.finished
    if new.finished:
        for name in ("active", "terminating"):
            if new.count(name) > 0 and (turned or _changed(new, was, name)):
                words = f"{name}>0 is invalid for finished job"
                yield invalid(f"status.{name}", new.count(name), words)
        never_started = new.spec.get("suspend") is True and new.spec.get("completions") == 0
        if (
            "startTime" not in new.status
            and (turned or _changed(new, was, "startTime"))
            and not never_started
        ):
            yield required("status.startTime", "startTime is required for finished job")
        uncounted = new.status.get("uncountedTerminatedPods") or {}
        if any(uncounted.values()) and (turned or _changed(new, was, "uncountedTerminatedPods")):
            yield invalid("status.uncountedTerminatedPods", uncounted, "must be empty for finished job")
    if new.count("ready") > new.count("active") and _changed(new, was, "ready", "active"):
        yield invalid("status.ready", new.count("ready"), "cannot set more ready pods than active")


def _index_problems(new: _Look, was: _Look) -> Iterable[Problem]:
    completed, failed = new.status.get("completedIndexes", ""), new.status.get("failedIndexes")
    completions, per_index = new.spec.get("completions"), "backoffLimitPerIndex" in new.spec
    changed = [name for name in ("completedIndexes", "failedIndexes") if _changed(new, was, name)]
    parsed: dict[str, list[tuple[int, int]]] = {}
    for name, text in (("completedIndexes", completed), ("failedIndexes", failed or "")):
        if completions is None:
            continue
        try:
            parsed[name] = parse_indexes(text, completions)
        except ValueError as error:
            if name in changed and (name == "completedIndexes" or per_index):
                yield invalid(f"status.{name}", text, f"error parsing {name}: {error}")
    if "completedIndexes" in changed and completed and new.spec["completionMode"] != "Indexed":
        words = "cannot set non-empty completedIndexes when non-indexed completion mode"
        yield invalid("status.completedIndexes", completed, words)
    if "failedIndexes" in changed and failed is not None and not per_index:
        words = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        yield invalid("status.failedIndexes", failed, words)
    if changed and failed is not None and len(parsed) == 2:
        both = overlap(parsed["completedIndexes"], parsed["failedIndexes"])
        if both is not None:
            words = f"failedIndexes and completedIndexes overlap at index: {both}"
            yield invalid("status.failedIndexes", failed, words)


def _lasting_problems(new: _Look, was: _Look) -> Iterable[Problem]:
    for type_ in _LASTING:
        if type_ in was.true and type_ not in new.true:
            words = f"cannot disable the terminal {type_}=True condition"
            yield invalid("status.conditions", OMITTED, words)
    if new.count("failed") < was.count("failed"):
        yield invalid("status.failed", new.count("failed"), "cannot decrease the failed counter")
    elastic = new.spec["completionMode"] == "Indexed" and new.spec.get("completions") == new.spec.get(
        "parallelism"
    )
    if new.count("succeeded") < was.count("succeeded") and not elastic:
        yield invalid("status.succeeded", new.count("succeeded"), "cannot decrease the succeeded counter")
    if "SuccessCriteriaMet" in was.true and "SuccessCriteriaMet" not in new.true:
        yield invalid("status.conditions", OMITTED, "cannot disable the SuccessCriteriaMet=True condition")
    if "Complete" in was.true and "SuccessCriteriaMet" in new.true - was.true:
        words = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        yield invalid("status.conditions", OMITTED, words)
