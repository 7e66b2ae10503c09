"""Deleting: what goes with a Job, before it, or stays; and what must hold for it to be deleted at all."""

from __future__ import annotations

import pytest

from tests.contract.asking import Asker, Object, job, waiting_pod

NOWHERE = {"nodeSelector": {"nowhere": "at-all"}}  # its pod waits, and is no node's business


def job_with_a_pod(api: Asker) -> tuple[Object, Object]:
    """Create a Job, wait for its pod, and return both."""
    created = api.have_job(job(pod=NOWHERE))
    return created, api.eventually(lambda: next(iter(pods_of(api)), None))


def pods_of(api: Asker) -> list[Object]:
    items: list[Object] = api.ask("GET", api.core("pods")).body["items"]
    return items


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_77_pods_go_with_their_job(api: Asker, policy: str) -> None:
    job_with_a_pod(api)

    answer = api.ask("DELETE", api.jobs("j"), {"propagationPolicy": policy})

    assert answer.code == 200
    api.eventually(lambda: api.ask("GET", api.jobs("j")).code == 404 and not pods_of(api))


def test_77_in_the_background_the_job_goes_first(api: Asker) -> None:
    created, _ = job_with_a_pod(api)

    answer = api.ask("DELETE", api.jobs("j"), {"propagationPolicy": "Background"})

    assert answer.body["kind"] == "Status"
    assert answer.body["status"] == "Success"
    assert answer.body["details"] == {
        "name": "j",
        "group": "batch",
        "kind": "jobs",
        "uid": created["metadata"]["uid"],
    }
    assert api.ask("GET", api.jobs("j")).code == 404


def test_77_in_the_foreground_the_job_stays_until_its_pods_are_gone(api: Asker) -> None:
    _, pod = job_with_a_pod(api)
    name = pod["metadata"]["name"]
    api.merge(api.core("pods", name), {"metadata": {"finalizers": ["example.com/hold"]}})

    answer = api.ask("DELETE", api.jobs("j"), {"propagationPolicy": "Foreground"})
    again = api.ask("DELETE", api.jobs("j"), {"propagationPolicy": "Foreground"})

    assert answer.body["kind"] == "Job"
    assert answer.body["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert answer.body["metadata"]["deletionTimestamp"]
    assert again.code == 200
    assert api.ask("GET", api.jobs("j")).code == 200
    api.merge(api.core("pods", name), {"metadata": {"finalizers": None}})
    api.eventually(lambda: api.ask("GET", api.jobs("j")).code == 404)


def test_76_without_a_policy_the_pods_of_a_job_are_orphaned_and_a_warning_says_so(api: Asker) -> None:
    job_with_a_pod(api)

    answer = api.ask("DELETE", api.jobs("j"))

    assert any("propagationPolicy" in warning for warning in answer.warnings)
    api.eventually(lambda: api.ask("GET", api.jobs("j")).code == 404)
    [orphan] = api.eventually(lambda: [pod for pod in pods_of(api) if is_orphan(pod)])
    assert not orphan["metadata"].get("deletionTimestamp")


def is_orphan(pod: Object) -> bool:
    metadata = pod["metadata"]
    return not metadata.get("ownerReferences") and not metadata.get("finalizers")


def test_80_a_job_made_anew_under_a_name_has_nothing_of_the_old_one(api: Asker) -> None:
    old, pod = job_with_a_pod(api)
    api.ask("DELETE", api.jobs("j"), {"propagationPolicy": "Background"})

    new = api.have_job(job(suspend=True))

    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    api.eventually(lambda: api.ask("GET", api.core("pods", pod["metadata"]["name"])).code == 404)


def test_r10_a_precondition_that_fails_is_a_conflict_and_deletes_nothing(api: Asker) -> None:
    created = api.have_job(job(suspend=True))

    for preconditions in ({"uid": "other"}, {"resourceVersion": "1"}):
        answer = api.ask("DELETE", api.jobs("j"), {"preconditions": preconditions})
        assert (answer.code, answer.body["reason"]) == (409, "Conflict")
    kept = api.ask("GET", api.jobs("j")).body

    assert kept["metadata"]["uid"] == created["metadata"]["uid"]
    assert not kept["metadata"].get("deletionTimestamp")


def test_a_policy_in_the_query_counts_too(api: Asker) -> None:
    job_with_a_pod(api)

    api.ask("DELETE", api.jobs("j"), propagationPolicy="Background")

    api.eventually(lambda: not pods_of(api))


def test_a_policy_that_does_not_exist_is_refused(api: Asker) -> None:
    api.have_job(job(suspend=True))

    assert api.ask("DELETE", api.jobs("j"), {"propagationPolicy": "Sideways"}).code == 422


def test_an_object_with_a_finalizer_stays_until_it_is_taken_off(api: Asker) -> None:
    sent = job(suspend=True)
    sent["metadata"]["finalizers"] = ["example.com/hold"]
    api.have_job(sent)

    answer = api.ask("DELETE", api.jobs("j"), {"propagationPolicy": "Background"})

    assert answer.body["kind"] == "Job"
    added = api.merge(api.jobs("j"), {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}})
    assert added.code == 422
    api.merge(api.jobs("j"), {"metadata": {"finalizers": None}})
    assert api.ask("GET", api.jobs("j")).code == 404


def test_a_pod_on_no_node_goes_at_once(api: Asker) -> None:
    api.have("pods", waiting_pod())

    answer = api.ask("DELETE", api.core("pods", "p"))

    assert answer.code == 200
    assert api.ask("GET", api.core("pods", "p")).code == 404


def test_a_dry_run_deletes_nothing(api: Asker) -> None:
    api.have_job(job(suspend=True))

    answer = api.ask("DELETE", api.jobs("j"), {"propagationPolicy": "Background", "dryRun": ["All"]})

    assert answer.code == 200
    assert api.ask("GET", api.jobs("j")).code == 200


def test_all_that_a_selector_takes_are_deleted_together(api: Asker) -> None:
    for name, color in (("a", "red"), ("b", "red"), ("c", "blue")):
        api.have("configmaps", {"metadata": {"name": name, "labels": {"color": color}}})

    answer = api.ask("DELETE", api.core("configmaps"), labelSelector="color=red")

    assert answer.code == 200
    left = api.ask("GET", api.core("configmaps"), labelSelector="color").body["items"]
    assert [one["metadata"]["name"] for one in left] == ["c"]


def test_an_evicted_pod_is_marked_as_disrupted(api: Asker) -> None:
    sent = waiting_pod()
    sent["metadata"]["finalizers"] = ["example.com/hold"]
    api.have("pods", sent)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}

    answer = api.ask("POST", api.core("pods", "p", "eviction"), eviction)

    assert (answer.code, answer.body["status"]) == (201, "Success")
    pod = api.ask("GET", api.core("pods", "p")).body
    assert pod["metadata"]["deletionTimestamp"]
    [condition] = [one for one in pod["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert (condition["status"], condition["reason"]) == ("True", "EvictionByEvictionAPI")
    assert condition["message"] == "Eviction API: evicting"
    api.merge(api.core("pods", "p"), {"metadata": {"finalizers": None}})
