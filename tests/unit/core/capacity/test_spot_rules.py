"""What capacity does to a Job, and what it leaves alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_batchjob import OnDemand, SpotPolicy
from airflow_batchjob.core.capacity.capacity import Capacity
from airflow_batchjob.core.capacity.marks import CAPACITY, FELL_BACK, Why
from airflow_batchjob.core.capacity.profiles import read_profiles
from airflow_batchjob.core.capacity.spot_rules import on_demand_from_the_start
from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.core.identity.digests import digests
from airflow_batchjob.core.request.manifest import Built, build
from airflow_batchjob.core.request.spec import JobSpec

LABEL = "airflow-batchjob/capacity"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
IGNORE = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def asked(choice: Any = None, profiles: Any = "label", **fields: Any) -> JobSpec:
    capacity = None if choice is None else Capacity(choice=choice, profiles=read_profiles(profiles))
    return JobSpec(**{"image": "x", "command": ["true"], "completions": 4, "capacity": capacity} | fields)


def made(choice: Any = None, profiles: Any = "label", **fields: Any) -> Built:
    return build(asked(choice, profiles, **fields), default_name="t")


def pod(built: Built) -> dict[str, Any]:
    return built.manifest["spec"]["template"]["spec"]


def manifest(**spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "command": ["true"]}
    template = {"spec": {"restartPolicy": spec.pop("restartPolicy", "Never"), "containers": [container]}}
    spec = {"completionMode": "Indexed", "completions": 4, "template": template} | spec
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "m"}, "spec": spec}


def test_none_given_changes_nothing() -> None:
    plain = made().manifest

    assert "podFailurePolicy" not in plain["spec"]
    assert "metadata" not in plain["spec"]["template"]
    assert made().thresholds.pending_seconds is None


def test_spot_ignores_losses_before_anyone_elses_rules() -> None:
    own = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}]}
    built = made(
        SpotPolicy(), manifest=manifest(podFailurePolicy=own), exit_codes={"fail_index": [4]}, image=None
    )
    rules = built.manifest["spec"]["podFailurePolicy"]["rules"]

    assert rules[0] == IGNORE
    assert [rule["action"] for rule in rules] == ["Ignore", "FailIndex", "FailJob"]


def test_spot_counts_by_index_and_lets_the_manifests_limit_go() -> None:
    built = made(SpotPolicy(), manifest=manifest(backoffLimit=4), image=None)
    spec = built.manifest["spec"]

    assert (spec["backoffLimitPerIndex"], "backoffLimit" in spec) == (0, False)
    assert any("retries_per_index is 0" in note for note in built.notes)
    assert any("backoffLimit (4) is left out" in note for note in built.notes)
    assert (
        "backoffLimit"
        in made(SpotPolicy(), manifest=manifest(), image=None, backoff_limit=9).manifest["spec"]
    )


def test_spot_that_falls_back_waits_fifteen_minutes_for_a_machine() -> None:
    assert made(SpotPolicy()).thresholds.pending_seconds == 900
    assert made(SpotPolicy(), pending_seconds=60).thresholds.pending_seconds == 60
    assert made(SpotPolicy(fallback=False)).thresholds.pending_seconds is None


def test_pods_go_where_the_profile_says_and_say_so() -> None:
    built = made(SpotPolicy(), "aks", node_selector={"disk": "ssd"})

    assert pod(built)["nodeSelector"] == {"disk": "ssd", "kubernetes.azure.com/scalesetpriority": "spot"}
    assert pod(built)["tolerations"][0]["key"] == "kubernetes.azure.com/scalesetpriority"
    assert built.manifest["spec"]["template"]["metadata"]["labels"] == {LABEL: "spot"}


def test_exclusive_keeps_every_pod_of_ours_off_the_host() -> None:
    built = made(OnDemand(priority_class="whole-machine"))
    (term,) = pod(built)["affinity"]["podAntiAffinity"][REQUIRED]

    assert term["labelSelector"]["matchLabels"] == {"app.kubernetes.io/managed-by": "airflow-batchjob"}
    assert (term["topologyKey"], term["namespaceSelector"]) == ("kubernetes.io/hostname", {})
    assert pod(built)["priorityClassName"] == "whole-machine"
    assert "podFailurePolicy" not in built.manifest["spec"]


def test_on_demand_alone_shares_machines() -> None:
    assert "affinity" not in pod(made(OnDemand(exclusive=False)))


def test_affinities_must_hold_both() -> None:
    own = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in "ab"
    ]}}}  # fmt: skip
    built = made(OnDemand(exclusive=False), "gke", pod={"affinity": own})
    terms = pod(built)["affinity"]["nodeAffinity"][REQUIRED]

    assert [[e["key"] for e in term["matchExpressions"]] for term in terms["nodeSelectorTerms"]] == [
        ["zone", "cloud.google.com/gke-spot"],
        ["zone", "cloud.google.com/gke-spot"],
    ]


def test_the_plan_stands_on_the_job_and_knows_the_way_out() -> None:
    plan = json.loads(made(SpotPolicy(max_loss_rate="20%")).manifest["metadata"]["annotations"][CAPACITY])

    assert plan == {
        "now": "spot",
        "fallback": True,
        "max_losses_per_index": 3,
        "max_loss_rate": "1/5",
        "last_try_on_demand": True,
        "on_demand": {"nodeSelector": {LABEL: "on-demand"}},
    }


WAYS = {
    "labels and taints: the same Job": ("aks", SpotPolicy(), "the same Job is suspended", "kills none"),
    "a priority class: a follow-up Job": (
        {"preset": "label", "on_demand": {"priority_class": "high"}}, SpotPolicy(),
        "a follow-up Job on demand",
        "priorityClassName of a suspended Job cannot change",
    ),
    "what a suspend would kill": (
        "label", SpotPolicy(fallback_max_running=20), "at most 20 pods are running", "which it kills",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("profiles", "policy", "first", "second"), WAYS.values(), ids=WAYS.keys())
def test_the_notes_say_which_way_it_will_be(
    profiles: Any, policy: SpotPolicy, first: str, second: str
) -> None:
    (note,) = [note for note in made(policy, profiles).notes if "way out" in note]

    assert first in note
    assert second in note


REFUSED = {
    "a Job without indexes": (
        {"manifest": manifest(completionMode="NonIndexed"), "image": None},
        "completionMode",
    ),
    "restarts in place": (
        {"manifest": manifest(restartPolicy="OnFailure"), "image": None, "backoff_limit": 3},
        "restartPolicy: Never",
    ),
    "a selector that contradicts": ({"node_selector": {LABEL: "on-demand"}}, "a node has one value"),
}


@pytest.mark.parametrize(("fields", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_spot_cannot_be_is_refused_and_says_why(fields: dict[str, Any], words: str) -> None:
    if isinstance(fields.get("manifest"), dict) and "completionMode" in words:
        fields = {**fields, "completions": None}

    with pytest.raises(SpecError) as raised:
        made(SpotPolicy(), **fields)

    assert any(words in str(problem) for problem in raised.value.problems), raised.value


def test_on_a_queue_placement_is_the_queues() -> None:
    built = made(SpotPolicy(), labels={"kueue.x-k8s.io/queue-name": "batch"})

    assert "nodeSelector" not in pod(built)
    assert CAPACITY not in built.manifest["metadata"].get("annotations", {})
    assert built.manifest["spec"]["podFailurePolicy"]["rules"][0] == IGNORE
    assert any("the queue 'batch' decides" in note for note in built.notes)


def test_where_a_pod_runs_does_not_decide_its_result() -> None:
    assert digests(made(SpotPolicy()).manifest) == digests(made().manifest)


def test_the_last_try_begins_on_demand() -> None:
    moved = on_demand_from_the_start(made(SpotPolicy()).manifest, Why.LAST_TRY, "try 3 is the last one", 5.0)
    template, annotations = moved["spec"]["template"], moved["metadata"]["annotations"]

    assert template["spec"]["nodeSelector"] == {LABEL: "on-demand"}
    assert template["metadata"]["labels"] == {LABEL: "on-demand"}
    assert json.loads(annotations[CAPACITY])["now"] == "on-demand"
    assert json.loads(annotations[FELL_BACK])["why"] == "last try"


@pytest.mark.parametrize("policy", [SpotPolicy(fallback=False), OnDemand()])
def test_what_does_not_fall_back_stays_where_it_is(policy: Any) -> None:
    before = made(policy).manifest

    assert on_demand_from_the_start(before, Why.LAST_TRY, "", 0.0) == before
