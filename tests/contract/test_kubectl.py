"""kubectl itself: apply, get -w, logs -f, wait, delete, describe. The newest of those built."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.build import VERSIONS, find
from tests.cluster.target import Target
from tests.contract.asking import Asker, Object, indexed, job
from tests.contract.living import LASTS, SUCCEEDS, ended, pods_of, ready, runs, until

Kubectl = Callable[..., "subprocess.CompletedProcess[str]"]
SECONDS = 60


@pytest.fixture(scope="session")
def program() -> list[str]:
    built = [binary for version in VERSIONS if (binary := find(version))]
    if built:
        return [str(built[-1]), "kubectl"]
    if (installed := shutil.which("kubectl")) is not None:
        return [installed]
    pytest.skip("no kubectl on PATH, and none built: make test-cluster builds one")


@pytest.fixture
def words(program: list[str], cluster: Target, api: Asker) -> list[str]:
    return [*program, f"--kubeconfig={cluster.kubeconfig}", f"--namespace={api.namespace}"]


@pytest.fixture
def kubectl(words: list[str], tmp_path: Path) -> Kubectl:
    """Run kubectl in the test's namespace; it must succeed unless `check=False`."""

    def run(*more: str, stdin: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*words, *more], input=stdin, capture_output=True, text=True, timeout=SECONDS, check=False,
            env={**os.environ, "HOME": str(tmp_path)},  # its caches
        )  # fmt: skip
        assert done.returncode == 0 or not check, done.stderr
        return done

    return run


