"""Secrets are planted wherever a task has some, and sought in everything that comes of it, at DEBUG."""

from __future__ import annotations

import json
import logging
import stat
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.sdk.execution_time.task_runner import _serialize_rendered_fields

from airflow_batchjob.cli.main import main
from airflow_batchjob.compat import TaskDeferred
from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.testing import CONNECTION, Cluster
from tests.dags.airflow_tasks import TaskInstance
from tests.faults.tasks import connect_to, fired, job_of, resumed, task_of

PLANTED = {
    "env": "hunter2-in-the-environment",
    "list": "hunter2-in-the-manifests-environment",
    "args": "hunter2-in-the-arguments",
    "annotation": "hunter2-in-an-annotation",
    "variable": "hunter2-in-a-variable",
    "pod": "hunter2-in-the-partial-pod",
    "token": "hunter2-in-the-connection",
}

SHELL = ["sh", "-c", 'test -n "$DB_PASSWORD" && echo about to $0 && $0', "true"]


def manifest(*, command: list[str], **spec: Any) -> dict[str, Any]:
    """Return a manifest with a secret in each place that a manifest has."""
    container = {
        "name": "main",
        "image": "none",
        "command": command,
        "args": ["--token", PLANTED["args"]],
        "env": [
            {"name": "API_TOKEN", "value": PLANTED["list"]},
            {"name": "OTHER_SECRET", "value": "${SECRET}"},
        ],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "secrets", "annotations": {"example.com/password": PLANTED["annotation"]}},
        "spec": {
            "completionMode": "Indexed",
            "completions": 2,
            "backoffLimitPerIndex": 0,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
            **spec,
        },
    }


GIVEN: dict[str, Any] = {
    "image": None,
    "command": None,
    "env": {"DB_PASSWORD": PLANTED["env"]},
    "variables": {"SECRET": PLANTED["variable"]},
    "pod": {"containers": [{"name": "main", "env": [{"name": "SSH_PASSPHRASE", "value": PLANTED["pod"]}]}]},
}

WAYS: dict[str, tuple[dict[str, Any], str]] = {
    "all goes well": ({"manifest": manifest(command=["true"])}, "met"),
    "all goes well, from text": ({"manifest": yaml.safe_dump(manifest(command=["true"]))}, "met"),
    "all fail": ({"manifest": manifest(command=["false"])}, "not met"),
    "it waits in the worker": ({"manifest": manifest(command=["true"]), "deferrable": False}, "met"),
    "a deadline": ({"manifest": manifest(command=["sleep", "60"]), "deadline_seconds": 1}, "not met"),
    "what is refused here": ({"manifest": manifest(command=["true"], completions=-1)}, "refused"),
    "what the server refuses": (
        {"manifest": manifest(command=["true"]), "pod": {"schedulerName": "Not A Name"}},
        "any",
    ),
    "an environment of the wrong form": (
        {"manifest": manifest(command=["true"]), "env": {"DB_PASSWORD": [PLANTED["env"]]}},
        "refused",
    ),
}


class Sought:
    """Everything that one task wrote, by where it stood."""

    def __init__(self) -> None:
        self.written: dict[str, str] = {}

    def add(self, where: str, what: Any) -> None:
        self.written[where] = what if isinstance(what, str) else json.dumps(what, default=str)

    def found(self) -> list[str]:
        return [
            f"{name} in {where}"
            for where, text in self.written.items()
            for name, secret in PLANTED.items()
            if secret in text
        ]


