"""A Job as YAML for people."""

from __future__ import annotations

import yaml
from hypothesis import given
from hypothesis import strategies as st

from airflow_batchjob.core.request.writing import write_yaml

TEXT = st.text(st.characters(blacklist_categories=["Cs", "Cc"], whitelist_characters="\n"), max_size=30)
JOBS = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(tree=st.dictionaries(TEXT, JOBS, max_size=4))
def test_what_is_written_reads_as_it_was(tree) -> None:
    assert yaml.safe_load(write_yaml(tree)) == tree


def test_the_order_does_not_depend_on_how_it_was_put_together() -> None:
    assert write_yaml({"a": 1, "b": {"c": 1, "d": 2}}) == write_yaml({"b": {"d": 2, "c": 1}, "a": 1})


def test_a_script_is_a_block_and_long_lines_are_not_folded() -> None:
    script = "set -e\npython work.py " + "x" * 200 + "\n"

    assert write_yaml({"args": [script]}) == "args:\n  - |\n    " + script.replace("\np", "\n    p")


def test_equal_parts_are_written_out() -> None:
    shared = {"cpu": "1"}

    assert "&" not in write_yaml({"limits": shared, "requests": shared})