@pytest.fixture
def started(words: list[str], tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start kubectl with commands that go on; they are ended with the test."""
    running: list[subprocess.Popen[str]] = []

    def start(*more: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [*words, *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "HOME": str(tmp_path)},
        )  # fmt: skip
        running.append(child)
        return child

    yield start
    for child in running:
        child.kill()
        child.communicate()


def text(obj: Object) -> str:
    return yaml.safe_dump(obj)


def read(done: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(done.stdout)


def test_apply_creates_changes_and_leaves(kubectl: Kubectl) -> None:
    first = indexed(completions=2, suspend=True)

    created = kubectl("apply", "-f", "-", stdin=text(first)).stdout
    same = kubectl("apply", "-f", "-", stdin=text(first)).stdout
    first["spec"]["parallelism"] = 2
    changed = kubectl("apply", "-f", "-", stdin=text(first)).stdout
    stored = read(kubectl("get", "job", "j", "-o", "json"))

    assert (created, same, changed) == (
        "job.batch/j created\n",
        "job.batch/j unchanged\n",
        "job.batch/j configured\n",
    )
    assert stored["spec"]["parallelism"] == 2


def test_apply_on_the_server_keeps_what_another_manages(api: Asker, kubectl: Kubectl) -> None:
    """On the local cluster: server-side apply is refused with 415, in words."""
    if api.is_local:
        said = kubectl("apply", "--server-side", "-f", "-", stdin=text(job(suspend=True)), check=False)
        assert (said.returncode, "server-side apply is not served here" in said.stderr) == (1, True)
        return
    first = indexed(completions=2, parallelism=1, suspend=True)
    again = indexed(completions=2, parallelism=2, suspend=True)
    kubectl("apply", "--server-side", "--field-manager=me", "-f", "-", stdin=text(first))

    refused = kubectl(
        "apply", "--server-side", "--field-manager=other", "-f", "-", stdin=text(again), check=False
    )
    kubectl(
        "apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-", stdin=text(again)
    )

    assert refused.returncode == 1
    assert 'conflict with "me": .spec.parallelism' in refused.stderr
    assert read(kubectl("get", "job", "j", "-o", "json"))["spec"]["parallelism"] == 2


def test_create_says_what_is_wrong(kubectl: Kubectl) -> None:
    refused = kubectl(
        "create", "-f", "-", stdin=text(job(completionMode="Indexed", parallelism=2)), check=False
    )
    unknown = kubectl("create", "-f", "-", stdin=text(job(suspend=True, foo=1)), check=False)

    assert refused.returncode == 1
    assert (
        'The Job "j" is invalid: spec.completions: Required value: when completion mode is Indexed'
        in refused.stderr
    )
    assert unknown.returncode == 1
    assert 'unknown field "spec.foo"' in unknown.stderr


def test_get_shows_columns_for_people(api: Asker, kubectl: Kubectl) -> None:
    api.have_job(indexed(completions=3, parallelism=3, pod=runs(*SUCCEEDS)))
    ended(api)

    jobs = kubectl("get", "jobs").stdout.splitlines()
    pods = kubectl("get", "pods").stdout.splitlines()
    names = kubectl("get", "pods", "-o", "name").stdout.splitlines()

    assert jobs[0].split() == ["NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE"]
    assert jobs[1].split()[:3] == ["j", "Complete", "3/3"]
    assert pods[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [line.split()[1:4] for line in pods[1:]] == [["0/1", "Completed", "0"]] * 3
    assert sorted(names) == sorted(f"pod/{pod['metadata']['name']}" for pod in pods_of(api))


def test_get_selects(api: Asker, kubectl: Kubectl) -> None:
    for name in ("a", "b"):
        api.have_job(job(name, suspend=True))
    kubectl("label", "job", "a", "color=red")

    def names(*words: str) -> str:
        return kubectl("get", "jobs", "-o", "name", *words).stdout

    assert names() == "job.batch/a\njob.batch/b\n"
    assert names("-l", "color=red") == names("--field-selector", "metadata.name=a") == "job.batch/a\n"
    assert kubectl("get", "jobs", "-l", "color=blue").stderr.startswith("No resources found")
    assert "busybox:1.36" in kubectl("get", "jobs", "-o", "wide").stdout
    assert kubectl("get", "job", "a", "-o", "jsonpath={.spec.parallelism}").stdout == "1"


def test_create_sends_what_newer_versions_send(kubectl: Kubectl) -> None:
    created = kubectl(
        "create", "job", "j", "--image=busybox:1.36", "--dry-run=server", "-o", "yaml", "--", "true"
    )

    spec = yaml.safe_load(created.stdout)["spec"]["template"]["spec"]
    assert spec["containers"][0]["command"] == ["true"]
    assert kubectl("create", "configmap", "c", "--from-literal=a=b").stdout == "configmap/c created\n"
    assert kubectl("get", "configmap", "c", "-o", "jsonpath={.data}").stdout == '{"a":"b"}'


def test_get_watch_tells_what_happens(api: Asker, kubectl: Kubectl, started: Any) -> None:
    api.have_job(job(suspend=True, pod=runs(*SUCCEEDS)))
    watch = started("get", "job", "j", "-w", "--no-headers")
    assert watch.stdout.readline().split()[:3] == ["j", "Suspended", "0/1"]

    kubectl("patch", "job", "j", "-p", '{"spec": {"suspend": false}}')
    seen: list[list[str]] = []
    while not seen or seen[-1] != ["j", "Complete", "1/1"]:
        seen.append(watch.stdout.readline().split()[:3])
        assert seen[-1], "the watch has ended"

    assert ["j", "Running", "0/1"] in seen


def test_logs_follow_a_job(api: Asker, kubectl: Kubectl, started: Any) -> None:
    api.have_job(job(pod=runs("sh", "-c", "for n in 1 2 3; do echo $n; sleep 1; done")))
    until(api, ready(1))

    follow = started("logs", "-f", "job/j")
    said, _ = follow.communicate(timeout=SECONDS)

    assert said == "1\n2\n3\n"
    assert follow.returncode == 0
    assert kubectl("logs", "job/j", "--tail=1").stdout == "3\n"


def test_logs_of_all_indexes_carry_their_pods_name(api: Asker, kubectl: Kubectl) -> None:
    api.have_job(
        indexed(completions=2, parallelism=2, pod=runs("sh", "-c", "echo hello $JOB_COMPLETION_INDEX"))
    )
    ended(api)

    said = kubectl("logs", "-l", "batch.kubernetes.io/job-name=j", "--prefix").stdout.splitlines()

    names = [pod["metadata"]["name"] for pod in pods_of(api)]
    assert sorted(said) == sorted(f"[pod/{name}/main] hello {index}" for index, name in enumerate(names))


def test_wait_ends_with_the_job_or_its_time(api: Asker, kubectl: Kubectl) -> None:
    api.have_job(job("quick", pod=runs(*SUCCEEDS)))
    api.have_job(job("long", pod=runs(*LASTS)))

    met = kubectl("wait", "--for=condition=complete", "job/quick", f"--timeout={SECONDS}s")
    unmet = kubectl("wait", "--for=condition=complete", "job/long", "--timeout=1s", check=False)

    assert met.stdout == "job.batch/quick condition met\n"
    assert unmet.returncode == 1
    assert "timed out waiting for the condition on jobs/long" in unmet.stderr


def test_wait_for_a_deletion_sees_it(api: Asker, kubectl: Kubectl, started: Any) -> None:
    api.have_job(job(suspend=True))
    wait = started("wait", "--for=delete", "job/j", f"--timeout={SECONDS}s")

    kubectl("delete", "job", "j")

    wait.communicate(timeout=SECONDS)
    assert wait.returncode == 0


@pytest.mark.parametrize("cascade", ["background", "foreground"])
def test_delete_takes_the_pods_along(api: Asker, kubectl: Kubectl, cascade: str) -> None:
    api.have_job(job(pod=runs(*LASTS)))
    until(api, ready(1))

    said = kubectl("delete", "job", "j", f"--cascade={cascade}").stdout

    assert said.startswith('job.batch "j" deleted')
    assert api.ask("GET", api.jobs("j")).code == 404
    api.eventually(lambda: pods_of(api) == [])


def test_delete_can_leave_the_pods(api: Asker, kubectl: Kubectl) -> None:
    api.have_job(job(pod=runs(*LASTS)))
    until(api, ready(1))

    kubectl("delete", "job", "j", "--cascade=orphan")

    [pod] = api.ask("GET", api.core("pods")).body["items"]
    assert "ownerReferences" not in pod["metadata"]
    api.ask("DELETE", api.core("pods", pod["metadata"]["name"]))


def test_describe_tells_the_story(api: Asker, kubectl: Kubectl) -> None:
    api.have_job(indexed(completions=2, parallelism=2, pod=runs(*SUCCEEDS)))
    ended(api)
    pod = pods_of(api)[0]["metadata"]["name"]

    api.eventually(lambda: "Job completed" in kubectl("describe", "job", "j").stdout)
    of_job = kubectl("describe", "job", "j").stdout
    of_pod = kubectl("describe", "pod", pod).stdout

    lines = {
        line.split(":", 1)[0].strip(): line.split(":", 1)[1].strip()
        for line in of_job.splitlines()
        if ":" in line
    }
    assert lines["Completions"] == "2"
    assert lines["Completion Mode"] == "Indexed"
    assert lines["Completed Indexes"] == "0,1"
    assert lines["Pods Statuses"] == "0 Active (0 Ready) / 2 Succeeded / 0 Failed"
    assert f"Created pod: {pod}" in of_job
    for words in ("Controlled By:", "Job/j", "Exit Code:    0", "Completed", "Scheduled"):
        assert words in of_pod


def test_patch_edits_one_field(api: Asker, kubectl: Kubectl) -> None:
    api.have_job(job(suspend=True))

    for kind, patch in (
        ("strategic", '{"spec": {"parallelism": 2}}'),
        ("merge", '{"spec": {"backoffLimit": 3}}'),
        ("json", '[{"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 9}]'),
    ):
        assert "patched" in kubectl("patch", "job", "j", f"--type={kind}", "-p", patch).stdout

    refused = kubectl("patch", "job", "j", "--type=merge", "-p", '{"spec":{"completions":4}}', check=False)
    assert refused.stderr.startswith(
        'The Job "j" is invalid: spec.completions: Invalid value: 4: field is immutable'
    )
    spec = api.ask("GET", api.jobs("j")).body["spec"]
    assert (spec["parallelism"], spec["backoffLimit"], spec["activeDeadlineSeconds"]) == (2, 3, 9)


def test_diff_and_dry_runs_change_nothing(api: Asker, kubectl: Kubectl) -> None:
    first = job(suspend=True)
    kubectl("apply", "-f", "-", stdin=text(first))
    first["spec"]["parallelism"] = 2

    diff = kubectl("diff", "-f", "-", stdin=text(first), check=False)
    dry = kubectl("apply", "--dry-run=server", "-f", "-", stdin=text(first))

    assert diff.returncode == 1
    assert "+  parallelism: 2" in diff.stdout
    assert dry.stdout == "job.batch/j configured (server dry run)\n"
    assert api.ask("GET", api.jobs("j")).body["spec"]["parallelism"] == 1


def test_events_and_labels_and_nodes_are_there(api: Asker, kubectl: Kubectl) -> None:
    api.have_job(job(pod=runs(*SUCCEEDS)))
    ended(api)

    api.eventually(lambda: "SuccessfulCreate" in kubectl("events", "--for=job/j").stdout)
    assert kubectl("label", "job", "j", "a=b").stdout == "job.batch/j labeled\n"
    assert kubectl("get", "jobs", "-l", "a=b", "-o", "name").stdout == "job.batch/j\n"
    assert "Ready" in kubectl("get", "nodes").stdout
    assert kubectl("auth", "can-i", "create", "jobs").stdout == "yes\n"


def test_explain_knows_the_fields_of_a_job(kubectl: Kubectl) -> None:
    assert "maxFailedIndexes" in kubectl("explain", "job.spec").stdout


def test_an_interrupted_watch_ends(api: Asker, started: Any) -> None:
    api.have_job(job(suspend=True))
    watch = started("get", "jobs", "-w")
    watch.stdout.readline()

    watch.terminate()  # as by Ctrl-C, which processes in the background may have been told to ignore
    watch.communicate(timeout=SECONDS)

    assert watch.returncode in (1, 143, -signal.SIGTERM)