@pytest.fixture
def connection(batchjob_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Connect by a kubeconfig; its token is a secret too."""
    PLANTED["token"] = batchjob_cluster.reach.token
    connect_to(monkeypatch, batchjob_cluster.kubeconfig)
    return batchjob_cluster.reach.token


def run(given: dict[str, Any], sought: Sought) -> str:
    """Run a task to its end, through its trigger where it defers; return how it ended."""
    try:
        task, ti, context = task_of(TaskInstance(task_id="work"), **(GIVEN | given))
    except SpecError as error:
        sought.add("the error of loading the DAG", "".join(traceback.format_exception(error)))
        return "refused"
    sought.add("rendered fields", dict(_serialize_rendered_fields(task)))
    try:
        try:
            result = task.execute(context)
        except TaskDeferred as pause:
            path, arguments = pause.trigger.serialize()
            sought.add("the trigger's arguments", [path, arguments, pause.kwargs])
            event = fired(type(pause.trigger)(**arguments))
            sought.add("the trigger's event", event)
            result = resumed(task, context, event)
        sought.add("what it returned", result)
        return "met"
    except BaseException as error:  # noqa: BLE001  whatever it raises is looked through
        sought.add("the error", "".join(traceback.format_exception(error)))
        return "refused" if not ti.xcoms else "not met"
    finally:
        sought.add("XComs", ti.xcoms)


@pytest.mark.parametrize(("given", "want"), WAYS.values(), ids=WAYS.keys())
def test_nothing_secret_is_in_anything_that_is_written(
    batchjob_cluster: Cluster,
    connection: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    given: dict[str, Any],
    want: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    sought = Sought()

    how = run(given, sought)

    sought.add("the logs", caplog.text)
    printed = capfd.readouterr()
    sought.add("standard output", printed.out)
    sought.add("standard error", printed.err)
    assert want in ("any", how)
    assert sought.found() == []


def test_a_log_that_holds_a_secret_is_known_by_this_test() -> None:
    sought = Sought()
    sought.add("the logs", f"password={PLANTED['env']}")

    assert sought.found() == ["env in the logs"]


def test_an_environment_from_a_secret_reaches_the_container_and_is_shown_by_reference(
    batchjob_cluster: Cluster, connection: str, tmp_path: Path
) -> None:
    secret = {"metadata": {"name": "db"}, "stringData": {"password": PLANTED["env"]}, "kind": "Secret"}
    secret["apiVersion"] = "v1"
    batchjob_cluster.reach.ask("POST", "/api/v1/namespaces/default/secrets", secret)
    seen = tmp_path / "seen"
    reference = {"valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}
    task, ti, context = task_of(
        command=["sh", "-c", f'printf %s "$DB_PASSWORD" > {seen}'], env={"DB_PASSWORD": reference}
    )

    with pytest.raises(TaskDeferred) as pause:
        task.execute(context)
    _, arguments = pause.value.trigger.serialize()
    result = resumed(task, context, fired(type(pause.value.trigger)(**arguments)))

    assert (result["verdict"], seen.read_text()) == ("met", PLANTED["env"])
    rendered = json.dumps(dict(_serialize_rendered_fields(task)))
    sent = json.dumps(job_of(batchjob_cluster, ti)["spec"]["template"])
    assert PLANTED["env"] not in sent + rendered
    assert "secretKeyRef" in sent


def test_the_local_clusters_files_are_its_owners_alone(batchjob_cluster: Cluster, connection: str) -> None:
    task, _, context = task_of(command=["sh", "-c", "echo $DB_PASSWORD; sleep 1"], env=GIVEN["env"])
    with pytest.raises(TaskDeferred):
        task.execute(context)
    folder = batchjob_cluster.kubeconfig.parent

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in (batchjob_cluster.kubeconfig, folder / "cluster.log", folder / "server.pem"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_no_process_shows_a_secret_to_others_by_its_command_line(
    batchjob_cluster: Cluster, connection: str, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    task, _, context = task_of(command=["sh", "-c", f"touch {begun}; sleep 20"], env=GIVEN["env"])
    with pytest.raises(TaskDeferred):
        task.execute(context)
    due = time.monotonic() + 20
    while not begun.exists() and time.monotonic() < due:
        time.sleep(0.1)

    shown = [line for line in command_lines() if any(secret in line for secret in PLANTED.values())]

    assert begun.exists()
    assert shown == []


def command_lines() -> list[str]:
    """Return the command lines of all processes that can be seen; none where there is no /proc."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            found.append((process / "cmdline").read_text(errors="replace"))
    return found


def broken(kubeconfig: str) -> str:
    return kubeconfig.replace("users:", "users: [{")


def quoted_badly(kubeconfig: str) -> str:
    return kubeconfig.replace("token: ", 'token: "')


@pytest.mark.parametrize("spoilt", [broken, quoted_badly])
def test_an_error_of_connecting_shows_no_token_in_its_whole_traceback(
    batchjob_cluster: Cluster,
    connection: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    spoilt: Callable[[str], str],
) -> None:
    caplog.set_level(logging.DEBUG)
    text = spoilt(batchjob_cluster.kubeconfig.read_text())
    leads_to = {"conn_type": "kubernetes", "extra": {"kube_config": text}}
    monkeypatch.setenv(CONNECTION, json.dumps(leads_to))
    sought = Sought()

    run({"manifest": manifest(command=["true"])}, sought)

    sought.add("the logs", caplog.text)
    assert "connect" in sought.written["the error"]
    assert sought.found() == []


COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "doctor": lambda kubeconfig: ["doctor", "--kubeconfig", str(kubeconfig)],
    "run": lambda kubeconfig: ["run", "--image", "none", "--kubeconfig", str(kubeconfig), "--", "true"],
    "a kubeconfig that is no YAML": lambda kubeconfig: ["doctor", "--kubeconfig", f"{kubeconfig}.broken"],
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS.keys())
def test_the_command_line_shows_no_token(
    batchjob_cluster: Cluster,
    connection: str,
    capfd: pytest.CaptureFixture[str],
    words: Callable[[Path], list[str]],
    tmp_path: Path,
) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(batchjob_cluster.kubeconfig.read_text())
    (tmp_path / "config.broken").write_text(f"users: [{{user: {{token: {connection}}}}}")

    with suppress(SystemExit):
        main(words(kubeconfig))

    printed = capfd.readouterr()
    assert printed.out + printed.err
    assert connection not in printed.out + printed.err
