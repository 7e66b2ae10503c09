"""What is this cluster's own: what it refuses, watches that fall behind, deletions and their followers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from airflow_batchjob.local.api.api import Api
from airflow_batchjob.local.api.request import Request, Response, Stream
from airflow_batchjob.local.gc import GarbageCollector
from airflow_batchjob.local.logs import LogStore
from airflow_batchjob.local.store import Object, Store

JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"


class Asked:
    """An API over a store of its own, asked without sockets."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.store = Store(history_length=50)
        self.store.create("namespaces", {"metadata": {"name": "default"}, "status": {"phase": "Active"}})
        self.logs = LogStore(folder)
        self.api = Api(self.store, log_store=self.logs, **options)

    def ask(self, method: str, path: str, body: Object | None = None, **query: str) -> Response:
        content = b"" if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        answer = self.api.handle(
            Request(method=method, path=path, body=content, query=query, headers=headers)
        )
        assert isinstance(answer, Response)
        return answer

    def watch(self, path: str, **query: str) -> AsyncIterator[bytes]:
        answer = self.api.handle(Request(method="GET", path=path, query={"watch": "1", **query}))
        assert isinstance(answer, Stream), answer
        return answer.chunks

    def config_map(self, name: str, **fields: Any) -> Object:
        metadata = {"name": name, "namespace": "default", **fields}
        return self.store.create("configmaps", {"metadata": metadata})


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    return Asked(tmp_path)


def a_job(**pod: Any) -> Object:
    container = {"name": "main", "image": "busybox", "command": ["true"]}
    spec = {"restartPolicy": "Never", "containers": [container], **pod}
    return {"metadata": {"name": "j"}, "spec": {"suspend": True, "template": {"spec": spec}}}


def main(**fields: Any) -> Object:
    return {"name": "main", "image": "busybox", "command": ["true"], **fields}


NOT_HERE: dict[str, tuple[Object, str]] = {
    "an image without a command": (
        a_job(containers=[{"name": "main", "image": "busybox"}]),
        "containers[0].command",
    ),
    "an image with arguments alone": (
        a_job(containers=[{"name": "main", "image": "busybox", "args": ["x"]}]),
        "containers[0].command",
    ),
    "an init container without a command": (
        a_job(initContainers=[{"name": "first", "image": "busybox"}]),
        "initContainers[0].command",
    ),
    "a volume of another kind": (
        a_job(volumes=[{"name": "v", "nfs": {"server": "s", "path": "/"}}]),
        "volumes[0].nfs",
    ),
    "a probe": (
        a_job(containers=[main(livenessProbe={"exec": {"command": ["true"]}})]),
        "containers[0].livenessProbe",
    ),
    "privileges": (
        a_job(containers=[main(securityContext={"privileged": True})]),
        "containers[0].securityContext.privileged",
    ),
    "a runtime class": (a_job(runtimeClassName="gvisor"), "runtimeClassName"),
}


@pytest.mark.parametrize(("sent", "field"), NOT_HERE.values(), ids=NOT_HERE.keys())
def test_what_cannot_be_done_here_is_refused_by_its_field(asked: Asked, sent: Object, field: str) -> None:
    answer = asked.ask("POST", JOBS, sent)

    assert isinstance(answer.body, dict)
    assert answer.code == 422
    assert f"spec.template.spec.{field}" in {cause["field"] for cause in answer.body["details"]["causes"]}
    assert not list(asked.store.list("jobs"))


def test_mounts_are_refused_where_the_system_has_no_private_ones(tmp_path: Path) -> None:
    asked = Asked(tmp_path, private_mounts=False)
    container = main(volumeMounts=[{"name": "v", "mountPath": "/v"}])

    answer = asked.ask("POST", JOBS, a_job(containers=[container], volumes=[{"name": "v", "emptyDir": {}}]))

    assert isinstance(answer.body, dict)
    assert answer.code == 422
    assert "spec.template.spec.containers[0].volumeMounts[0].mountPath" in answer.body["message"]


def test_what_is_only_done_without_is_said_in_a_warning(asked: Asked) -> None:
    answer = asked.ask("POST", JOBS, a_job(securityContext={"runAsUser": 1000}))

    assert answer.code == 201
    assert any("spec.template.spec.securityContext is not held here" in one for one in answer.warnings)


UNSERVED = {
    "another group": ("GET", "/apis/apps/v1/namespaces/default/deployments", 404),
    "another kind": ("GET", "/api/v1/namespaces/default/endpoints", 404),
    "another part": ("GET", f"{PODS}/p/exec", 404),
    "another path": ("GET", "/metrics", 404),
    "another method": ("TRACE", JOBS, 405),
    "a patch of no known type": ("PATCH", f"{JOBS}/j", 415),
}


@pytest.mark.parametrize(("method", "path", "code"), UNSERVED.values(), ids=UNSERVED.keys())
def test_what_is_not_served_is_refused_with_a_status(asked: Asked, method: str, path: str, code: int) -> None:
    answer = asked.ask(method, path)

    assert isinstance(answer.body, dict)
    assert (answer.code, answer.body["kind"]) == (code, "Status")


def test_server_side_apply_is_refused_with_what_is_served(asked: Asked) -> None:
    asked.ask("POST", JOBS, a_job())
    request = Request(
        method="PATCH",
        path=f"{JOBS}/j",
        body=b"{}",
        headers={"content-type": "application/apply-patch+yaml"},
    )

    answer = asked.api.handle(request)

    assert isinstance(answer, Response)
    assert isinstance(answer.body, dict)
    assert answer.code == 415
    assert "application/strategic-merge-patch+json" in answer.body["message"]


