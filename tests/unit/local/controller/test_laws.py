"""What holds of every Job, whatever happens to its pods and in whatever order."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_batchjob.local.controller.intervals import Intervals
from tests.unit.local.controller.conftest import Simulated

specs = st.fixed_dictionaries(
    {
        "completions": st.integers(0, 6),
        "parallelism": st.integers(0, 4),
        "completionMode": st.sampled_from(["Indexed", "NonIndexed"]),
        "backoffLimit": st.integers(0, 4),
        "podReplacementPolicy": st.sampled_from(["Failed", "TerminatingOrFailed"]),
        "per_index": st.none() | st.integers(0, 2),
    }
)
steps = st.lists(
    st.tuples(st.sampled_from(["succeed", "fail", "delete", "leave", "wait", "pause"]), st.integers(0, 9)),
    max_size=25,
)


def _step(one: Any, what: str, number: int) -> None:
    names = [pod["metadata"]["name"] for pod in one.live.values()]
    name = names[number % len(names)] if names else None
    if what == "succeed" and name:
        one.succeed(name)
    elif what == "fail" and name:
        one.fail(name)
    elif what == "delete" and name:
        one.delete(name)
    elif what == "leave":
        one.leave()
    elif what == "wait":
        one.wait(number * 10)
    elif what == "pause":
        one.change(suspend=not one.job["spec"].get("suspend"))


def _check(one: Any) -> None:
    spec, status = one.job["spec"], one.status
    active, succeeded = status.get("active", 0), status.get("succeeded", 0)
    holding = {kind for kind, state, _ in one.conditions if state == "True"}
    assert active <= min(spec["parallelism"], max(0, spec["completions"] - succeeded))
    assert status.get("ready", 0) <= active
    assert not {"Complete", "Failed"} <= holding
    assert "Complete" not in holding or "SuccessCriteriaMet" in holding
    assert "Failed" not in holding or "FailureTarget" in holding
    assert ("completionTime" in status) == ("Complete" in holding)
    if holding & {"Complete", "Failed"}:
        assert (active, status["terminating"], status["uncountedTerminatedPods"]) == (0, 0, {})
    if spec["completionMode"] == "Indexed":
        completed = Intervals.parse(status.get("completedIndexes", ""), spec["completions"])
        assert len(completed) == succeeded
        failed = Intervals.parse(status.get("failedIndexes", ""), spec["completions"])
        assert completed.overlap(failed) == 0
    assert succeeded + status.get("failed", 0) <= len(one.pods) + len(one.gone)


@settings(max_examples=150, deadline=None)
@given(specs, steps)
def test_the_status_never_contradicts_itself(spec: dict[str, Any], taken: list[tuple[str, int]]) -> None:
    one = _start(dict(spec))
    _check(one)
    for what, number in taken:
        failed = one.status.get("failed", 0)
        _step(one, what, number)
        _check(one)
        assert one.status.get("failed", 0) >= failed


def _start(spec: dict[str, Any]) -> Any:
    per_index = spec.pop("per_index")
    if per_index is not None and spec["completionMode"] == "Indexed":
        spec |= {"backoffLimitPerIndex": per_index}
    return Simulated(**spec)
