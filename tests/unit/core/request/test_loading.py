"""YAML text that is one Job, text that is not, and exports without what others wrote."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.core.request.loading import check_job, load_manifest, strip_export

JOB = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: train}\nspec: {}\n"


def test_a_job_is_loaded() -> None:
    assert load_manifest(JOB) == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {},
    }


def test_json_is_yaml() -> None:
    assert load_manifest('{"apiVersion": "batch/v1", "kind": "Job"}')["kind"] == "Job"


def test_empty_documents_around_the_job_are_no_documents() -> None:
    assert load_manifest(f"---\n{JOB}---\n") == load_manifest(JOB)


def test_a_partial_manifest_may_lack_kind_and_version() -> None:
    assert load_manifest("spec: {}", partial=True) == {"apiVersion": "batch/v1", "kind": "Job", "spec": {}}


def test_anchors_and_merge_keys_are_understood() -> None:
    text = JOB.replace("spec: {}", "spec:\n  a: &a {x: 1, y: 2}\n  b: {<<: *a, y: 3}")

    assert load_manifest(text)["spec"]["b"] == {"x": 1, "y": 3}


NOT_A_JOB = {
    "an empty text": ("", "manifest", "it is empty"),
    "nothing but a comment": ("# a Job\n", "manifest", "it is empty"),
    "a YAML list": ("- apiVersion: batch/v1\n  kind: Job\n", "manifest", "it is a list of 1 object"),
    "a Kubernetes List": ("apiVersion: v1\nkind: List\nitems: []\n", "manifest.kind", "it is a list"),
    "a JobList": ("apiVersion: batch/v1\nkind: JobList\nitems: []\n", "manifest.kind", "it is a list"),
    "two documents": (
        f"{JOB}---\napiVersion: v1\nkind: Service\n",
        "manifest",
        "it has 2 documents (Job, Service)",
    ),
    "a word": ("train", "manifest", "it is not a mapping"),
    "a number": ("42", "manifest", "it is not a mapping"),
    "a Pod": ("apiVersion: v1\nkind: Pod\n", "manifest.kind", "not a Job"),
    "a CronJob": ("apiVersion: batch/v1\nkind: CronJob\n", "manifest.kind", "not a Job"),
    "no kind": ("apiVersion: batch/v1\n", "manifest.kind", "missing"),
    "an old version": (
        "apiVersion: batch/v1beta1\nkind: Job\n",
        "manifest.apiVersion",
        "not the version of Job that is sent",
    ),
    "no version": ("kind: Job\n", "manifest.apiVersion", "missing"),
    "a tag that would run Python": ("!!python/object/apply:os.getcwd []", "manifest", None),
}


@pytest.mark.parametrize(("text", "want_field", "want_why"), NOT_A_JOB.values(), ids=NOT_A_JOB.keys())
def test_what_is_not_one_job_is_refused(text, want_field, want_why) -> None:
    with pytest.raises(SpecError) as caught:
        load_manifest(text)

    (problem,) = caught.value.problems
    assert problem.field == want_field
    assert want_why is None or problem.why == want_why


NOT_YAML = {
    "an unquoted variable in a list": (
        "apiVersion: batch/v1\nkind: Job\nspec:\n  command: [python, ${M}]\n",
        "line 4",
        'Quote the value that holds a variable, e.g. "${NAME}"',
    ),
    "unquoted Jinja": (
        "apiVersion: batch/v1\nkind: Job\nspec:\n  completions: {{ n }}\n",
        "line 4",
        'Quote the value that holds Jinja, e.g. "{{ ds }}"',
    ),
    "a tab": ("apiVersion: batch/v1\nspec:\n\tcompletions: 3\n", "line 3", "Indent with spaces, not tabs"),
    "a bracket left open": ("kind: Job\nspec: [1, 2\n", "line 3", "Mend the YAML at that line"),
    "a key twice": (
        "kind: Job\nspec:\n  completions: 3\n  completions: 4\n",
        "line 4: the key 'completions' stands there twice",
        "Mend the YAML at that line",
    ),
}


@pytest.mark.parametrize(("text", "want_why", "want_mend"), NOT_YAML.values(), ids=NOT_YAML.keys())
def test_what_is_not_yaml_is_named_with_line_and_mend(text, want_why, want_mend) -> None:
    with pytest.raises(SpecError) as caught:
        load_manifest(text)

    (problem,) = caught.value.problems
    assert problem.field == "manifest"
    assert want_why in problem.why
    assert problem.mend == want_mend


ALIASES = {
    "an alias of itself": JOB.replace("{}", "&a {template: *a}"),
    "aliases of aliases": JOB.replace(
        "spec: {}",
        "spec:\n  l0: &l0 [x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"  l{n}: &l{n} [{','.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 9)),
    ),
}


@pytest.mark.parametrize("text", ALIASES.values(), ids=ALIASES.keys())
def test_a_few_aliases_must_not_stand_for_endlessly_many_values(text) -> None:
    with pytest.raises(SpecError, match="Use fewer aliases"):
        load_manifest(text)


def test_what_looks_like_a_date_and_is_none_is_named() -> None:
    with pytest.raises(SpecError, match="Quote that value"):
        load_manifest(JOB.replace("{}", "{day: 2026-13-45}"))


def test_a_control_character_is_not_yaml() -> None:
    with pytest.raises(SpecError, match="not YAML"):
        load_manifest("kind: Job\x07")


def test_a_mapping_is_checked_like_text() -> None:
    with pytest.raises(SpecError, match="not a Job"):
        check_job({"apiVersion": "v1", "kind": "Pod"})


EXPORT: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {
        "name": "train",
        "namespace": "ml",
        "uid": "1b2c",
        "resourceVersion": "17",
        "creationTimestamp": None,
        "generation": 1,
        "managedFields": [{}],
        "ownerReferences": [{"kind": "CronJob"}],
        "finalizers": ["foregroundDeletion", "acme.io/mine"],
        "labels": {
            "team": "search",
            "controller-uid": "1b2c",
            "job-name": "train",
            "batch.kubernetes.io/controller-uid": "1b2c",
            "batch.kubernetes.io/job-name": "train",
            "airflow-batchjob/identity": "0f",
        },
        "annotations": {
            "airflow-batchjob/stop": "{}",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        },
    },
    "spec": {
        "completions": 3,
        "suspend": False,
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "1b2c"}},
        "template": {
            "metadata": {"creationTimestamp": None, "labels": {"job-name": "train", "app": "x"}},
            "spec": {"restartPolicy": "Never"},
        },
    },
    "status": {"succeeded": 3},
}


def test_an_export_keeps_what_its_author_wrote() -> None:
    bare, _ = strip_export(EXPORT)

    assert bare == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train",
            "namespace": "ml",
            "finalizers": ["acme.io/mine"],
            "labels": {"team": "search"},
        },
        "spec": {
            "completions": 3,
            "suspend": False,
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"restartPolicy": "Never"}},
        },
    }


def test_each_removal_is_named() -> None:
    _, gone = strip_export(EXPORT)

    assert set(gone) >= {
        "status",
        "spec.selector",
        "metadata.uid",
        "metadata.creationTimestamp",
        "metadata.finalizers",
        "metadata.labels.controller-uid",
        "metadata.labels.airflow-batchjob/identity",
        "metadata.annotations.airflow-batchjob/stop",
        "spec.template.metadata.creationTimestamp",
        "spec.template.metadata.labels.job-name",
    }


def test_stripping_twice_is_stripping_once() -> None:
    bare, _ = strip_export(EXPORT)

    assert strip_export(bare) == (bare, ())


def test_metadata_that_held_nothing_else_goes_too() -> None:
    template = {"metadata": {"creationTimestamp": None}, "spec": {}}

    assert strip_export({"spec": {"template": template}})[0] == {"spec": {"template": {"spec": {}}}}


def test_a_selector_of_the_authors_own_stays() -> None:
    job = {"spec": {"manualSelector": True, "selector": {"matchLabels": {"app": "x"}}}}

    assert strip_export(job) == (job, ())


def test_the_export_itself_is_not_changed() -> None:
    frozen = MappingProxyType({**EXPORT, "metadata": MappingProxyType(EXPORT["metadata"])})

    strip_export(frozen)

    assert EXPORT["metadata"]["uid"] == "1b2c"
    assert EXPORT["metadata"]["labels"]["job-name"] == "train"
