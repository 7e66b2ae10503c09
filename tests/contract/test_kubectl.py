"""kubectl against the cluster: the words that people type, and what they see."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cluster.target import Target
from tests.contract.asking import Asker, container, job

KUBECTL = shutil.which("kubectl")
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not here")


@pytest.fixture
def kubectl(api: Asker, cluster: Target, tmp_path: Path) -> Kubectl:
    return Kubectl(cluster.kubeconfig, api.namespace, tmp_path)


class Kubectl:
    """Runs kubectl in the test's namespace."""

    def __init__(self, kubeconfig: Path, namespace: str, folder: Path) -> None:
        self._words = [KUBECTL or "", f"--kubeconfig={kubeconfig}", f"--namespace={namespace}"]
        self._folder = folder

    def __call__(self, *words: str) -> str:
        done = subprocess.run(
            [*self._words, *words], capture_output=True, text=True, timeout=60, check=False, cwd=self._folder
        )
        return done.stdout + done.stderr

    def file(self, content: object) -> str:
        path = self._folder / "object.yaml"
        path.write_text(yaml.safe_dump(content))
        return str(path)


def waiting_job() -> object:
    return job(suspend=True, completions=3, parallelism=2)


def test_apply_creates_then_changes_then_leaves_alone(kubectl: Kubectl) -> None:
    file = kubectl.file(waiting_job())
    assert kubectl("apply", "-f", file) == "job.batch/j created\n"
    assert kubectl("apply", "-f", file) == "job.batch/j unchanged\n"

    changed = kubectl.file(job(suspend=True, completions=3, parallelism=1))

    assert kubectl("apply", "-f", changed) == "job.batch/j configured\n"
    assert kubectl("get", "job", "j", "-o", "jsonpath={.spec.parallelism}") == "1"


def test_get_shows_columns(kubectl: Kubectl) -> None:
    kubectl("create", "-f", kubectl.file(waiting_job()))

    head, row = kubectl("get", "jobs").splitlines()

    assert head.split() == ["NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE"]
    assert row.split()[0] == "j"
    assert row.split()[2] == "0/3"
    assert "busybox:1.36" in kubectl("get", "jobs", "-o", "wide")
    assert kubectl("get", "jobs", "-l", "nothing=like-it").startswith("No resources found")
    assert kubectl("get", "jobs", "-o", "name") == "job.batch/j\n"
    assert kubectl("get", "jobs", "--field-selector", "metadata.name=j", "-o", "name") == "job.batch/j\n"


def test_describe_patch_label_and_delete(kubectl: Kubectl) -> None:
    kubectl("create", "-f", kubectl.file(waiting_job()))

    assert "Completions:      3" in kubectl("describe", "job", "j")
    assert kubectl("patch", "job", "j", "-p", '{"spec":{"parallelism":1}}') == "job.batch/j patched\n"
    assert kubectl("label", "job", "j", "a=b") == "job.batch/j labeled\n"
    assert kubectl("delete", "job", "j").startswith('job.batch "j" deleted')
    assert "not found" in kubectl("get", "job", "j")


def test_create_sends_what_newer_versions_send(kubectl: Kubectl) -> None:
    created = kubectl(
        "create", "job", "j", "--image=busybox:1.36", "--dry-run=server", "-o", "yaml", "--", "true"
    )

    spec = yaml.safe_load(created)["spec"]["template"]["spec"]
    assert spec["containers"][0]["command"] == ["true"]
    assert kubectl("create", "configmap", "c", "--from-literal=a=b") == "configmap/c created\n"
    assert kubectl("get", "configmap", "c", "-o", "jsonpath={.data}") == '{"a":"b"}'
    assert kubectl("auth", "can-i", "create", "jobs").startswith("yes")


def test_a_refusal_is_shown(kubectl: Kubectl) -> None:
    kubectl("create", "-f", kubectl.file(waiting_job()))

    said = kubectl("patch", "job", "j", "--type=merge", "-p", '{"spec":{"completions":4}}')

    assert said.startswith('The Job "j" is invalid: spec.completions: Invalid value: 4: field is immutable')


def test_a_job_is_waited_for_its_log_followed_and_its_pods_shown(api: Asker, kubectl: Kubectl) -> None:
    if not api.is_local:
        pytest.skip("needs a node; the suites with nodes do this on real ones")
    script = "import time; print('one', flush=True); time.sleep(0.5); print('two', flush=True)"
    kubectl(
        "create",
        "-f",
        kubectl.file(job(pod={"containers": [container(command=[sys.executable, "-c", script])]})),
    )
    kubectl("wait", "--for=jsonpath={.status.active}=1", "job/j", "--timeout=20s")
    kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod", "-l", "job-name=j", "--timeout=20s")

    assert kubectl("logs", "-f", "job/j") == "one\ntwo\n"
    assert "condition met" in kubectl("wait", "--for=condition=complete", "job/j", "--timeout=20s")
    assert "Completed" in kubectl("get", "pods")
    assert "Created pod: j-" in kubectl("describe", "job", "j")
    assert "SuccessfulCreate" in kubectl("get", "events")
