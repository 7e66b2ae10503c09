"""What Kubernetes refuses about a pod template."""

from __future__ import annotations

import pytest

from airflow_batchjob.core.rules.pod_rules import metadata_problems, namespace_problems, pod_problems

AT = "spec.template.spec"


def fields(pod, **options):
    return [problem.field for problem in pod_problems(pod, **options)]


def pod(**more):
    return {"restartPolicy": "Never", "containers": [{"name": "work", "image": "work:1"}], **more}


def container(**more):
    return pod(containers=[{"name": "work", "image": "work:1", **more}])


RIGHT = {
    "the least": pod(),
    "restart in place": pod(restartPolicy="OnFailure"),
    "a sidecar": pod(initContainers=[{"name": "log", "image": "log:1", "restartPolicy": "Always"}]),
    "env": container(env=[{"name": "A"}, {"name": "a.b-c", "value": ""}, {"name": "B", "valueFrom": {}}]),
    "mounts": container(volumeMounts=[{"name": "v", "mountPath": "/v"}]) | {"volumes": [{"name": "v"}]},
    "tolerations": pod(
        tolerations=[{"operator": "Exists"}, {"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
    ),
    "a selector": pod(nodeSelector={"topology.kubernetes.io/zone": "a", "empty": ""}),
    "an account": pod(serviceAccountName="team.batch-runner"),
    "a name that is a template": container(image="{{ image }}"),
}


@pytest.mark.parametrize("given", RIGHT.values(), ids=RIGHT.keys())
def test_what_kubernetes_takes_has_no_problem(given) -> None:
    assert fields(given) == []


WRONG = {
    "no restart policy": (pod(restartPolicy=None), f"{AT}.restartPolicy"),
    "restart always": (pod(restartPolicy="Always"), f"{AT}.restartPolicy"),
    "an unknown restart policy": (pod(restartPolicy="Sometimes"), f"{AT}.restartPolicy"),
    "no container": (pod(containers=[]), f"{AT}.containers"),
    "no image": (container(image=None), f"{AT}.containers[0].image"),
    "blanks around an image": (container(image="work:1 "), f"{AT}.containers[0].image"),
    "no name": (container(name=None), f"{AT}.containers[0].name"),
    "a name with capitals": (container(name="Work"), f"{AT}.containers[0].name"),
    "a name that is too long": (container(name="a" * 64), f"{AT}.containers[0].name"),
    "an unknown pull policy": (container(imagePullPolicy="always"), f"{AT}.containers[0].imagePullPolicy"),
    "a word that is a number": (container(command=["sleep", 60]), f"{AT}.containers[0].command[1]"),
    "an env name with =": (container(env=[{"name": "A=B"}]), f"{AT}.containers[0].env[0].name"),
    "an env value that is a number": (
        container(env=[{"name": "A", "value": 5}]),
        f"{AT}.containers[0].env[0].value",
    ),
    "two sources of an env value": (
        container(env=[{"name": "A", "value": "1", "valueFrom": {}}]),
        f"{AT}.containers[0].env[0]",
    ),
    "a mount of no volume": (
        container(volumeMounts=[{"name": "v", "mountPath": "/v"}]),
        f"{AT}.containers[0].volumeMounts[0].name",
    ),
    "a mount nowhere": (
        container(volumeMounts=[{"name": "v"}]) | {"volumes": [{"name": "v"}]},
        f"{AT}.containers[0].volumeMounts[0].mountPath",
    ),
    "two mounts at one path": (
        container(volumeMounts=[{"name": "v", "mountPath": "/v"}] * 2) | {"volumes": [{"name": "v"}]},
        f"{AT}.containers[0].volumeMounts[1].mountPath",
    ),
    "two volumes of one name": (pod(volumes=[{"name": "v"}, {"name": "v"}]), f"{AT}.volumes"),
    "a selector's value": (pod(nodeSelector={"a": "not a value!"}), f"{AT}.nodeSelector['a']"),
    "a toleration of nothing": (pod(tolerations=[{"effect": "NoSchedule"}]), f"{AT}.tolerations[0].key"),
    "a toleration of all values and one": (
        pod(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
        f"{AT}.tolerations[0].value",
    ),
    "an unknown effect": (
        pod(tolerations=[{"key": "a", "effect": "noSchedule"}]),
        f"{AT}.tolerations[0].effect",
    ),
    "an unknown operator": (
        pod(tolerations=[{"key": "a", "operator": "In"}]),
        f"{AT}.tolerations[0].operator",
    ),
    "an account with blanks": (pod(serviceAccountName="my account"), f"{AT}.serviceAccountName"),
    "requests above limits": (
        container(resources={"limits": {"cpu": 1}, "requests": {"cpu": 2}}),
        f"{AT}.containers[0].resources.requests.cpu",
    ),
    "those of an init container too": (
        pod(initContainers=[{"name": "p", "image": "p", "resources": {"limits": {"cpu": "x"}}}]),
        f"{AT}.initContainers[0].resources.limits.cpu",
    ),
}


@pytest.mark.parametrize(("given", "want"), WRONG.values(), ids=WRONG.keys())
def test_what_kubernetes_refuses_is_named(given, want) -> None:
    assert fields(given) == [want]


def test_names_are_shared_with_init_containers() -> None:
    given = pod(initContainers=[{"name": "work", "image": "p"}])

    assert fields(given) == [f"{AT}.containers[0].name", f"{AT}.initContainers[0].name"]


def test_resources_are_not_judged_while_a_machine_is_to_be_shared_out() -> None:
    given = container(resources={"limits": {"cpu": 1}, "requests": {"cpu": 2}})

    assert fields(given, resources_known=False) == []


def test_values_of_env_are_never_shown() -> None:
    given = container(
        env=[{"name": "TOKEN", "value": 31337}, {"name": "B", "value": "s3cret", "valueFrom": {}}]
    )

    text = " ".join(map(str, pod_problems(given)))

    assert "TOKEN" in text
    assert "31337" not in text
    assert "s3cret" not in text


MARKS = {
    "good ones": ({"labels": {"a.b/c": "d", "e": ""}, "annotations": {"n": "any text at all"}}, []),
    "a label's value": ({"labels": {"a": "b c"}}, ["m.labels['a']"]),
    "a label that is too long": ({"labels": {"a": "b" * 64}}, ["m.labels['a']"]),
    "a label that is a number": ({"labels": {"a": 1}}, ["m.labels['a']"]),
    "a key with blanks": ({"labels": {"a b": "c"}}, ["m.labels['a b']"]),
    "a key with a wrong domain": ({"annotations": {"A_B/c": "d"}}, ["m.annotations['A_B/c']"]),
    "an annotation that is a number": ({"annotations": {"a": 1}}, ["m.annotations['a']"]),
}


@pytest.mark.parametrize(("metadata", "want"), MARKS.values(), ids=MARKS.keys())
def test_labels_and_annotations(metadata, want) -> None:
    assert [problem.field for problem in metadata_problems(metadata, "m")] == want


@pytest.mark.parametrize("name", ["My", "a.b", "a" * 64, "-a", 5, ""])
def test_what_is_no_namespace_is_named(name) -> None:
    assert [problem.field for problem in namespace_problems("namespace", name)] == ["namespace"]


def test_a_namespace_is_a_label() -> None:
    assert list(namespace_problems("namespace", "team-1")) == []
