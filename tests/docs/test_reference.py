"""Each parameter of operator and sensor is described, and what is said to be templated is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_batchjob import BatchJobOperator, BatchJobSensor
from tools import docs

PAGES = Path(__file__).parents[2] / "docs"

each_class = pytest.mark.parametrize("cls", [BatchJobOperator, BatchJobSensor], ids=lambda cls: cls.__name__)


@each_class
def test_every_parameter_is_documented(cls: type) -> None:
    asked = {parameter.name for parameter in docs.asked(cls)} - {"task_id"}

    assert set(docs.documented(cls)) - {"task_id", "kwargs"} == asked


@each_class
def test_parameters_say_that_they_are_templated(cls: type[BatchJobOperator | BatchJobSensor]) -> None:
    said = {name for name, text in docs.documented(cls).items() if "templated" in text}

    assert said == set(cls.template_fields)


@pytest.mark.parametrize(
    ("page", "cls"),
    [("operator.md", BatchJobOperator), ("sensor.md", BatchJobSensor)],
    ids=["operator", "sensor"],
)
def test_the_page_has_a_row_for_every_parameter(page: str, cls: type) -> None:
    rows = set(re.findall(r"^\| `(\w+)` \|", (PAGES / page).read_text(), re.MULTILINE))

    assert rows >= {parameter.name for parameter in docs.asked(cls)}
