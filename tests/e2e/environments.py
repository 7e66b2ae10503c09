"""The environments that Airflow runs in: this project's own, and one for the oldest supported version."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

NEWEST, OLDEST = "newest", "3.1"
CACHE = Path.home() / ".cache" / "airflow-batchjob"
INSTALL_SECONDS = 900
UV = Path(sys.executable).with_name("uv")

DRIVERS = ("asyncpg>=0.30", "psycopg2-binary>=2.9.10")
"""Airflow's way to PostgreSQL."""

OLDEST_AIRFLOW = ("apache-airflow==3.1.*", *DRIVERS)

# uv does not read pip's settings.
_OF_PIP = {
    "UV_DEFAULT_INDEX": "index-url",
    "UV_INDEX": "extra-index-url",
    "UV_FIND_LINKS": "find-links",
    "SSL_CERT_FILE": "cert",
}


def python_of(version: str) -> Path:
    """Return the Python whose Airflow is of that version."""
    if version == NEWEST:
        return Path(sys.executable)
    return CACHE / f"airflow-{version}" / "bin" / "python"


def prepare(version: str) -> None:
    """Install what is missing; seconds where nothing is."""
    python = python_of(version)
    if version == NEWEST:
        _uv("pip", "install", "--python", python, "--constraint", ROOT / "constraints.txt", *DRIVERS)
        return
    if not python.exists():
        _uv("venv", "--python", sys.executable, python.parents[1])
    _uv("pip", "install", "--python", python, "--compile-bytecode", *OLDEST_AIRFLOW, "--editable", ROOT)


def _uv(*words: str | Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [str(UV), *(str(word) for word in words), "--quiet"]
    subprocess.run(command, check=True, timeout=INSTALL_SECONDS, cwd=ROOT, env={**_settings(), **env})


def _settings() -> dict[str, str]:
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    found = dict(re.findall(r"^(?::env:|global|install)\.([\w-]+)='(.*)'$", listed, re.MULTILINE))
    return {name: found[setting] for name, setting in _OF_PIP.items() if setting in found}