async def test_a_watch_that_falls_behind_is_told_to_list_again(asked: Asked) -> None:
    chunks = asked.watch("/api/v1/configmaps")
    asked.config_map("a")
    first = await anext(chunks)
    for number in range(200):  # more than the history holds
        asked.config_map(f"c{number}")

    rest = [chunk async for chunk in chunks]

    assert json.loads(first)["type"] == "ADDED"
    [last] = [json.loads(line) for chunk in rest for line in chunk.splitlines()]
    assert (last["type"], last["object"]["code"], last["object"]["reason"]) == ("ERROR", 410, "Expired")


async def test_a_quiet_watch_is_told_the_version(tmp_path: Path) -> None:
    asked = Asked(tmp_path, bookmark_seconds=0.01)
    chunks = asked.watch("/api/v1/configmaps", resourceVersion="1", allowWatchBookmarks="true")
    asked.store.create("secrets", {"metadata": {"name": "s", "namespace": "default"}})

    event = json.loads(await asyncio.wait_for(anext(chunks), 5))

    assert event == {
        "type": "BOOKMARK",
        "object": {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": "2"}},
    }


async def test_all_watches_end_with_the_api(asked: Asked) -> None:
    chunks = asked.watch("/api/v1/configmaps")
    waiting = asyncio.ensure_future(anext(chunks, None))
    await asyncio.sleep(0)

    asked.api.close()

    assert await asyncio.wait_for(waiting, 5) is None


def test_the_log_of_a_container_that_waits_is_refused_with_its_reason(asked: Asked) -> None:
    waiting = {"name": "main", "restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}}
    pod = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"nodeName": "local", "containers": [main()]},
        "status": {"phase": "Pending", "containerStatuses": [waiting]},
    }
    asked.store.create("pods", pod)

    answer = asked.ask("GET", f"{PODS}/p/log")
    previous = asked.ask("GET", f"{PODS}/p/log", previous="true")

    assert isinstance(answer.body, dict)
    assert answer.code == 400
    assert answer.body["message"] == 'container "main" in pod "p" is waiting to start: ContainerCreating'
    assert isinstance(previous.body, dict)
    assert previous.body["message"] == 'previous terminated container "main" in pod "p" not found'


def test_a_table_has_a_row_for_each_object(asked: Asked) -> None:
    asked.ask("POST", JOBS, a_job())
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

    answer = asked.api.handle(Request(method="GET", path=JOBS, headers={"accept": accept}))

    assert isinstance(answer, Response)
    assert isinstance(answer.body, dict)
    assert answer.body["kind"] == "Table"
    [row] = answer.body["rows"]
    assert row["cells"][:4] == ["j", "Running", "0/1", ""]
    assert row["object"]["kind"] == "PartialObjectMetadata"


@pytest_asyncio.fixture
async def collected(tmp_path: Path) -> AsyncIterator[Asked]:
    """An API whose deletions are followed up."""
    asked = Asked(tmp_path)
    collector = GarbageCollector(asked.store, asked.api.deleter)
    collector.start()
    yield asked
    collector.stop()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def owner(obj: Object, *, blocking: bool = False) -> Object:
    metadata = obj["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": metadata["name"], "uid": metadata["uid"]}
    return {**reference, "blockOwnerDeletion": blocking}


async def test_dependents_go_when_their_last_owner_goes(collected: Asked) -> None:
    one, other = collected.config_map("one"), collected.config_map("other")
    collected.config_map("child", ownerReferences=[owner(one), owner(other)])

    collected.ask("DELETE", "/api/v1/namespaces/default/configmaps/one")
    await settle()
    after_one = collected.store.get("configmaps", "default", "child")
    collected.ask("DELETE", "/api/v1/namespaces/default/configmaps/other")
    await settle()

    assert after_one is not None
    assert [one["name"] for one in after_one["metadata"]["ownerReferences"]] == ["other"]
    assert collected.store.get("configmaps", "default", "child") is None


async def test_an_owner_deleted_in_the_foreground_waits_for_those_that_block_it(collected: Asked) -> None:
    parent = collected.config_map("parent")
    collected.config_map("child", ownerReferences=[owner(parent, blocking=True)], finalizers=["a.b/hold"])
    path = "/api/v1/namespaces/default/configmaps"

    collected.ask("DELETE", f"{path}/parent", propagationPolicy="Foreground")
    await settle()
    child = collected.store.get("configmaps", "default", "child")
    assert child is not None
    assert child["metadata"]["deletionTimestamp"]
    assert collected.store.get("configmaps", "default", "parent") is not None

    metadata = {key: value for key, value in child["metadata"].items() if key != "finalizers"}
    collected.store.update("configmaps", {**child, "metadata": metadata})
    await settle()
    assert collected.store.get("configmaps", "default", "parent") is None


async def test_a_namespace_takes_all_that_is_in_it_along(collected: Asked) -> None:
    collected.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})
    collected.store.create("configmaps", {"metadata": {"name": "c", "namespace": "n"}})
    held = {"name": "held", "namespace": "n", "finalizers": ["a.b/hold"]}
    collected.store.create("secrets", {"metadata": held})

    answer = collected.ask("DELETE", "/api/v1/namespaces/n")
    await settle()

    assert isinstance(answer.body, dict)
    assert answer.body["status"]["phase"] == "Terminating"
    assert not list(collected.store.list("configmaps", "n"))
    assert collected.ask("POST", "/apis/batch/v1/namespaces/n/jobs", a_job()).code == 403
    collected.store.delete("secrets", "n", "held")
    await settle()
    assert collected.store.get("namespaces", "", "n") is None


async def test_the_namespace_that_all_begin_in_stays(collected: Asked) -> None:
    assert collected.ask("DELETE", "/api/v1/namespaces/default").code == 403
