"""Any cluster by its name, empty, for what is no test: soaks and benches."""

from __future__ import annotations

import base64
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from airflow_batchjob.local.daemon import Settings, start
from airflow_batchjob.local.folder import ClusterFolder
from airflow_batchjob.local.kubeconfig import write_private
from tests.cluster.build import VERSIONS
from tests.cluster.cluster import running

LOCAL = "local"
NAMES = (LOCAL, *VERSIONS)


@contextmanager
def opened(name: str) -> Iterator[Path]:
    """Start the local cluster, or Kubernetes of a version; give its kubeconfig, and stop it at the end.

    Raises:
        MissingToolError: Something is missing that cannot be had here.
        ClusterInUseError: Another run has a real cluster on this machine.
        ServerDiedError: A server did not come up.
    """
    if name != LOCAL:
        with running(name) as real:
            yield _whole(real.kubeconfig)
        return
    with tempfile.TemporaryDirectory(prefix="batchjob-") as path:
        folder = ClusterFolder(Path(path) / "cluster")
        start(Settings(folder=str(folder.path), ends_with=os.getpid()))
        try:
            yield folder.kubeconfig
        finally:
            folder.stop()


def _whole(kubeconfig: Path) -> Path:
    """Return a kubeconfig beside this one that names no other file, as a local cluster's does not."""
    content = yaml.safe_load(kubeconfig.read_text())
    cluster = content["clusters"][0]["cluster"]
    authority = Path(cluster.pop("certificate-authority")).read_bytes()
    cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    whole = kubeconfig.with_name("kubeconfig-whole")
    write_private(whole, yaml.safe_dump(content).encode())
    return whole
