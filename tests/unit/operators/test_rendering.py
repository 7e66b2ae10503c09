"""What is a manifest's file name, where it is sought, and errors that name the line."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk import DAG

from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.operators.rendering import is_file_name, read_file, render_file

NAMES = {
    "jobs/embed.yaml": True,
    "embed.yml": True,
    "embed.json": True,
    "/abs/embed.yaml": True,
    "jobs/embed.yaml.j2": True,
    "embed": True,
    "kind: Job": False,
    "kind: Job\nmetadata: {}\n": False,
    '{"kind": "Job"}': False,
    "": False,
    "{{ var.value.manifest }}": False,
    "a: b.yaml\nc: d\n": False,
}


@pytest.mark.parametrize(("manifest", "want"), NAMES.items(), ids=map(repr, NAMES))
def test_tells_a_file_name_from_text(manifest, want):
    assert is_file_name(manifest) is want


def test_a_path_is_a_file_name_and_a_mapping_is_none():
    assert is_file_name(Path("x.yaml"))
    assert not is_file_name({"kind": "Job"})


@pytest.fixture
def env(tmp_path):
    (tmp_path / "jobs").mkdir()
    return DAG("d", schedule=None, template_searchpath=[str(tmp_path)]).get_template_env()


def test_renders_a_file_with_the_context(env, tmp_path):
    (tmp_path / "jobs" / "a.yaml").write_text("parallelism: {{ n }}\n")
    assert render_file("jobs/a.yaml", env, {"n": 3}) == "parallelism: 3"


def test_reads_an_absolute_path_as_it_is(env, tmp_path):
    (tmp_path / "a.yaml").write_text("x")
    assert read_file(str(tmp_path / "a.yaml"), env) == "x"


def test_a_file_that_is_not_found_tells_where_it_was_sought(env, tmp_path):
    with pytest.raises(SpecError, match="no such file in ") as told:
        read_file("jobs/none.yaml", env)
    assert str(tmp_path) in str(told.value)


def test_a_file_that_it_includes_is_not_mistaken_for_it(env, tmp_path):
    (tmp_path / "a.yaml").write_text("{% include 'part.yaml' %}")
    with pytest.raises(SpecError, match=r"part\.yaml"):
        render_file("a.yaml", env, {})


def test_a_shells_length_operator_is_explained_with_its_line(env, tmp_path):
    (tmp_path / "a.yaml").write_text("command:\n- sh\n- -c\n- echo ${#a[@]}\n")
    with pytest.raises(SpecError, match=r"line \d.*raw"):
        render_file("a.yaml", env, {})


def test_an_undefined_name_is_named(env, tmp_path):
    (tmp_path / "a.yaml").write_text("x: {{ nothing }}")
    with pytest.raises(SpecError, match="nothing"):
        render_file("a.yaml", env, {})
