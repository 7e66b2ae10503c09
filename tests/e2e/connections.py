"""Airflow connections to the cluster, each through a port of its own."""

from __future__ import annotations

from pathlib import Path

import yaml

from airflow_batchjob.local.kubeconfig import airflow_connection, write_private


def connection_through(kubeconfig: Path, port: int, folder: Path) -> str:
    """Return a connection, as JSON, that reaches the cluster at `port`."""
    content = yaml.safe_load(kubeconfig.read_text())
    content["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
    path = folder / f"kubeconfig-{port}"
    write_private(path, yaml.safe_dump(content).encode())
    return airflow_connection(path)
