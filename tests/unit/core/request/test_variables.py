"""Variables in parsed YAML: where they are replaced, where they stay, where they are missing."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.core.request.variables import substitute, unused_variables

KNOWN = {
    "IMAGE": "x:1",
    "N": 4,
    "YES": True,
    "RATE": 0.5,
    "LIST": ["a", "b"],
    "NOTHING": None,
    "TRAP": "${N}: [1]",
}

REPLACED = {
    "inside a text": ({"image": "registry/${IMAGE}-b"}, {"image": "registry/x:1-b"}),
    "several": ({"name": "${N}-${IMAGE}-${N}"}, {"name": "4-x:1-4"}),
    "an exact one has its own type": ({"completions": "${N}"}, {"completions": 4}),
    "an exact list": ({"args": "${LIST}"}, {"args": ["a", "b"]}),
    "an exact null": ({"suspend": "${NOTHING}"}, {"suspend": None}),
    "truth inside a text is spelt as in YAML": ({"a": "on=${YES}"}, {"a": "on=true"}),
    "a fraction inside a text": ({"a": "${RATE}s"}, {"a": "0.5s"}),
    "a value is not looked at again": (
        {"a": "${TRAP}", "b": "-${TRAP}"},
        {"a": "${N}: [1]", "b": "-${N}: [1]"},
    ),
    "in lists": ({"a": [["${N}"], "b${N}"]}, {"a": [[4], "b4"]}),
    "an escaped one is literal": ({"a": "$${N} $${OTHER}"}, {"a": "${N} ${OTHER}"}),
    "an escaped one alone": ({"a": "$${N}"}, {"a": "${N}"}),
    "other dollars stay": ({"a": "$N $(N) ${} ${1} $ ${a.b}"}, {"a": "$N $(N) ${} ${1} $ ${a.b}"}),
    "numbers and nulls stay": (
        {"a": 1, "b": None, "c": 2.5, "d": False},
        {"a": 1, "b": None, "c": 2.5, "d": False},
    ),
    "known ones in a command": ({"command": ["sh", "-c", "run ${N}"]}, {"command": ["sh", "-c", "run 4"]}),
    "unknown ones in a command are the shell's": (
        {"command": ["echo ${HOME}${N}"], "args": ["${JOB_COMPLETION_INDEX}", "${A:-b}"]},
        {"command": ["echo ${HOME}4"], "args": ["${JOB_COMPLETION_INDEX}", "${A:-b}"]},
    ),
    "unknown ones in the value of a variable": (
        {"env": [{"name": "A", "value": "${HOME}/${N}"}]},
        {"env": [{"name": "A", "value": "${HOME}/4"}]},
    ),
    "a probe's command is a command": (
        {"livenessProbe": {"exec": {"command": ["${HOME}"]}}},
        {"livenessProbe": {"exec": {"command": ["${HOME}"]}}},
    ),
    "a text that is the whole tree": ("${N}", 4),
}


@pytest.mark.parametrize(("tree", "want"), REPLACED.values(), ids=REPLACED.keys())
def test_variables_are_replaced_in_values(tree: Any, want: Any) -> None:
    before = deepcopy(tree)

    assert substitute(tree, KNOWN) == want
    assert tree == before


REFUSED = {
    "every missing name at once, with its path": (
        {
            "metadata": {"name": "${JOB}"},
            "spec": {"template": {"spec": {"containers": [{"image": "${A}:${B}", "args": ["${C}"]}]}}},
        },
        ["metadata.name", "spec.template.spec.containers[0].image", "spec.template.spec.containers[0].image"],
        "there is no variable JOB. Give it in variables (known: IMAGE, LIST, N, NOTHING, RATE, TRAP, YES)",
    ),
    "the name of a variable is not the shell's": (
        {"env": [{"name": "${A}", "value": "${B}"}]},
        ["env[0].name"],
        "no variable A",
    ),
    "a reference is not the shell's": (
        {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "${S}"}}}]},
        ["env[0].valueFrom.secretKeyRef.name"],
        "no variable S",
    ),
    "a key": ({"labels": {"a-${N}": "b"}}, ["labels"], "in values, not in keys"),
    "a list inside a text": ({"a": "x ${LIST}"}, ["a"], "variable LIST is a list"),
    "a list inside a command's text": ({"command": ["x ${LIST}"]}, ["command[0]"], "variable LIST is a list"),
    "nothing inside a text": ({"a": "x ${NOTHING}"}, ["a"], "NoneType"),
    "the shell's default": (
        {"image": "x:${TAG:-latest}"},
        ["image"],
        "Write ${TAG} and give TAG in variables",
    ),
}


@pytest.mark.parametrize(("tree", "want_fields", "want_text"), REFUSED.values(), ids=REFUSED.keys())
def test_what_can_not_be_replaced_is_named(tree: Any, want_fields: list[str], want_text: str) -> None:
    with pytest.raises(SpecError) as raised:
        substitute(tree, KNOWN)

    assert [problem.field for problem in raised.value.problems] == want_fields
    assert want_text in str(raised.value)


def test_without_variables_nothing_is_known() -> None:
    with pytest.raises(SpecError, match=r"known: none"):
        substitute({"a": "${B}"}, None, path="pod")


def test_an_escaped_key_stays_as_it_is() -> None:
    assert substitute({"$${N}": 1}, KNOWN) == {"$${N}": 1}


def test_variables_that_nobody_uses_are_told() -> None:
    tree = {"image": "${IMAGE}", "command": ["${YES}"], "a": "$${N}", "${RATE}": 1}

    assert unused_variables(tree, KNOWN) == ("LIST", "N", "NOTHING", "RATE", "TRAP")
    assert unused_variables(tree, None) == ()


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet="${}AB x", max_size=12),
    lambda children: st.lists(children) | st.dictionaries(st.sampled_from(["a", "b", "command"]), children),
    max_leaves=10,
)


@given(TREES)
def test_text_without_references_stays(tree: Any) -> None:
    escaped = _changed(tree, lambda text: text.replace("${", "{"))

    assert substitute(escaped, {}) == escaped


@given(TREES, st.text(max_size=5) | st.integers())
def test_a_value_never_changes_the_structure(tree: Any, value: Any) -> None:
    try:
        got = substitute(tree, {"A": value, "B": value})
    except SpecError:
        return

    assert _shape(got) == _shape(tree)


def _changed(tree: Any, change: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _changed(value, change) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_changed(value, change) for value in tree]
    return change(tree) if isinstance(tree, str) else tree


def _shape(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _shape(value) for key, value in tree.items()}
    return [_shape(value) for value in tree] if isinstance(tree, list) else "leaf"
