"""Jobs that really run, in the contract's cases: what containers do, and waiting for what becomes of them.

The same command runs as a process on the local cluster and in a busybox image on a real one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.contract.asking import Asker, Object

SUCCEEDS = ("true",)
FAILS = ("sh", "-c", "exit 1")
UNTIL_TERM = "trap 'exit 143' TERM; while :; do sleep 0.1; done"
LASTS = ("sh", "-c", UNTIL_TERM)  # takes SIGTERM at once, so that nothing waits for the grace
ONE_RUN_SECONDS = 60.0  # for a pod to be placed, started, and seen to end, on a busy machine

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"
IGNORE_LOSSES = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}


def runs(*command: str, name: str = "main", **fields: Any) -> Object:
    """Return a pod's fields with one container that runs a command."""
    main = {"name": name, "image": "busybox:1.36", "command": list(command)}
    return {"containers": [main], "terminationGracePeriodSeconds": 2, **fields}


def by_index(otherwise: str = UNTIL_TERM, /, **commands: str) -> Object:
    """Return a pod's fields whose command depends on its index: ``_0="exit 1"``; else it lasts."""
    cases = " ".join(f"{name[1:]}) {command};;" for name, command in commands.items())
    return runs("sh", "-c", f"case $JOB_COMPLETION_INDEX in {cases} *) {otherwise};; esac")


def conditions(job: Object) -> list[tuple[str, str]]:
    """Return type and reason of each condition that holds."""
    return [(c["type"], c["reason"]) for c in job["status"].get("conditions") or () if c["status"] == "True"]


def until(
    api: Asker, true: Callable[[Object], Any], name: str = "j", *, seconds: float = ONE_RUN_SECONDS
) -> Object:
    """Wait until something is true of a Job; return the Job."""

    def look() -> Object | None:
        seen = api.ask("GET", api.jobs(name)).body
        return seen if true(seen) else None

    found: Object = api.eventually(look, seconds=seconds)
    return found


def ended(api: Asker, name: str = "j", *, seconds: float = ONE_RUN_SECONDS) -> Object:
    return until(api, is_over, name, seconds=seconds)


def is_over(job: Object) -> bool:
    return bool({"Complete", "Failed"} & {kind for kind, _ in conditions(job)})


def ready(count: int) -> Callable[[Object], bool]:
    return lambda job: job["status"].get("ready") == count


def none_left(job: Object) -> bool:
    """Say whether no pod of the Job lives, and none is leaving."""
    return not job["status"].get("active") and job["status"].get("terminating") == 0


def pods_of(api: Asker, name: str = "j") -> list[Object]:
    """Return the pods of a Job, the oldest first."""
    answer = api.ask("GET", api.core("pods"), labelSelector=f"batch.kubernetes.io/job-name={name}")
    items: list[Object] = answer.body["items"]
    return sorted(items, key=lambda pod: (pod["metadata"]["creationTimestamp"], index_of(pod) or 0))


def index_of(pod: Object) -> int | None:
    text = pod["metadata"].get("annotations", {}).get(INDEX)
    return None if text is None else int(text)


def is_leaving(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def is_running(pod: Object) -> bool:
    return pod["status"]["phase"] == "Running" and not is_leaving(pod)


def has_begun(api: Asker, pod: Object, *, says: str = "up\n", query: Sequence[tuple[str, str]] = ()) -> None:
    """Wait until a pod's container has printed its first line: its traps are set then."""
    path = api.core("pods", pod["metadata"]["name"], "log")
    api.eventually(lambda: api.ask("GET", path, **dict(query)).body == says)


def evict(api: Asker, pod: Object, **fields: Any) -> Any:
    """Ask for the eviction of a pod; return the answer."""
    name = pod["metadata"]["name"]
    sent = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **fields}
    return api.ask("POST", api.core("pods", name, "eviction"), sent)
