"""The pod template: which container parameters act on, what merges and what replaces."""

from __future__ import annotations

import pytest

from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.core.request.manifest import build
from airflow_batchjob.core.request.spec import JobSpec
from airflow_batchjob.core.sharing.machine import Machine

LIMITS = {"limits": {"cpu": 1, "memory": "1Gi"}}


def manifest(*containers, **pod):
    """Return a Job with these containers: (name, more fields)."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": name, "image": "old:1", **more} for name, more in containers],
                    **pod,
                }
            }
        },
    }


ONE = manifest(("work", {"command": ["old"], "args": ["old"], "env": [{"name": "A", "value": "old"}]}))
TWO = manifest(("work", {}), ("sidecar", {}))


def pod_of(**parameters):
    return build(JobSpec(**parameters), default_name="dag-task").manifest["spec"]["template"]["spec"]


def problems(**parameters):
    with pytest.raises(SpecError) as caught:
        pod_of(**parameters)
    return {problem.field: f"{problem.why}. {problem.mend}" for problem in caught.value.problems}


CHOSEN = {
    "the only one": (ONE, None, "work"),
    "else the first": (TWO, None, "work"),
    "the one that is named": (TWO, "sidecar", "sidecar"),
}


@pytest.mark.parametrize(("given", "container", "want"), CHOSEN.values(), ids=CHOSEN.keys())
def test_parameters_act_on_one_container(given, container, want) -> None:
    containers = pod_of(manifest=given, container=container, image="new:1")["containers"]

    assert [c["name"] for c in containers if c["image"] == "new:1"] == [want]


def test_an_unknown_container_is_refused_with_the_known_ones() -> None:
    found = problems(manifest=TWO, container="wrok")

    assert found == {"container": "there is no such container. Use a known one: work, sidecar"}


def test_a_container_built_from_parameters_has_the_name_that_is_given() -> None:
    assert [c["name"] for c in pod_of(image="i", container="work")["containers"]] == ["work"]


def test_command_and_args_replace() -> None:
    (container,) = pod_of(manifest=ONE, command=["sleep", 3600], args=["new", 1.5])["containers"]

    assert (container["command"], container["args"]) == (["sleep", "3600"], ["new", "1.5"])


def test_empty_ones_change_nothing() -> None:
    assert pod_of(manifest=ONE, command=[], args=[], env={}, pod={}) == pod_of(manifest=ONE)


ENVS = {
    "a mapping": {"A": "new", "N": 3, "S": {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}},
    "Kubernetes' own list": [
        {"name": "A", "value": "new"},
        {"name": "N", "value": "3"},
        {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ],
}


@pytest.mark.parametrize("env", ENVS.values(), ids=ENVS.keys())
def test_env_merges_by_name(env) -> None:
    (container,) = pod_of(manifest=ONE, env=env)["containers"]

    assert container["env"] == [
        {"name": "A", "value": "new"},
        {"name": "N", "value": "3"},
        {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]


def test_env_from_is_added_once() -> None:
    own, added = {"configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}}

    (container,) = pod_of(manifest=manifest(("work", {"envFrom": [own]})), env_from=[own, added])[
        "containers"
    ]

    assert container["envFrom"] == [own, added]


def test_container_resources_are_sent_as_given() -> None:
    given = manifest(("work", {"resources": {"limits": {"cpu": 9}}}))

    (container,) = pod_of(manifest=given, container_resources={"limits": {"memory": "2Gi"}})["containers"]

    assert container["resources"] == {"limits": {"memory": "2Gi"}}


def test_wrong_container_resources_are_named_as_the_parameter() -> None:
    given = {"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}}

    assert set(problems(manifest=ONE, container_resources=given)) == {"container_resources.requests.memory"}


def test_container_resources_beside_a_machine_are_an_error() -> None:
    found = problems(manifest=ONE, container_resources=LIMITS, machine=Machine(cpu=2, memory="2Gi"))

    assert "not both" in found["container_resources"]


def test_a_partial_pod_merges_by_kubernetes_keys() -> None:
    given = manifest(
        ("work", {}), volumes=[{"name": "v", "emptyDir": {}}], tolerations=[{"operator": "Exists"}]
    )
    part = {
        "containers": [{"name": "work", "workingDir": "/w"}],
        "volumes": [{"name": "w", "emptyDir": {}}],
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "priorityClassName": "batch",
    }

    pod = pod_of(manifest=given, pod=part)

    assert pod["containers"] == [{"name": "work", "image": "old:1", "workingDir": "/w"}]
    assert [volume["name"] for volume in pod["volumes"]] == ["v", "w"]
    assert pod["tolerations"] == [{"operator": "Exists"}, {"key": "gpu", "operator": "Exists"}]
    assert pod["priorityClassName"] == "batch"


def test_none_in_a_partial_pod_takes_a_field_away() -> None:
    given = manifest(("work", {}), priorityClassName="batch", hostNetwork=True)

    assert "priorityClassName" not in pod_of(manifest=given, pod={"priorityClassName": None})


def test_what_names_one_thing_wins_over_the_partial_pod() -> None:
    pod = {"containers": [{"name": "main", "image": "a:1", "env": [{"name": "A", "value": "a"}]}]}

    (container,) = pod_of(image="b:1", env={"A": "b"}, pod=pod)["containers"]

    assert (container["image"], container["env"]) == ("b:1", [{"name": "A", "value": "b"}])


def test_numbers_in_a_partial_pod_may_be_text() -> None:
    assert (
        pod_of(image="i", pod={"terminationGracePeriodSeconds": "60"})["terminationGracePeriodSeconds"] == 60
    )


WRONG_PODS = {
    "a misspelt field": ({"node_selector": {"a": "b"}}, "pod.node_selector", "Did you mean nodeSelector"),
    "a restart policy that no Job has": ({"restartPolicy": "Always"}, "pod.restartPolicy", "Write Never"),
    "no list": ({"tolerations": {"key": "a"}}, "pod.tolerations", "not a list"),
    "a number for text": (
        {"containers": [{"name": "main", "command": ["sleep", 60]}]},
        "pod.containers[0].command[1]",
        "Quote it",
    ),
    "a container without a name": ({"containers": [{"image": "i"}]}, "pod.containers[0]", "name"),
}


@pytest.mark.parametrize(("pod", "field", "want"), WRONG_PODS.values(), ids=WRONG_PODS.keys())
def test_a_wrong_partial_pod_is_named_in_the_authors_words(pod, field, want) -> None:
    assert want in problems(image="i", pod=pod)[field]


def test_where_pods_go_is_added_to_what_the_manifest_says() -> None:
    given = manifest(
        ("work", {}),
        nodeSelector={"disk": "ssd", "zone": "a"},
        tolerations=[{"key": "a", "operator": "Exists"}],
        imagePullSecrets=[{"name": "old"}],
        serviceAccount="old",
        serviceAccountName="old",
    )

    pod = pod_of(
        manifest=given,
        node_selector={"zone": "b"},
        tolerations=[{"key": "b", "operator": "Exists"}],
        image_pull_secrets=["new", {"name": "old"}],
        service_account_name="new",
    )

    assert pod["nodeSelector"] == {"disk": "ssd", "zone": "b"}
    assert [toleration["key"] for toleration in pod["tolerations"]] == ["a", "b"]
    assert pod["imagePullSecrets"] == [{"name": "old"}, {"name": "new"}]
    assert pod["serviceAccountName"] == "new"
    assert "serviceAccount" not in pod


class Model:
    """Stands for a model of kubernetes.client."""

    attribute_map = {"name": "name", "value_from": "valueFrom"}  # noqa: RUF012
    openapi_types = {"name": "str", "value_from": "object"}  # noqa: RUF012

    def __init__(self, name, value_from) -> None:
        self.name, self.value_from = name, value_from

    def to_dict(self):
        raise AssertionError("its spelling is Python's, not Kubernetes'")


def test_models_stand_wherever_a_mapping_may() -> None:
    model = Model("A", {"fieldRef": {"fieldPath": "metadata.name"}})

    (container,) = pod_of(manifest=ONE, env=[model])["containers"]

    assert container["env"] == [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]


class TestMachine:
    def test_shares_replace_requests_and_limits(self) -> None:
        given = manifest(
            ("work", {"resources": {"limits": {"cpu": 1, "memory": "1Gi"}, "requests": {"memory": "9Gi"}}})
        )

        (container,) = pod_of(manifest=given, machine="cpu=8,memory=16Gi")["containers"]

        assert container["resources"] == {
            "limits": {"cpu": "8000m", "memory": "16384Mi"},
            "requests": {"cpu": "2000m", "memory": "4096Mi"},
        }

    def test_without_one_a_request_above_its_limit_is_named(self) -> None:
        given = manifest(
            ("work", {"resources": {"limits": {"memory": "1Gi"}, "requests": {"memory": "9Gi"}}})
        )

        (field,), (text,) = zip(*problems(manifest=given).items(), strict=True)

        assert field == "spec.template.spec.containers[0].resources.requests.memory"
        assert "container 'work' requests more memory than its limit 1Gi" in text

    def test_a_name_that_nobody_has_looked_up_is_refused(self) -> None:
        assert set(problems(manifest=ONE, machine="big")) == {"machine"}

    def test_what_cannot_be_shared_out_is_said_with_all_else(self) -> None:
        given = manifest(("work", {"resources": {"limits": {"cpu": 1}}}), ("helper", {}))

        found = problems(manifest=given, machine="cpu=8,memory=16Gi", parallelism="x")

        assert "parallelism" in found
        assert any(field.startswith("spec.template.spec.containers[1]") for field in found)

    def test_notes_of_the_division_are_passed_on(self) -> None:
        result = build(JobSpec(image="i", machine="cpu=8,memory=16Gi"), default_name="n")

        assert any("fit one machine" in note or "fits one machine" in note for note in result.notes)
