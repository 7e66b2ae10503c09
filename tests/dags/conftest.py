"""An Airflow database for the examples, made once for each version."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def airflow_database() -> None:
    """Make Airflow's database in the tests' own folder, where there is none of this version."""
    made = Path(os.environ["AIRFLOW_HOME"]) / f"made-by-{importlib.metadata.version('apache-airflow')}"
    if not made.exists():
        # A process of its own: Airflow's command line changes how this one logs.
        subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], check=True, timeout=100)
        made.touch()
