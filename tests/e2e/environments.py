"""The environments that Airflow runs in: this project's own, and one for the oldest supported version."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

NEWEST, OLDEST = "newest", "3.1"
VERSIONS = (NEWEST, OLDEST)
CACHE = Path.home() / ".cache" / "airflow-batchjob"
DRIVERS = ("asyncpg", "psycopg2-binary")
INSTALL_SECONDS = 600


def python_of(version: str) -> Path:
    """Return the Python whose Airflow is of that version."""
    if version == NEWEST:
        return Path(sys.executable)
    return CACHE / f"airflow-{version}" / "bin" / "python"
