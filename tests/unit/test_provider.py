"""What Airflow is told about this package is true, and naming it costs nothing."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from importlib.resources import files
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

import airflow_batchjob
from airflow_batchjob.provider_info import get_provider_info

INFO = get_provider_info()
MODULES = [
    module
    for kind in ("operators", "sensors", "hooks", "triggers")
    for entry in INFO[kind]
    for module in entry["python-modules"]
]


def test_obeys_airflows_schema():
    schema: dict[str, Any] = json.loads((files("airflow") / "provider_info.schema.json").read_text())
    jsonschema.validate(INFO, schema)


@pytest.mark.parametrize("module", MODULES)
def test_every_module_that_is_named_is_there(module):
    importlib.import_module(module)


def test_the_connection_type_stays_the_providers_own():
    assert "connection-types" not in INFO


@pytest.mark.parametrize("name", airflow_batchjob.__all__)
def test_every_public_name_can_be_had(name):
    assert getattr(airflow_batchjob, name).__name__ == name


def test_an_unknown_name_is_an_error():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        getattr(airflow_batchjob, "Nothing")  # noqa: B009  what an import does


HEAVY = ("aiohttp", "kubernetes", "kubernetes_asyncio", "airflow.triggers.base", "airflow_batchjob.local")


def test_naming_the_operator_imports_nothing_heavy():
    code = f"""
import sys
import airflow_batchjob
assert not [name for name in sys.modules if name.startswith("airflow_batchjob.")]
from airflow_batchjob import BatchJobOperator, BatchJobSensor, Machine
BatchJobOperator(task_id="t", image="i", completions=5, machine=Machine(cpu=1, memory="1Gi"))
BatchJobSensor(task_id="s", of_task="t")
found = [name for name in {HEAVY!r} if name in sys.modules]
assert not found, found
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)
