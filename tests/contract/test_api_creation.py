"""What a Job becomes when it is created: defaults, generated parts, and what is not kept."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.contract.asking import Asker, Object, container, indexed, job

NOT_THERE = object()

CASES: dict[str, tuple[Object, dict[str, Any]]] = {
    "1 a template alone: one pod, six retries": (
        job(suspend=False),
        {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 6,
            "completionMode": "NonIndexed",
            "suspend": False,
            "manualSelector": False,
            "podReplacementPolicy": "TerminatingOrFailed",
        },
    ),
    "2 parallelism alone: a work queue, without completions": (
        job(parallelism=3, suspend=True),
        {"parallelism": 3, "completions": NOT_THERE},
    ),
    "3 completions alone: one at a time": (
        job(completions=5, suspend=True),
        {"parallelism": 1, "completions": 5},
    ),
    "4 a budget per index: no budget for the whole": (
        indexed(backoffLimitPerIndex=1, suspend=True),
        {"backoffLimit": 2147483647},
    ),
    "5 and 61a a failure policy: only failed pods are replaced": (
        job(
            suspend=True,
            podFailurePolicy={
                "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
            },
        ),
        {
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "Ignore",
                        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                    }
                ]
            },
        },
    ),
    "what is null is as if it were not there": (
        job(suspend=True, ttlSecondsAfterFinished=None, backoffLimit=None),
        {"ttlSecondsAfterFinished": NOT_THERE, "backoffLimit": 6},
    ),
}


@pytest.mark.parametrize(("sent", "want"), CASES.values(), ids=CASES.keys())
def test_defaults_of_a_job(api: Asker, sent: Object, want: dict[str, Any]) -> None:
    spec = api.have_job(sent)["spec"]

    assert {name: spec.get(name, NOT_THERE) for name in want} == want


def test_defaults_of_a_pod_template(api: Asker) -> None:
    spec = api.have_job(job(suspend=True))["spec"]["template"]["spec"]

    assert spec == {
        "restartPolicy": "Never",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "securityContext": {},
        "containers": [
            {
                "name": "main",
                "image": "busybox:1.36",
                "command": ["true"],
                "imagePullPolicy": "IfNotPresent",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
    }


IMAGES = {
    "a tag that stands still": ("registry.example.com:5000/a/b:1", "IfNotPresent"),
    "no tag": ("registry.example.com:5000/a/b", "Always"),
    "the newest": ("busybox:latest", "Always"),
    "a digest": (f"busybox@sha256:{'0' * 64}", "IfNotPresent"),
}


@pytest.mark.parametrize(("image", "want"), IMAGES.values(), ids=IMAGES.keys())
def test_an_image_is_pulled_always_where_its_tag_may_move(api: Asker, image: str, want: str) -> None:
    created = api.have_job(job(suspend=True, pod={"containers": [container(image=image)]}))

    assert created["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] == want


def test_6_a_job_without_labels_is_read_back_with_those_of_its_template(api: Asker) -> None:
    created = api.have_job(job(suspend=True))
    uid = created["metadata"]["uid"]

    want = {
        "job-name": "j",
        "batch.kubernetes.io/job-name": "j",
        "controller-uid": uid,
        "batch.kubernetes.io/controller-uid": uid,
    }
    read = api.ask("GET", api.jobs("j")).body
    assert read["metadata"]["labels"] == want
    assert read["spec"]["template"]["metadata"]["labels"] == want
    assert read["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


def test_7_a_job_with_labels_keeps_just_those(api: Asker) -> None:
    sent = job(suspend=True, labels={"a": "b"})
    sent["metadata"]["labels"] = {"x": "y"}

    created = api.have_job(sent)

    assert created["metadata"]["labels"] == {"x": "y"}
    assert created["spec"]["template"]["metadata"]["labels"]["a"] == "b"


def test_8_a_generated_name_is_the_prefix_and_five_letters(api: Asker) -> None:
    sent = job(suspend=True)
    sent["metadata"] = {"generateName": "j-"}

    created = api.have_job(sent)

    name = created["metadata"]["name"]
    assert re.fullmatch(r"j-[bcdfghjklmnpqrstvwxz2456789]{5}", name)
    assert created["spec"]["template"]["metadata"]["labels"]["job-name"] == name


def test_a_long_prefix_of_a_generated_name_is_cut(api: Asker) -> None:
    sent = job(suspend=True)
    sent["metadata"] = {"generateName": "j" * 80}

    assert len(api.have_job(sent)["metadata"]["name"]) == 63


def test_9_what_only_the_server_may_say_is_not_taken_from_the_client(api: Asker) -> None:
    sent = job(suspend=True)
    sent["metadata"] |= {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}
    sent["status"] = {"succeeded": 5}

    created = api.have_job(sent)

    assert created["metadata"]["uid"] != "mine"
    assert created["metadata"]["creationTimestamp"] > "2020"
    assert created["metadata"]["generation"] == 1
    assert "succeeded" not in created["status"]


QUANTITIES = {
    "0.5": "500m",
    "1000m": "1",
    "1024Mi": "1Gi",
    "1.5Gi": "1536Mi",
    "0.1": "100m",
    "1e3": "1e3",
    "12000": "12k",
}


@pytest.mark.parametrize(("sent", "want"), QUANTITIES.items(), ids=QUANTITIES.keys())
def test_a_quantity_is_stored_in_its_one_form(api: Asker, sent: str, want: str) -> None:
    resources = {"limits": {"memory": sent}}

    created = api.have_job(job(suspend=True, pod={"containers": [container(resources=resources)]}))

    containers = created["spec"]["template"]["spec"]["containers"]
    assert containers[0]["resources"] == {"limits": {"memory": want}}


def test_a_pod_asks_for_its_limits_where_it_does_not_say(api: Asker) -> None:
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}

    pod = api.have(
        "pods",
        {
            "metadata": {"name": "p"},
            "spec": {"schedulerName": "nobody", "containers": [container(resources=resources)]},
        },
    )

    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    assert pod["status"]["phase"] == "Pending"
    assert pod["status"]["qosClass"] == "Burstable"
