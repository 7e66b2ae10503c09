"""The stages that are recorded: how Jobs get there on a real cluster, and when to look."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.cluster.cluster import Cluster
from tests.contract.asking import Asker, Object, indexed, job
from tests.contract.living import (
    FAILS,
    IGNORE_LOSSES,
    LASTS,
    SUCCEEDS,
    UNTIL_TERM,
    by_index,
    conditions,
    ended,
    evict,
    has_begun,
    none_left,
    pods_of,
    ready,
    runs,
    until,
)

SLOWLY = "trap 'sleep 4; exit 143' TERM; echo up; while :; do sleep 0.1; done"
HUNGRY = ("dd", "if=/dev/zero", "of=/dev/null", "bs=300M", "count=3")
ON_SPOT = {"nodeSelector": {"airflow-batchjob/capacity": "spot"}}

Snapshot = tuple[str, list[Object]]  # a stage's name, and the objects at that moment
Scenario = Callable[[Asker], Iterator[Snapshot]]


def snapshot(api: Asker, name: str = "j", *, events: bool = False) -> list[Object]:
    """Return a Job, its pods, and the events about them."""
    found: list[Object] = [api.ask("GET", api.jobs(name)).body]
    found += [{"apiVersion": "v1", "kind": "Pod", **pod} for pod in pods_of(api, name)]
    if events:
        about = api.ask("GET", api.core("events")).body["items"]
        found += [{"apiVersion": "v1", "kind": "Event", **event} for event in about]
    return found


def waiting_for(api: Asker, reason: str) -> None:
    """Wait until a container waits for this reason."""

    def waits() -> bool:
        statuses = [one for pod in pods_of(api) for one in pod["status"].get("containerStatuses", ())]
        return any(one["state"].get("waiting", {}).get("reason") == reason for one in statuses)

    api.eventually(waits, seconds=90)


def success(api: Asker) -> Iterator[Snapshot]:
    """an Indexed Job, while it runs and after it has completed."""
    api.have_job(
        indexed(completions=3, parallelism=2, pod=runs("sh", "-c", "sleep 3; echo $JOB_COMPLETION_INDEX"))
    )
    until(api, ready(2))
    yield "running", snapshot(api)
    ended(api)
    yield "complete", snapshot(api)


def success_without_indexes(api: Asker) -> Iterator[Snapshot]:
    """a Job without indexes that has completed."""
    api.have_job(job(completions=2, pod=runs(*SUCCEEDS)))
    ended(api)
    yield "complete-without-indexes", snapshot(api)


def failure(api: Asker) -> Iterator[Snapshot]:
    """a Job over its backoffLimit, while a pod still leaves and after its end."""
    pod = by_index(SLOWLY, _1="sleep 3; echo 'no such shard' >&2; exit 1") | {
        "terminationGracePeriodSeconds": 20
    }
    api.have_job(indexed(completions=2, parallelism=2, backoffLimit=0, pod=pod))
    until(api, conditions)
    yield "failing", snapshot(api)
    ended(api)
    yield "failed", snapshot(api)


def failed_indexes(api: Asker) -> Iterator[Snapshot]:
    """a Job of which indexes failed with a budget for each."""
    pod = by_index("exit 0", _1="exit 3", _3="exit 4")
    api.have_job(indexed(completions=5, parallelism=5, backoffLimitPerIndex=0, pod=pod))
    ended(api)
    yield "failed-indexes", snapshot(api)


def fuse(api: Asker) -> Iterator[Snapshot]:
    """a Job whose failed indexes exceeded maxFailedIndexes."""
    pod = by_index(UNTIL_TERM, _0="exit 1", _1="exit 1")
    api.have_job(indexed(completions=4, parallelism=4, backoffLimitPerIndex=0, maxFailedIndexes=1, pod=pod))
    ended(api)
    yield "fuse", snapshot(api)


def retried(api: Asker) -> Iterator[Snapshot]:
    """a Job of which one index failed and was run again."""
    api.have_job(indexed(completions=1, backoffLimitPerIndex=1, pod=runs("sh", "-c", "exit 7")))
    ended(api, seconds=90)
    yield "retried", snapshot(api)


def deadline(api: Asker) -> Iterator[Snapshot]:
    """a Job that was active longer than its deadline."""
    pod = by_index(UNTIL_TERM, _0="exit 0")
    api.have_job(indexed(completions=2, parallelism=2, activeDeadlineSeconds=6, pod=pod))
    ended(api)
    yield "deadline", snapshot(api)


def suspension(api: Asker) -> Iterator[Snapshot]:
    """a Job that was suspended while it ran, and resumed."""
    api.have_job(
        indexed(completions=3, parallelism=3, backoffLimitPerIndex=0, pod=by_index(UNTIL_TERM, _0="exit 0"))
    )
    until(api, lambda seen: seen["status"].get("completedIndexes") == "0" and ready(2)(seen))
    api.merge(api.jobs("j"), {"spec": {"suspend": True}})
    until(api, none_left)
    yield "suspended", snapshot(api)
    api.merge(api.jobs("j"), {"spec": {"suspend": False}})
    until(api, ready(2))
    yield "resumed", snapshot(api)


def told_what_is_done(api: Asker) -> Iterator[Snapshot]:
    """a suspended Job that was told what is done, then stopped as it was resumed."""
    api.have_job(indexed(completions=10, parallelism=3, suspend=True, pod=runs(*LASTS)))
    until(api, conditions)
    api.merge(api.jobs("j", "status"), {"status": {"completedIndexes": "0-2,5-8"}})
    yield "told", snapshot(api)
    api.merge(api.jobs("j"), {"spec": {"suspend": False, "activeDeadlineSeconds": 0}})
    ended(api)
    yield "told-and-stopped", snapshot(api)


def success_policy(api: Asker) -> Iterator[Snapshot]:
    """a Job whose success policy was met, while the other pods leave and after its end."""
    pod = by_index(SLOWLY, _0="sleep 3; exit 0") | {"terminationGracePeriodSeconds": 20}
    policy = {"rules": [{"succeededIndexes": "0"}]}
    api.have_job(indexed(completions=3, parallelism=3, successPolicy=policy, pod=pod))
    until(api, conditions)
    yield "success-policy-met", snapshot(api)
    ended(api)
    yield "success-policy", snapshot(api)


def failure_policy(api: Asker) -> Iterator[Snapshot]:
    """a Job that a rule of its failure policy ended."""
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42], "containerName": "main"}}
    api.have_job(job(podFailurePolicy={"rules": [rule]}, pod=runs("sh", "-c", "exit 42")))
    ended(api)
    yield "failure-policy", snapshot(api)


def out_of_memory(api: Asker) -> Iterator[Snapshot]:
    """a container that took more memory than its limit."""
    pod = runs(*HUNGRY)
    pod["containers"][0]["resources"] = {"limits": {"memory": "64Mi"}}
    api.have_job(indexed(completions=1, backoffLimitPerIndex=0, pod=pod))
    ended(api)
    yield "out-of-memory", snapshot(api)


def evicted(api: Asker) -> Iterator[Snapshot]:
    """a pod evicted through the API, before and after its replacement is there."""
    api.have_job(
        indexed(
            completions=1,
            backoffLimitPerIndex=0,
            podFailurePolicy=IGNORE_LOSSES,
            pod=runs("sh", "-c", SLOWLY),
        )
    )
    until(api, ready(1))
    [pod] = pods_of(api)
    has_begun(api, pod)
    evict(api, pod)
    path = api.core("pods", pod["metadata"]["name"])
    api.eventually(lambda: api.ask("GET", path).body["status"]["phase"] == "Failed")
    yield "evicted", snapshot(api)
    api.eventually(
        lambda: any("deletionTimestamp" not in one["metadata"] for one in pods_of(api)), seconds=40
    )
    until(api, ready(1))
    yield "evicted-and-replaced", snapshot(api)


def over_storage(api: Asker) -> Iterator[Snapshot]:
    """a pod that its kubelet evicted for a volume over its size limit."""
    pod = runs("sh", "-c", f"dd if=/dev/zero of=/scratch/file bs=1M count=20; {UNTIL_TERM}")
    pod["containers"][0]["volumeMounts"] = [{"name": "scratch", "mountPath": "/scratch"}]
    pod["volumes"] = [{"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}}]
    api.have_job(indexed(completions=1, backoffLimitPerIndex=0, pod=pod))
    ended(api, seconds=110)
    yield "evicted-over-storage", snapshot(api)


def images(api: Asker) -> Iterator[Snapshot]:
    """an image that cannot be pulled."""
    api.have_job(job(pod={"containers": [{"name": "main", "image": "127.0.0.1:1/nothing:1"}]}))
    waiting_for(api, "ErrImagePull")
    yield "image-pull-error", snapshot(api)
    waiting_for(api, "ImagePullBackOff")
    yield "image-pull-back-off", snapshot(api, events=True)


def image_never_there(api: Asker) -> Iterator[Snapshot]:
    """images of which one is not on the node and may not be pulled, and one has no valid name."""
    containers = [
        {"name": "main", "image": "nothing:1", "imagePullPolicy": "Never"},
        {"name": "second", "image": "No/Image"},
    ]
    api.have_job(job(pod={"containers": containers}))
    waiting_for(api, "ErrImageNeverPull")
    waiting_for(api, "InvalidImageName")
    yield "image-never-there", snapshot(api)


def missing_configuration(api: Asker) -> Iterator[Snapshot]:
    """a container that needs a ConfigMap which is not there."""
    pod = runs(*SUCCEEDS)
    pod["containers"][0]["envFrom"] = [{"configMapRef": {"name": "nowhere"}}]
    api.have_job(job(pod=pod))
    waiting_for(api, "CreateContainerConfigError")
    yield "missing-configuration", snapshot(api)


def missing_volume(api: Asker) -> Iterator[Snapshot]:
    """a volume whose Secret is not there: only events tell."""
    pod = runs(*SUCCEEDS)
    pod["containers"][0]["volumeMounts"] = [{"name": "secret", "mountPath": "/secret"}]
    pod["volumes"] = [{"name": "secret", "secret": {"secretName": "nowhere"}}]
    api.have_job(job(pod=pod))

    def said() -> bool:
        return any(
            event["reason"] == "FailedMount" for event in api.ask("GET", api.core("events")).body["items"]
        )

    api.eventually(said, seconds=60)
    yield "missing-volume", snapshot(api, events=True)


def cannot_start(api: Asker) -> Iterator[Snapshot]:
    """a command that is not in its image."""
    api.have_job(indexed(completions=1, backoffLimitPerIndex=0, pod=runs("/no/such/program")))
    ended(api)
    yield "cannot-start", snapshot(api)


def restarts_in_place(api: Asker) -> Iterator[Snapshot]:
    """a container that fails and is restarted in place."""
    api.have_job(job(pod=runs(*FAILS, restartPolicy="OnFailure")))
    waiting_for(api, "CrashLoopBackOff")
    yield "crash-loop", snapshot(api)


def unschedulable(api: Asker) -> Iterator[Snapshot]:
    """pods that no machine takes."""
    pod = runs(*SUCCEEDS)
    pod["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    api.have_job(indexed(completions=2, parallelism=2, pod=pod))
    api.eventually(lambda: len([1 for pod in pods_of(api) if pod["status"].get("conditions")]) == 2)
    yield "unschedulable", snapshot(api)


def quota(api: Asker) -> Iterator[Snapshot]:
    """a Job whose pods a quota forbids."""
    api.have("resourcequotas", {"metadata": {"name": "none-at-all"}, "spec": {"hard": {"pods": "0"}}})
    path = api.core("resourcequotas", "none-at-all")
    api.eventually(lambda: api.ask("GET", path).body["status"].get("hard"))
    api.have_job(job(pod=runs(*SUCCEEDS)))

    def said() -> bool:
        return any(
            event["reason"] == "FailedCreate" for event in api.ask("GET", api.core("events")).body["items"]
        )

    api.eventually(said)
    yield "quota", snapshot(api, events=True)


def deleting(api: Asker) -> Iterator[Snapshot]:
    """a Job deleted in the foreground, while its pod leaves."""
    api.have_job(job(pod=runs("sh", "-c", SLOWLY) | {"terminationGracePeriodSeconds": 20}))
    until(api, ready(1))
    has_begun(api, pods_of(api)[0])
    api.ask("DELETE", api.jobs("j"), {"propagationPolicy": "Foreground"})
    api.eventually(lambda: all("deletionTimestamp" in pod["metadata"] for pod in pods_of(api)))
    yield "deleting", snapshot(api)


def node_lost(api: Asker, cluster: Cluster) -> Iterator[Snapshot]:
    """a machine that is gone: its pod just before, then the dead pod and what replaces it."""
    api.have_job(
        indexed(
            completions=1, backoffLimitPerIndex=0, podFailurePolicy=IGNORE_LOSSES, pod=runs(*LASTS, **ON_SPOT)
        )
    )
    until(api, ready(1))
    version = api.ask("GET", api.core("pods")).body["metadata"]["resourceVersion"]
    cluster.lose_node("batchjob-spot")
    with api.watching(api.core("pods"), resourceVersion=version, timeoutSeconds=200) as events:
        dead: Any = next(
            event["object"] for event in events if event["object"]["status"]["phase"] == "Failed"
        )
    api.eventually(
        lambda: any(p["metadata"]["uid"] != dead["metadata"]["uid"] for p in pods_of(api)), seconds=60
    )
    api.eventually(lambda: pods_of(api)[-1]["status"].get("conditions"))
    now = [obj for obj in snapshot(api) if obj["metadata"]["uid"] != dead["metadata"]["uid"]]
    yield "node-lost", [now[0], dead, *now[1:]]


SCENARIOS: tuple[Scenario, ...] = (
    over_storage,
    success,
    success_without_indexes,
    failure,
    failed_indexes,
    fuse,
    retried,
    deadline,
    suspension,
    told_what_is_done,
    success_policy,
    failure_policy,
    out_of_memory,
    evicted,
    images,
    image_never_there,
    missing_configuration,
    missing_volume,
    cannot_start,
    restarts_in_place,
    unschedulable,
    quota,
    deleting,
)
