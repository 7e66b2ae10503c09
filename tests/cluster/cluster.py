"""A whole cluster: one control plane, a spot node and an on-demand node, fake nodes where asked."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.build import MissingToolError, build, cache_folder
from tests.cluster.control_plane import ControlPlane
from tests.cluster.node import Node, NodeSpec

NODES = (
    NodeSpec("batchjob-on-demand", "on-demand", "10.98.1.0/24"),
    NodeSpec("batchjob-spot", "spot", "10.98.2.0/24"),
)
KUBECTL_SECONDS = 60.0


class Cluster:
    """Real Kubernetes of one version, in a folder of its own."""

    def __init__(self, version: str, folder: Path, nodes: tuple[NodeSpec, ...] = NODES) -> None:
        self.version = version
        self.folder = folder
        self.plane = ControlPlane(folder)
        self.nodes = {spec.name: Node(self.plane, spec) for spec in nodes}

    @property
    def kubeconfig(self) -> Path:
        return self.plane.kubeconfig

    def start(self) -> None:
        """Start everything; what an earlier run left in the folder is stopped and removed first."""
        self.plane.binary = build(self.version)
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, mode=0o700)
        _require_root_linux()
        for name in self.nodes:
            self.plane.add_user(f"system:node:{name}", "system:nodes")
        self.plane.start()
        for node in self.nodes.values():
            node.start()

    def stop(self) -> None:
        """Stop what was started here, also by a run that crashed; nothing else."""
        self.plane.stop()
        for node in self.nodes.values():
            node.sweep()
            node.forget()

    def kubectl(self, *words: str, stdin: str | None = None, check: bool = True) -> str:
        """Run this version's own kubectl as administrator; returns what it prints."""
        done = subprocess.run(  # noqa: S603
            [str(self.plane.binary), "kubectl", f"--kubeconfig={self.kubeconfig}", *words],
            input=stdin, capture_output=True, text=True, check=False, timeout=KUBECTL_SECONDS,
        )  # fmt: skip
        if check and done.returncode:
            raise RuntimeError(f"kubectl {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def lose_node(self, name: str) -> None:
        """Take a machine away as a reclaimed spot machine goes: dead at once, then its Node object."""
        self.nodes[name].vanish()
        self.kubectl("delete", "node", name, "--wait=false")

    def set_gpus(self, name: str, count: int) -> None:
        """Give a node an extended resource `nvidia.com/gpu`, as a device plugin would announce it."""
        patch = {"status": {"capacity": {"nvidia.com/gpu": str(count)}}}
        self.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", json.dumps(patch))


@contextlib.contextmanager
def running(version: str, folder: Path | None = None) -> Iterator[Cluster]:
    """Start a cluster and stop it at the end, however the block ends."""
    cluster = Cluster(version, folder or cache_folder() / "run" / version)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _require_root_linux() -> None:
    if not sys.platform.startswith("linux"):
        raise MissingToolError("A kubelet needs Linux: run this on Linux, or use --kubeconfig with a cluster you have.")
    if os.geteuid() != 0:
        raise MissingToolError("A kubelet needs root: run this as root, or use --kubeconfig with a cluster you have.")
