"""Pods as processes: exit codes, reasons, restarts, deletion, files. With real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_batchjob.local.pod_deletion import begin_deletion

NOW = datetime.now(timezone.utc)


def ended(status: dict[str, Any], container: int = 0) -> dict[str, Any]:
    terminated: dict[str, Any] = status["containerStatuses"][container]["state"]["terminated"]
    return terminated


ENDS = {
    "success": (["true"], "Succeeded", 0, "Completed"),
    "failure": (["sh", "-c", "exit 3"], "Failed", 3, "Error"),
    "a signal": (["sh", "-c", "kill -9 $$$$"], "Failed", 137, "Error"),
    "a command that is not there": (["no-such-command"], "Failed", 128, "StartError"),
    "a file that may not be executed": (["/etc/passwd"], "Failed", 128, "StartError"),
}


@pytest.mark.parametrize(
    ("command", "want_phase", "want_code", "want_reason"), ENDS.values(), ids=ENDS.keys()
)
async def test_an_end(
    cluster: Any, command: list[str], want_phase: str, want_code: int, want_reason: str
) -> None:
    cluster.pod(*command)

    status = await cluster.phase(want_phase)

    assert (ended(status)["exitCode"], ended(status)["reason"]) == (want_code, want_reason)


async def test_a_missing_command_is_named(cluster: Any) -> None:
    cluster.pod("no-such-command")

    status = await cluster.phase("Failed")

    assert ended(status)["message"] == 'exec: "no-such-command": executable file not found in $PATH'


async def test_events_say_where_a_pod_went_and_that_it_started(cluster: Any) -> None:
    pod = cluster.pod("true")
    await cluster.phase("Succeeded")

    node = cluster.get()["spec"]["nodeName"]
    told = [
        (event["reason"], event["message"], event["source"]["component"], event["type"])
        for event in cluster.store.list("events")
        if event["involvedObject"]["uid"] == pod["metadata"]["uid"]
    ]
    want = [
        ("Scheduled", f"Successfully assigned ns/p to {node}", "default-scheduler", "Normal"),
        ("Started", "Started container main", "kubelet", "Normal"),
    ]
    assert told == want


async def test_a_container_that_cannot_start_is_not_said_to_have_started(cluster: Any) -> None:
    cluster.pod("no-such-command")
    await cluster.phase("Failed")

    assert "Started" not in {event["reason"] for event in cluster.store.list("events")}


async def test_a_pod_is_seen_pending_running_and_over(cluster: Any) -> None:
    cluster.pod("true")
    await cluster.phase("Succeeded")

    phases = [change.object["status"]["phase"] for change in cluster.changes if change.kind == "pods"]
    assert list(dict.fromkeys(phases)) == ["Pending", "Running", "Succeeded"]


async def test_the_environment_is_the_pods_own(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVERS_OWN", "secret")
    env = [
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]
    container = {"env": env, "args": ["echo $NAME $NODE [$SERVERS_OWN] $HOSTNAME; pwd"]}

    pod = cluster.pod("sh", "-c", container=container, nodeSelector={"kubernetes.io/hostname": "desk"})
    await cluster.phase("Succeeded")

    first, folder = (await cluster.log(pod)).splitlines()
    assert first == "p desk [] p"
    assert Path(folder).is_relative_to(cluster.folder)


async def test_both_streams_reach_the_log_in_whole_lines(cluster: Any) -> None:
    pod = cluster.pod("sh", "-c", "echo one; echo two >&2; echo three")
    await cluster.phase("Succeeded")

    assert sorted((await cluster.log(pod)).splitlines()) == ["one", "three", "two"]


async def test_init_containers_run_in_order_before_the_others(cluster: Any) -> None:
    marks = cluster.folder / "marks"
    inits = [{"name": name, "command": ["sh", "-c", f"echo {name} >> {marks}"]} for name in ("a", "b")]

    cluster.pod("sh", "-c", f"echo main >> {marks}", initContainers=inits)
    status = await cluster.phase("Succeeded")

    assert marks.read_text().split() == ["a", "b", "main"]
    assert [one["state"]["terminated"]["exitCode"] for one in status["initContainerStatuses"]] == [0, 0]


async def test_an_init_container_that_fails_fails_the_pod(cluster: Any) -> None:
    cluster.pod("true", initContainers=[{"name": "init", "command": ["false"]}])

    status = await cluster.phase("Failed")

    assert "waiting" in status["containerStatuses"][0]["state"]


async def test_a_sidecar_goes_when_the_work_is_done(cluster: Any) -> None:
    sidecar = {"name": "side", "command": ["sleep", "60"], "restartPolicy": "Always"}

    cluster.pod("true", initContainers=[sidecar])
    status = await cluster.phase("Succeeded")

    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 143


async def test_the_pod_lasts_as_long_as_its_longest_container(cluster: Any) -> None:
    other = {"name": "other", "command": ["sh", "-c", "sleep 0.2; exit 4"]}
    main = {"name": "main", "command": ["true"]}

    cluster.pod("", containers=[main, other])
    status = await cluster.phase("Failed")

    assert [ended(status, number)["exitCode"] for number in (0, 1)] == [0, 4]


async def test_on_failure_the_container_starts_again_in_place(cluster: Any) -> None:
    mark = cluster.folder / "mark"
    script = f"test -e {mark} && exit 0; touch {mark}; echo first; exit 5"

    pod = cluster.pod("sh", "-c", script, restartPolicy="OnFailure")
    status = await cluster.phase("Succeeded")

    container = status["containerStatuses"][0]
    assert container["restartCount"] == 1
    assert container["lastState"]["terminated"]["exitCode"] == 5
    assert await cluster.log(pod, attempt=0) == "first\n"


async def test_a_container_that_keeps_failing_backs_off(cluster: Any) -> None:
    cluster.pod("false", restartPolicy="OnFailure")

    def waiting() -> Any:
        statuses = cluster.get()["status"].get("containerStatuses") or [{}]
        return (statuses[0].get("state") or {}).get("waiting", {}).get("reason") == "CrashLoopBackOff"

    await cluster.until(waiting)

    assert cluster.get()["status"]["phase"] == "Running"


async def test_a_deleted_pod_gets_its_time_and_then_goes(cluster: Any) -> None:
    cluster.pod("sh", "-c", "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done")
    await cluster.phase("Running")
    await asyncio.sleep(0.2)

    begin_deletion(cluster.store, cluster.get(), NOW)
    await cluster.until(lambda: cluster.get() is None)

    last = cluster.changes[-1]
    assert (last.type, last.object["status"]["phase"]) == ("DELETED", "Succeeded")
    assert ended(last.object["status"])["exitCode"] == 0


async def test_a_deleted_pod_that_does_not_listen_is_killed(cluster: Any) -> None:
    cluster.pod("sh", "-c", "trap '' TERM; while :; do sleep 0.05; done")
    await cluster.phase("Running")
    await asyncio.sleep(0.2)

    begin_deletion(cluster.store, cluster.get(), NOW, grace_seconds=1)
    await cluster.until(lambda: cluster.get() is None)

    assert ended(cluster.changes[-1].object["status"])["exitCode"] == 137


async def test_a_pod_has_a_deadline_of_its_own(cluster: Any) -> None:
    cluster.pod("sleep", "60", activeDeadlineSeconds=1)

    status = await cluster.phase("Failed")

    assert status["reason"] == "DeadlineExceeded"
    assert ended(status)["exitCode"] == 143


async def test_too_much_memory_ends_the_container(cluster: Any) -> None:
    hog = "x = bytearray(200 << 20)\nimport time\ntime.sleep(60)"
    container = {"resources": {"limits": {"memory": "100Mi"}}}

    cluster.pod(sys.executable, "-c", hog, container=container)
    status = await cluster.phase("Failed")

    assert (ended(status)["exitCode"], ended(status)["reason"]) == (137, "OOMKilled")


async def test_memory_of_children_counts(cluster: Any) -> None:
    hog = f"{sys.executable} -c 'x = bytearray(200 << 20); import time; time.sleep(60)' & wait"
    container = {"resources": {"limits": {"memory": "100Mi"}}}

    cluster.pod("sh", "-c", hog, container=container)
    status = await cluster.phase("Failed")

    assert ended(status)["reason"] == "OOMKilled"


async def test_what_a_container_leaves_behind_ends_with_it(cluster: Any) -> None:
    pids = cluster.folder / "pids"
    script = f"sleep 61 & echo $! > {pids}; setsid sh -c 'echo $$$$ >> {pids}; exec sleep 62' & sleep 0.3"

    cluster.pod("sh", "-c", script)
    await cluster.phase("Succeeded")
    left = [int(pid) for pid in pids.read_text().split()]

    assert len(left) == 2
    if not sys.platform.startswith("linux"):
        left = left[:1]  # who leaves the session is found on Linux only
    await cluster.until(lambda: not any(psutil.pid_exists(pid) for pid in left))


async def test_the_log_stands_in_for_a_message_where_asked(cluster: Any) -> None:
    container = {"terminationMessagePolicy": "FallbackToLogsOnError"}

    cluster.pod("sh", "-c", "echo why; exit 1", container=container)

    assert ended(await cluster.phase("Failed"))["message"] == "why\n"


async def test_a_missing_config_map_is_waited_for(cluster: Any) -> None:
    env = [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "k"}}}]
    pod = cluster.pod("sh", "-c", "echo $X", container={"env": env})

    def waiting() -> Any:
        statuses = cluster.get()["status"].get("containerStatuses") or [{}]
        return (statuses[0].get("state") or {}).get("waiting")

    assert (await cluster.until(waiting))["reason"] == "CreateContainerConfigError"
    cluster.store.create(
        "configmaps", {"metadata": {"name": "late", "namespace": "ns"}, "data": {"k": "here"}}
    )
    await cluster.phase("Succeeded")

    assert await cluster.log(pod) == "here\n"


async def test_what_cannot_be_done_is_refused_in_words(cluster: Any) -> None:
    cluster.pod("true", container={"livenessProbe": {"exec": {"command": ["true"]}}})

    status = await cluster.phase("Failed")

    assert status["reason"] == "Unsupported"
    assert "livenessProbe" in status["message"]


async def test_when_the_launcher_dies_what_ran_is_killed_and_the_cluster_goes_on(cluster: Any) -> None:
    cluster.pod("sleep", "60")
    await cluster.phase("Running")

    os.kill(cluster.agent.launcher_pid, signal.SIGKILL)
    status = await cluster.phase("Failed")
    cluster.pod("true", name="q")
    await cluster.phase("Succeeded", "q")

    assert ended(status)["exitCode"] == 137


async def test_stopping_the_cluster_leaves_no_process(cluster: Any) -> None:
    pids = cluster.folder / "pids"
    cluster.pod("sh", "-c", f"trap '' TERM; sleep 61 & echo $$$$ $! > {pids}; wait")
    await cluster.phase("Running")
    await cluster.until(lambda: pids.exists() and pids.read_text().endswith("\n"))

    await cluster.stop()

    assert not any(psutil.pid_exists(int(pid)) for pid in pids.read_text().split())


@pytest.fixture
def private_mounts(cluster: Any) -> None:
    if not cluster.agent.private_mounts:
        pytest.skip("this system lets no process have mounts of its own")


@pytest.mark.usefixtures("private_mounts")
async def test_a_volume_is_shared_by_containers_at_their_paths(cluster: Any) -> None:
    volumes = [{"name": "v", "emptyDir": {}}]
    writer = {
        "name": "w",
        "command": ["sh", "-c", "echo hello > /nowhere/else/file"],
        "volumeMounts": [{"name": "v", "mountPath": "/nowhere/else"}],
    }
    container = {"volumeMounts": [{"name": "v", "mountPath": "/dev/shm"}]}

    pod = cluster.pod("cat", "/dev/shm/file", container=container, initContainers=[writer], volumes=volumes)
    await cluster.phase("Succeeded")

    assert await cluster.log(pod) == "hello\n"
    assert not os.access("/nowhere", os.F_OK)


@pytest.mark.usefixtures("private_mounts")
async def test_a_termination_message_is_read_from_its_file(cluster: Any) -> None:
    cluster.pod("sh", "-c", "printf 42 > /dev/termination-log; exit 1")

    assert ended(await cluster.phase("Failed"))["message"] == "42"
    assert not os.access("/dev/termination-log", os.F_OK)


@pytest.mark.usefixtures("private_mounts")
async def test_a_read_only_mount_cannot_be_written_to(cluster: Any) -> None:
    container = {"volumeMounts": [{"name": "v", "mountPath": "/nowhere", "readOnly": True}]}

    cluster.pod("touch", "/nowhere/x", container=container, volumes=[{"name": "v", "emptyDir": {}}])

    assert ended(await cluster.phase("Failed"))["exitCode"] == 1
