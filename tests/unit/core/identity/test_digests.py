"""What counts as other work, and what does not."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from airflow_batchjob.core.identity.digests import changed_fields, digests

MANIFEST: dict[str, Any] = {
    "metadata": {"name": "embed"},
    "spec": {
        "completions": 4,
        "completionMode": "Indexed",
        "parallelism": 2,
        "backoffLimitPerIndex": 1,
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {
                "restartPolicy": "Never",
                "nodeSelector": {"pool": "spot"},
                "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}],
                "initContainers": [{"name": "i", "image": "y", "resources": {"limits": {"cpu": 1}}}],
                "containers": [
                    {
                        "name": "main",
                        "image": "x",
                        "command": ["run"],
                        "args": ["a"],
                        "env": [{"name": "A", "value": "1"}],
                        "envFrom": [{"configMapRef": {"name": "c"}}],
                        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                        "resources": {"limits": {"memory": "1Gi"}},
                    },
                    {"name": "side", "image": "z"},
                ],
            },
        },
    },
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the manifest with the field at a path like "spec.template.0.image" set."""
    manifest = deepcopy(MANIFEST)
    at: Any = manifest
    *way, last = path.split(".")
    for step in way:
        at = at[int(step) if step.isdigit() else step]
    at[last] = value
    return manifest


POD = "spec.template.spec"
OTHER_WORK = {
    "another image": (f"{POD}.containers.0.image", "x2", ["image"]),
    "another image beside it": (f"{POD}.containers.1.image", "z2", ["image"]),
    "another command": (f"{POD}.containers.0.command", ["run", "-v"], ["command"]),
    "no args": (f"{POD}.containers.0.args", [], ["args"]),
    "another value": (f"{POD}.containers.0.env", [{"name": "A", "value": "2"}], ["env"]),
    "another config map": (f"{POD}.containers.0.envFrom", [{"configMapRef": {"name": "d"}}], ["envFrom"]),
    "another mount": (
        f"{POD}.containers.0.volumeMounts",
        [{"name": "v", "mountPath": "/w"}],
        ["volumeMounts"],
    ),
    "another folder": (f"{POD}.containers.0.workingDir", "/w", ["workingDir"]),
    "another volume": (f"{POD}.volumes", [{"name": "v", "hostPath": {"path": "/"}}], ["volumes"]),
    "another init image": (f"{POD}.initContainers.0.image", "y2", ["initContainers"]),
    "more completions": ("spec.completions", 5, ["completions"]),
    "not indexed": ("spec.completionMode", None, ["completions"]),
}


@pytest.mark.parametrize(("path", "value", "want"), OTHER_WORK.values(), ids=OTHER_WORK.keys())
def test_what_decides_a_result_is_named(path: str, value: Any, want: list[str]) -> None:
    assert changed_fields(digests(MANIFEST), digests(changed(path, value))) == want


SAME_WORK = {
    "memory": (f"{POD}.containers.0.resources", {"limits": {"memory": "2Gi"}}),
    "an init container's memory": (f"{POD}.initContainers.0.resources", {}),
    "placement": (f"{POD}.nodeSelector", {"pool": "on-demand"}),
    "parallelism": ("spec.parallelism", 3),
    "budgets": ("spec.backoffLimitPerIndex", 3),
    "a deadline": ("spec.activeDeadlineSeconds", 60),
    "labels": ("spec.template.metadata", {}),
    "the name": ("metadata.name", "other"),
    "nothing in place of absent": (f"{POD}.containers.1.args", None),
    "the order of volumes": (
        f"{POD}.volumes",
        [{"name": "w", "emptyDir": {}}, {"name": "v", "emptyDir": {}}],
    ),
    "the order of containers": (
        f"{POD}.containers",
        MANIFEST["spec"]["template"]["spec"]["containers"][::-1],
    ),
}


@pytest.mark.parametrize(("path", "value"), SAME_WORK.values(), ids=SAME_WORK.keys())
def test_what_people_change_on_a_retry_is_the_same_work(path: str, value: Any) -> None:
    assert digests(changed(path, value)) == digests(MANIFEST)


def test_a_resume_key_stands_in_for_everything() -> None:
    key = digests(MANIFEST, "2026-01-01")

    assert key == digests({}, "2026-01-01")
    assert set(key) == {"resume_key"}
    assert key != digests(MANIFEST, "2026-01-02")
    assert digests(MANIFEST, "") == digests({}, "")


def test_digests_never_change() -> None:
    # A release that changes one runs again what was done before it.
    assert digests({"spec": {"completions": 4}}) == {"completions": "e172127af983"}


def test_a_bare_manifest_has_no_digests() -> None:
    assert digests({}) == digests({"spec": {"template": None}}) == {}
