"""Names and marks that tie a Job to the task instance that asked for it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_batchjob.core.identity import marks
from airflow_batchjob.core.identity.names import (
    DAG_LABEL,
    RUN_LABEL,
    TASK,
    TASK_LABEL,
    TaskIdentity,
    identify,
    job_name,
    label_value,
    readable,
)
from airflow_batchjob.core.reading.job import Job, Metadata

ONE = TaskIdentity("default", "sales.daily", "scheduled__2026-01-01T00:00:00+00:00", "load.orders")
DNS_LABEL = r"[a-z]([-a-z0-9]*[a-z0-9])?"
LABEL_VALUE = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"

MANIFEST: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "embed", "labels": {"team": "a"}, "annotations": {"b": "c"}},
    "spec": {
        "completions": 2000,
        "completionMode": "Indexed",
        "template": {
            "metadata": {"labels": {"team": "a"}},
            "spec": {"containers": [{"name": "main", "image": "x"}]},
        },
    },
}


def test_names_and_digests_never_change() -> None:
    # A release that changes one loses the Jobs that run while it is installed.
    assert ONE.digest == "ef4225c5e5dff699"
    assert job_name("embed", ONE.digest, 0) == "embed-79e08dcecc"
    assert label_value(ONE.run_id) == "scheduled__2026-01-01T00-00-00-00-00-73ab85db"


@pytest.mark.parametrize(
    "change",
    [{"instance": "b"}, {"dag_id": "b"}, {"run_id": "b"}, {"task_id": "b"}, {"map_index": 0}],
    ids="".join,
)
def test_another_task_instance_has_another_digest(change: dict[str, Any]) -> None:
    assert replace(ONE, **change).digest != ONE.digest


def test_the_borders_between_ids_count() -> None:
    assert TaskIdentity("i", "a", "b-c", "d").digest != TaskIdentity("i", "a-b", "c", "d").digest


STEMS = {
    "plain": ("embed", "embed"),
    "upper case, dots, underscores": ("_Foo.Bar_", "foo-bar"),
    "accents": ("Ünï", "uni"),
    "a digit first": ("1st", "job-1st"),
    "nothing but dashes": ("---", "job"),
    "nothing": ("", "job"),
    "another script": ("数据", "job"),
    "runs of what is not allowed": ("a  //b", "a-b"),
}


@pytest.mark.parametrize(("stem", "want"), STEMS.values(), ids=STEMS.keys())
def test_odd_stems_make_readable_names(stem: str, want: str) -> None:
    name, _, digest = job_name(stem, ONE.digest, 0).rpartition("-")

    assert name == want
    assert re.fullmatch("[0-9a-f]{10}", digest)


@given(st.text(), st.text(), st.integers(0, 10**6), st.none() | st.integers(0, 2**31 - 1), st.booleans())
def test_any_stem_makes_a_dns_label_with_room_for_the_index(
    stem: str, digest: str, generation: int, completions: int | None, indexed: bool
) -> None:
    name = job_name(stem, digest, generation, completions=completions, indexed=indexed)

    assert re.fullmatch(DNS_LABEL, name)
    assert "--" not in name
    last_pod = f"{name}-{completions - 1}" if indexed and completions else name
    assert len(last_pod) <= 63


@given(st.text(), st.none() | st.integers(0, 2**31 - 1), st.booleans())
def test_what_people_see_before_it_is_sent_is_the_name_without_its_digits(
    stem: str, completions: int | None, indexed: bool
) -> None:
    mode = "Indexed" if indexed else "NonIndexed"
    manifest = {"metadata": {"name": stem}, "spec": {"completions": completions, "completionMode": mode}}

    shown = readable(manifest)["metadata"]["name"]

    sent = job_name(stem, ONE.digest, 0, completions=completions, indexed=indexed)
    assert shown == sent.rpartition("-")[0]
    assert manifest["metadata"] == {"name": stem}


def test_the_stem_is_cut_no_more_than_needed() -> None:
    long = "x" * 100

    assert len(job_name(long, "d", 0)) == 63
    assert len(job_name(long, "d", 0, completions=2000)) == 63
    assert len(job_name(long, "d", 0, completions=2000, indexed=True)) == 58


def test_a_cut_leaves_no_dash_at_the_edge() -> None:
    assert re.fullmatch("x{51}-[0-9a-f]{10}", job_name("x" * 51 + "-tail", "d", 0))


def test_long_stems_that_differ_late_have_different_names() -> None:
    assert job_name("x" * 100 + "a", "d", 0) != job_name("x" * 100 + "b", "d", 0)


def test_each_generation_has_its_own_name() -> None:
    assert len({job_name("embed", digest, n) for digest in ("d", "e") for n in range(100)}) == 200


@given(st.text())
def test_any_text_makes_a_label_value(text: str) -> None:
    value = label_value(text)

    assert len(value) <= 63
    assert re.fullmatch(LABEL_VALUE, value)
    assert label_value(value) == value


@given(st.from_regex(rf"\A{LABEL_VALUE}\Z"))
def test_a_valid_label_value_stays(text: str) -> None:
    assert (label_value(text) == text) == (len(text) <= 63)


def test_texts_that_differ_only_in_what_is_not_allowed_stay_distinct() -> None:
    assert label_value("a b") != label_value("a/b")
    assert label_value("x" * 99 + "a") != label_value("x" * 99 + "b")
    assert label_value("a\n") != "a\n"


def test_a_job_carries_who_it_belongs_to() -> None:
    got = identify(MANIFEST, ONE, 3, holder="ti-1/2", incarnation="q", extras={marks.STOP: "{}"})

    assert got["metadata"]["name"] == job_name("embed", ONE.digest, 3, completions=2000, indexed=True)
    want_labels = {
        "team": "a",
        "app.kubernetes.io/managed-by": "airflow-batchjob",
        marks.IDENTITY: ONE.digest,
        marks.GENERATION: "3",
        DAG_LABEL: "sales.daily",
        TASK_LABEL: "load.orders",
        RUN_LABEL: label_value(ONE.run_id),
    }
    assert got["metadata"]["labels"] == want_labels
    assert got["spec"]["template"]["metadata"]["labels"] == want_labels
    annotations = got["metadata"]["annotations"]
    assert annotations["b"] == "c"
    assert json.loads(annotations[TASK]) == {
        "instance": "default",
        "dag_id": "sales.daily",
        "run_id": "scheduled__2026-01-01T00:00:00+00:00",
        "task_id": "load.orders",
        "map_index": -1,
    }
    assert annotations[marks.HOLDER] == "ti-1/2"
    assert annotations[marks.INCARNATION] == "q"
    assert annotations[marks.STOP] == "{}"
    assert "annotations" not in got["spec"]["template"]["metadata"]


def test_marks_are_read_back() -> None:
    got = identify(MANIFEST, ONE, 3, holder="h", incarnation="q")["metadata"]

    read = marks.read_marks(Job(metadata=Metadata(labels=got["labels"], annotations=got["annotations"])))

    assert (read.identity, read.generation, read.holder, read.incarnation) == (ONE.digest, 3, "h", "q")
    assert set(read.digests) == {"image", "completions"}


def test_a_manifest_is_not_changed() -> None:
    before = json.dumps(MANIFEST)

    identify(MappingProxyType(MANIFEST), ONE, 0, holder="h")

    assert json.dumps(MANIFEST) == before


BARE = {
    "no metadata at all": ({"spec": {"template": {"spec": {}}}}, "sales-daily-load-orders"),
    "nulls": (
        {"metadata": None, "spec": {"template": {"metadata": None, "spec": {}}}},
        "sales-daily-load-orders",
    ),
    "null maps": (
        {
            "metadata": {"labels": None, "annotations": None},
            "spec": {"template": {"metadata": {"labels": None}}},
        },
        "sales-daily-load-orders",
    ),
    "a generated name is a stem": ({"metadata": {"generateName": "train-"}}, "train"),
    "a name comes before a generated one": ({"metadata": {"generateName": "a-", "name": "b"}}, "b"),
}


@pytest.mark.parametrize(("manifest", "want"), BARE.values(), ids=BARE.keys())
def test_a_bare_manifest_gets_name_and_marks(manifest: dict[str, Any], want: str) -> None:
    got = identify(manifest, ONE, 0, holder="h")

    assert got["metadata"]["name"].rpartition("-")[0] == want
    assert "generateName" not in got["metadata"]
    assert got["metadata"]["labels"][marks.IDENTITY] == ONE.digest
    assert got["spec"]["template"]["metadata"]["labels"][marks.IDENTITY] == ONE.digest
    assert marks.INCARNATION not in got["metadata"]["annotations"]


@given(st.text(), st.text(), st.text())
def test_any_ids_make_valid_labels(dag_id: str, run_id: str, task_id: str) -> None:
    got = identify({}, TaskIdentity("i", dag_id, run_id, task_id, 7), 0, holder="h")

    assert all(re.fullmatch(LABEL_VALUE, value) for value in got["metadata"]["labels"].values())
