"""Text where a number belongs, and numbers where text does."""

from __future__ import annotations

from datetime import date

import pytest

from airflow_batchjob.core.request.typed import as_text, literal_problems, settle

SETTLED = {
    "a count": ({"spec": {"parallelism": "4"}}, {"spec": {"parallelism": 4}}),
    "a negative one is for validation": ({"completions": "-4"}, {"completions": -4}),
    "a flag": ({"suspend": "true", "hostNetwork": "False"}, {"suspend": True, "hostNetwork": False}),
    "what is no number stays": ({"completions": "{{ n }}"}, {"completions": "{{ n }}"}),
    "a deep one": (
        {"containers": [{"ports": [{"containerPort": "80"}]}]},
        {"containers": [{"ports": [{"containerPort": 80}]}]},
    ),
    "an env value": ({"env": [{"name": "A", "value": 4}]}, {"env": [{"name": "A", "value": "4"}]}),
    "a truth value as text": (
        {"env": [{"name": "A", "value": True}]},
        {"env": [{"name": "A", "value": "true"}]},
    ),
    "words of a command": ({"command": ["sleep", 60]}, {"command": ["sleep", "60"]}),
    "labels": (
        {"labels": {"parallelism": 4, "suspend": True}},
        {"labels": {"parallelism": "4", "suspend": "true"}},
    ),
    "quantities stay": ({"limits": {"cpu": 4, "memory": "4"}}, {"limits": {"cpu": 4, "memory": "4"}}),
    "exit codes are numbers": (
        {"onExitCodes": {"values": [42, 43]}},
        {"onExitCodes": {"values": [42, 43]}},
    ),
    "a port may be a name": ({"httpGet": {"port": "80"}}, {"httpGet": {"port": "80"}}),
    "null is absent": (
        {"spec": {"parallelism": None, "labels": {"a": None}}},
        {"spec": {"labels": {"a": None}}},
    ),
}


@pytest.mark.parametrize(("given", "want"), SETTLED.values(), ids=SETTLED.keys())
def test_each_place_has_one_type(given, want) -> None:
    assert settle(given) == want


@pytest.mark.parametrize("given", [given for given, _ in SETTLED.values()], ids=SETTLED.keys())
def test_settling_twice_is_settling_once(given) -> None:
    assert settle(settle(given)) == settle(given)


def test_the_result_shares_nothing_with_what_was_given() -> None:
    given = {"limits": {"cpu": 1}, "labels": {"a": "b"}, "list": [{"x": 1}]}

    settled = settle(given)
    settled["limits"]["cpu"] = settled["labels"]["a"] = settled["list"][0]["x"] = 9

    assert given == {"limits": {"cpu": 1}, "labels": {"a": "b"}, "list": [{"x": 1}]}


LITERALS = {
    "a number in a command": ({"command": ["sleep", 60]}, ["at.command[1]"]),
    "a number in env": ({"env": [{"name": "A", "value": 1.10}]}, ["at.env[0].value"]),
    "a truth value in env": ({"env": [{"name": "A", "value": True}]}, ["at.env[0].value"]),
    "a date in a label": ({"labels": {"day": date(2026, 1, 1)}}, ["at.labels.day"]),
    "a condition's status": (
        {"onPodConditions": [{"type": "X", "status": True}]},
        ["at.onPodConditions[0].status"],
    ),
    "text": ({"command": ["60"], "labels": {"a": "1"}, "env": [{"name": "A", "value": None}]}, []),
    "numbers where they belong": ({"completions": 3, "limits": {"cpu": 3}, "values": [42]}, []),
}


@pytest.mark.parametrize(("given", "want"), LITERALS.values(), ids=LITERALS.keys())
def test_literal_numbers_in_places_of_text_are_named(given, want) -> None:
    problems = list(literal_problems(given, "at"))

    assert [problem.field for problem in problems] == want
    assert all(problem.mend == "Quote it" for problem in problems)


def test_a_numeric_secret_is_not_shown() -> None:
    (problem,) = literal_problems({"env": [{"name": "PIN", "value": 31337}]}, "")

    assert "31337" not in str(problem)


TEXTS = {"true": (True, "true"), "a number": (1.5, "1.5"), "text": ("x", "x"), "null": (None, None)}


@pytest.mark.parametrize(("value", "want"), TEXTS.values(), ids=TEXTS.keys())
def test_scalars_as_text(value, want) -> None:
    assert as_text(value) == want
