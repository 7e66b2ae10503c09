"""The kubeconfig that points kubectl and Airflow at the cluster, and the lines that say so."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import yaml

NAMESPACE = "default"


def kubeconfig(*, name: str, url: str, authority: bytes, token: str) -> str:
    """Return the file's text; everything is in it, no other file is named."""
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(authority).decode()}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": NAMESPACE}}],
        "current-context": name,
    }
    return yaml.safe_dump(content, sort_keys=False)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read; it appears whole or not at all."""
    beside = path.with_name(f".{path.name}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(file.fileno(), 0o600)  # the file may have been there before, with another mode
        file.write(content)
    beside.replace(path)


def airflow_connection(path: Path) -> str:
    """Return Airflow's connection to the cluster, as JSON for an environment variable."""
    # The nodes bear the label that this preset is about, so spot and on-demand can be asked for at once.
    extra = {"kube_config_path": str(path), "batchjob": {"capacity": "label"}}
    return json.dumps({"conn_type": "kubernetes", "extra": extra})
