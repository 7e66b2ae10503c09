"""How parameters and a manifest meet: what is given overrides, what is not given changes nothing."""

from __future__ import annotations

from copy import deepcopy
from types import MappingProxyType
from typing import ClassVar

import pytest
import yaml

from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.core.request.manifest import SENT_TTL_SECONDS, Built, build
from airflow_batchjob.core.request.spec import JobSpec
from airflow_batchjob.core.sharing.machine import Machine

POD = {"restartPolicy": "Never", "containers": [{"name": "work", "image": "work:1"}]}


def job(pod=None, **spec):
    """Return a manifest with these fields in its spec."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {**spec, "template": {"spec": pod or POD}},
    }


def built(**parameters) -> Built:
    return build(JobSpec(**parameters), default_name="dag-task")


def problems(**parameters):
    """Return field and reason of each problem."""
    with pytest.raises(SpecError) as caught:
        built(**parameters)
    return {problem.field: problem.why for problem in caught.value.problems}


INDEXED = job(
    completionMode="Indexed",
    completions=50,
    parallelism=7,
    backoffLimitPerIndex=2,
    backoffLimit=9,
    podReplacementPolicy="TerminatingOrFailed",
    suspend=True,
    activeDeadlineSeconds=60,
)


class TestBuiltFromParameters:
    def test_the_least(self) -> None:
        assert built(image="work:1").manifest == {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "dag-task"},
            "spec": {
                "completionMode": "Indexed",
                "completions": 1,
                "parallelism": 1,
                "backoffLimitPerIndex": 0,
                "podReplacementPolicy": "Failed",
                "ttlSecondsAfterFinished": SENT_TTL_SECONDS,
                "template": {
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work:1"}]}
                },
            },
        }

    def test_all_indexes_run_at_once(self) -> None:
        spec = built(image="work:1", completions=20).manifest["spec"]

        assert (spec["completions"], spec["parallelism"]) == (20, 20)

    def test_unless_parallelism_is_given(self) -> None:
        spec = built(image="work:1", completions="20", parallelism="5").manifest["spec"]

        assert (spec["completions"], spec["parallelism"]) == (20, 5)

    def test_there_is_no_fuse_and_no_retry(self) -> None:
        spec = built(image="work:1", completions=20).manifest["spec"]

        assert spec["backoffLimitPerIndex"] == 0
        assert "maxFailedIndexes" not in spec
        assert "backoffLimit" not in spec

    def test_both_limits_may_be_given(self) -> None:
        spec = built(image="work:1", retries_per_index=2, backoff_limit=30).manifest["spec"]

        assert (spec["backoffLimitPerIndex"], spec["backoffLimit"]) == (2, 30)

    def test_without_an_image_nothing_says_what_to_run(self) -> None:
        assert set(problems()) == {"image"}

    def test_containers_may_come_from_the_partial_pod_alone(self) -> None:
        pod = {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]}

        spec = built(pod=pod).manifest["spec"]

        assert [c["name"] for c in spec["template"]["spec"]["containers"]] == ["a", "b"]

    def test_an_image_beside_a_sidecar_has_a_container_of_its_own(self) -> None:
        pod = {"containers": [{"name": "sidecar", "image": "s:1"}]}

        containers = built(image="work:1", pod=pod).manifest["spec"]["template"]["spec"]["containers"]

        assert [(c["name"], c["image"]) for c in containers] == [("main", "work:1"), ("sidecar", "s:1")]

    def test_zero_completions_are_nothing_to_do(self) -> None:
        result = built(image="work:1", completions="0", max_failed_indexes=3, min_succeeded=2)

        assert result.nothing_to_do
        assert result.thresholds.completions == 0

    def test_one_completion_is_something_to_do(self) -> None:
        assert not built(image="work:1").nothing_to_do


class TestNothingGiven:
    CASES: ClassVar = {
        "indexed, with budgets": INDEXED,
        "not indexed": job(backoffLimit=4),
        "a work queue": job(parallelism=3),
        "restart in place": job({**POD, "restartPolicy": "OnFailure"}, backoffLimit=3),
        "policies": job(
            completionMode="Indexed",
            completions=3,
            parallelism=1,
            podFailurePolicy={
                "rules": [
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
                    {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
                ]
            },
            successPolicy={"rules": [{"succeededIndexes": "0-1", "succeededCount": 1}]},
        ),
        "much in the pod": job(
            {
                **POD,
                "volumes": [{"name": "scratch", "emptyDir": {}}],
                "nodeSelector": {"disk": "ssd"},
                "tolerations": [{"operator": "Exists"}],
                "initContainers": [{"name": "prepare", "image": "p:1", "restartPolicy": "Always"}],
                "containers": [
                    {
                        "name": "work",
                        "image": "work:1",
                        "command": ["sh", "-c", "echo ${HOME} $(date)"],
                        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": ""}],
                        "resources": {
                            "requests": {"cpu": 1},
                            "limits": {"cpu": "2000m", "nvidia.com/gpu": 1},
                        },
                        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
                    }
                ],
            }
        ),
    }

    @pytest.mark.parametrize("manifest", CASES.values(), ids=CASES.keys())
    def test_the_manifest_comes_out_as_it_is_but_for_the_ttl(self, manifest) -> None:
        sent = built(manifest=manifest).manifest

        assert sent["spec"].pop("ttlSecondsAfterFinished") == SENT_TTL_SECONDS
        assert sent == manifest

    @pytest.mark.parametrize("manifest", CASES.values(), ids=CASES.keys())
    def test_text_and_mapping_give_the_same(self, manifest) -> None:
        assert built(manifest=yaml.safe_dump(manifest)).manifest == built(manifest=manifest).manifest

    def test_the_one_change_is_noted(self) -> None:
        assert [note.partition(" ")[0] for note in built(manifest=INDEXED).notes] == [
            "ttlSecondsAfterFinished"
        ]

    def test_null_is_absent(self) -> None:
        manifest = job(completions=None, parallelism=None)

        assert "completions" not in built(manifest=manifest).manifest["spec"]


class TestGivenOverrides:
    CASES: ClassVar = {
        "completions": ({"completions": 60}, "completions", 60),
        "parallelism": ({"parallelism": "9"}, "parallelism", 9),
        "retries_per_index": ({"retries_per_index": "5"}, "backoffLimitPerIndex", 5),
        "backoff_limit": ({"backoff_limit": 100}, "backoffLimit", 100),
        "max_failed_indexes": ({"max_failed_indexes": "10%"}, "maxFailedIndexes", 5),
        "max_failed_indexes of new completions": (
            {"max_failed_indexes": "10%", "completions": "200"},
            "maxFailedIndexes",
            20,
        ),
        "deadline_seconds": ({"deadline_seconds": "7"}, "activeDeadlineSeconds", 7),
        "a longer ttl": ({"ttl_seconds_after_finished": 10**6}, "ttlSecondsAfterFinished", 10**6),
    }

    @pytest.mark.parametrize(("given", "field", "want"), CASES.values(), ids=CASES.keys())
    def test_one_field_and_no_other(self, given, field, want) -> None:
        before, after = (
            built(manifest=INDEXED).manifest["spec"],
            built(manifest=INDEXED, **given).manifest["spec"],
        )

        assert after[field] == want
        unasked = {"backoffLimit", "completions"}  # see the budgets; completions may be given too
        assert {k: v for k, v in after.items() if k not in {field, *unasked}} == {
            k: v for k, v in before.items() if k not in {field, *unasked}
        }


class TestTtl:
    CASES: ClassVar = {
        "neither": ({}, {}, SENT_TTL_SECONDS, None, None),
        "a shorter one of the manifest": ({"ttlSecondsAfterFinished": 60}, {}, SENT_TTL_SECONDS, 60, "60"),
        "a longer one of the manifest": ({"ttlSecondsAfterFinished": 10**6}, {}, 10**6, 10**6, None),
        "at once": ({"ttlSecondsAfterFinished": 0}, {}, SENT_TTL_SECONDS, 0, "0"),
        "a parameter": ({}, {"ttl_seconds_after_finished": "60"}, SENT_TTL_SECONDS, 60, "60"),
        "a parameter above the manifest's": (
            {"ttlSecondsAfterFinished": 5},
            {"ttl_seconds_after_finished": 60},
            SENT_TTL_SECONDS,
            60,
            "60",
        ),
    }

    @pytest.mark.parametrize(
        ("own", "given", "want_sent", "want_later", "want_annotation"), CASES.values(), ids=CASES.keys()
    )
    def test_an_ended_job_stays_until_it_is_reported(
        self, own, given, want_sent, want_later, want_annotation
    ) -> None:
        result = built(manifest=job(**own), **given)

        assert result.manifest["spec"]["ttlSecondsAfterFinished"] == want_sent
        assert result.ttl_seconds_after_finished == want_later
        annotations = result.manifest["metadata"].get("annotations", {})
        assert annotations.get("airflow-batchjob/ttl") == want_annotation

    @pytest.mark.parametrize("own", [{}, {"ttlSecondsAfterFinished": 60}])
    def test_none_leaves_it_out(self, own) -> None:
        result = built(manifest=job(**own), ttl_seconds_after_finished=None)

        assert "ttlSecondsAfterFinished" not in result.manifest["spec"]
        assert result.ttl_left_out
        assert len(result.notes) == len(own)


class TestNames:
    CASES: ClassVar = {
        "the parameter first": ({"name": "mine", "manifest": job()}, "mine"),
        "then the manifest": ({"manifest": job()}, "train"),
        "then the task": ({"image": "work:1"}, "dag-task"),
        "a prefix of the manifest is a name": (
            {"manifest": {**job(), "metadata": {"generateName": "train-"}}},
            "train",
        ),
        "an untitled manifest": ({"manifest": {**job(), "metadata": {}}}, "dag-task"),
    }

    @pytest.mark.parametrize(("given", "want"), CASES.values(), ids=CASES.keys())
    def test_the_stem(self, given, want) -> None:
        result = built(**given)

        assert (result.stem, result.manifest["metadata"]["name"]) == (want, want)
        assert "generateName" not in result.manifest["metadata"]

    def test_the_longest_name_with_room_for_the_index(self) -> None:
        assert built(image="i", name="a" * 59, completions=1000).stem == "a" * 59

    TOO_LONG: ClassVar = {
        "of the parameter": ({"name": "a" * 60, "image": "i", "completions": 1000}, "name", "'-999'"),
        "of the manifest": (
            {"manifest": {**INDEXED, "metadata": {"name": "a" * 61}}},
            "metadata.name",
            "at most 60 with room for the index suffix '-49'",
        ),
        "without indexes": (
            {"manifest": {**job(), "metadata": {"name": "a" * 64}}},
            "metadata.name",
            "at most 63",
        ),
    }

    @pytest.mark.parametrize(("given", "field", "want"), TOO_LONG.values(), ids=TOO_LONG.keys())
    def test_a_name_that_leaves_no_room_is_refused(self, given, field, want) -> None:
        assert want in problems(**given)[field]


class TestNamespace:
    MANIFEST: ClassVar = {**job(), "metadata": {"name": "train", "namespace": "ml"}}
    CASES: ClassVar = {
        "the parameter first": ({"manifest": MANIFEST, "namespace": "mine"}, "mine"),
        "then the manifest": ({"manifest": MANIFEST}, "ml"),
        "else the connection decides": ({"manifest": job()}, None),
    }

    @pytest.mark.parametrize(("given", "want"), CASES.values(), ids=CASES.keys())
    def test_who_decides(self, given, want) -> None:
        result = built(**given)

        assert result.namespace == result.manifest["metadata"].get("namespace") == want

    def test_a_wrong_one_is_refused_under_the_authors_name(self) -> None:
        assert set(problems(manifest=job(), namespace="My_Space")) == {"namespace"}


class TestMarks:
    def test_labels_and_annotations_merge_on_the_job_and_its_pods(self) -> None:
        manifest = job()
        manifest["metadata"]["labels"] = {"team": "a", "tier": "x"}
        manifest["spec"]["template"]["metadata"] = {"labels": {"app": "w"}}

        sent = built(manifest=manifest, labels={"team": "b"}, annotations={"n": 3}).manifest

        assert sent["metadata"]["labels"] == {"team": "b", "tier": "x"}
        assert sent["spec"]["template"]["metadata"] == {
            "labels": {"app": "w", "team": "b"},
            "annotations": {"n": "3"},
        }
        assert sent["metadata"]["annotations"]["n"] == "3"

    def test_a_wrong_label_is_named_once(self) -> None:
        assert set(problems(manifest=job(), labels={"team": "not a value!"})) == {"labels['team']"}


class TestExports:
    def test_what_the_server_wrote_goes_and_is_noted(self) -> None:
        manifest = {**job(), "status": {}}
        manifest["metadata"] = {"name": "train", "creationTimestamp": None}

        result = built(manifest=manifest)

        assert result.manifest == built(manifest=job()).manifest
        assert result.notes[0].endswith(": status, metadata.creationTimestamp")


class TestVariables:
    def test_a_whole_value_takes_the_type_its_place_wants(self) -> None:
        manifest = job(
            {
                **POD,
                "containers": [
                    {"name": "work", "image": "w:${TAG}", "env": [{"name": "N", "value": "${N}"}]}
                ],
            },
            completions="${N}",
            completionMode="Indexed",
        )

        for number in (5, "5"):
            spec = built(manifest=manifest, variables={"N": number, "TAG": "1.10"}).manifest["spec"]
            (container,) = spec["template"]["spec"]["containers"]
            assert spec["completions"] == 5
            assert container["env"] == [{"name": "N", "value": "5"}]
            assert container["image"] == "w:1.10"

    def test_unused_ones_are_noted(self) -> None:
        notes = built(manifest=job(), variables={"DAY": "1"}).notes

        assert any("DAY" in note for note in notes)

    def test_missing_ones_are_named_together_with_all_else(self) -> None:
        pod = {
            **POD,
            "containers": [
                {
                    "name": "work",
                    "image": "${IMAGE}",
                    "resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}},
                }
            ],
        }
        with pytest.raises(SpecError) as caught:
            built(manifest=job(pod, completions="${N}"), parallelism="many")

        text = str(caught.value)
        assert "IMAGE" in text
        assert "N" in {str(problem.value).strip("${}") for problem in caught.value.problems}
        assert "requests.memory" in text
        assert "parallelism='many'" in text
        assert "completions='${N}': not a whole number" not in text


class TestIndexVariable:
    def test_a_value_of_the_authors_own_is_noted(self) -> None:
        notes = built(image="i", env={"JOB_COMPLETION_INDEX": "0"}).notes

        assert any("every index sees the same one" in note for note in notes)

    def test_a_reference_to_the_index_is_not(self) -> None:
        source = {"valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['x']"}}}

        notes = built(image="i", env={"JOB_COMPLETION_INDEX": source}).notes

        assert not any("JOB_COMPLETION_INDEX" in note for note in notes)


class TestPartialManifest:
    def test_with_an_image_it_may_lack_containers_kind_and_name(self) -> None:
        manifest = {"spec": {"backoffLimit": 2, "template": {"spec": {"restartPolicy": "Never"}}}}

        sent = built(manifest=manifest, image="work:1").manifest

        assert (sent["apiVersion"], sent["kind"]) == ("batch/v1", "Job")
        assert sent["metadata"]["name"] == "dag-task"
        assert sent["spec"]["backoffLimit"] == 2
        assert sent["spec"]["template"]["spec"]["containers"] == [{"name": "main", "image": "work:1"}]

    def test_without_an_image_it_may_not(self) -> None:
        manifest = {"spec": {"template": {"spec": {"restartPolicy": "Never"}}}}

        assert set(problems(manifest=manifest)) == {"manifest.kind"}


class TestArguments:
    GIVEN: ClassVar = {
        "manifest": {**job(completionMode="Indexed", completions=50, backoffLimit=9), "status": {}},
        "variables": {"A": "1"},
        "env": {"A": "1", "B": {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}},
        "env_from": [{"secretRef": {"name": "s"}}],
        "pod": {"volumes": [{"name": "v"}], "tolerations": [{"operator": "Exists"}]},
        "labels": {"team": "a"},
        "annotations": {"n": "1"},
        "node_selector": {"disk": "ssd"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "image_pull_secrets": ["s"],
        "exit_codes": {"fail_index": [42], "fail_job": [43]},
        "command": ["sh"],
        "args": ["-c", "true"],
        "retries_per_index": 1,
    }

    def test_are_never_changed(self) -> None:
        given = deepcopy(self.GIVEN)
        before = deepcopy(given)
        frozen = {
            name: MappingProxyType(value) if isinstance(value, dict) and name != "manifest" else value
            for name, value in given.items()
        }

        first, second = built(**frozen), built(**frozen)

        assert given == before
        assert first == second

    def test_the_result_shares_nothing_with_them(self) -> None:
        manifest, pod = deepcopy(INDEXED), {"volumes": [{"name": "v", "emptyDir": {}}]}
        sent = built(manifest=manifest, pod=pod).manifest

        sent["spec"]["template"]["spec"]["containers"][0]["image"] = "other"
        sent["spec"]["template"]["spec"]["volumes"][0]["name"] = "other"

        assert manifest == INDEXED
        assert pod == {"volumes": [{"name": "v", "emptyDir": {}}]}


def test_the_shared_manifest_with_a_machine() -> None:
    containers = [
        {
            "name": name,
            "image": "i",
            "resources": {"limits": {"cpu": cpu, "memory": memory, "nvidia.com/gpu": 1}},
        }
        for name, cpu, memory in (("train", "14000m", "51200Mi"), ("train-helper", "9333m", "4200Mi"))
    ]
    machine = Machine(cpu=20, memory="101Gi", gpus=1)

    sent = built(manifest=job({**POD, "containers": containers}), machine=machine).manifest

    limits = [c["resources"]["limits"] for c in sent["spec"]["template"]["spec"]["containers"]]
    assert limits == [
        {"cpu": "12000m", "memory": "95583Mi", "nvidia.com/gpu": "1"},
        {"cpu": "7999m", "memory": "7840Mi"},
    ]


def test_everything_wrong_is_said_at_once() -> None:
    pod = {"containers": [{"name": "Work_1"}, {"name": "b", "image": "b:1"}, {"name": "b", "image": "b:2"}]}

    found = problems(
        manifest=job(pod, backOffLimit=3, completions=-1), retries_per_index="x", env_from="secret"
    )

    assert set(found) == {
        "retries_per_index",
        "env_from",
        "spec.backOffLimit",
        "spec.completions",
        "spec.template.spec.restartPolicy",
        "spec.template.spec.containers[0].name",
        "spec.template.spec.containers[0].image",
        "spec.template.spec.containers[1].name",
        "spec.template.spec.containers[2].name",
    }
