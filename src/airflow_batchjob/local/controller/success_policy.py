"""successPolicy: enough indexes of the right kind have succeeded. The first rule that is met decides."""

from __future__ import annotations

from typing import Any

from airflow_batchjob.local.controller.intervals import Intervals


def met_rule(job: dict[str, Any], succeeded: Intervals) -> int | None:
    """Return the number of the first rule that is met, or None.

    Nothing is met while no index has succeeded, whatever the rules ask for.
    """
    policy = job["spec"].get("successPolicy")
    if not policy or not succeeded:
        return None
    completions = job["spec"]["completions"]
    for number, rule in enumerate(policy.get("rules") or ()):
        count, text = rule.get("succeededCount"), rule.get("succeededIndexes")
        if text is None:
            if count is not None and len(succeeded) >= count:
                return number
            continue
        listed = Intervals.parse(text, completions)
        if succeeded.overlap(listed) >= (len(listed) if count is None else count):
            return number
    return None
