"""A whole cluster: one control plane, a spot node and an on-demand node, fake nodes where asked."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from tests.cluster.build import VERSIONS, MissingToolError, build, build_kwok, cache_folder, kwok_stages
from tests.cluster.control_plane import ControlPlane
from tests.cluster.node import Node, NodeSpec
from tests.cluster.processes import ServerDiedError

NODES = (
    NodeSpec("batchjob-on-demand", "on-demand", "10.98.1.0/24"),
    NodeSpec("batchjob-spot", "spot", "10.98.2.0/24"),
)
KUBECTL_SECONDS = 60.0
OTHERS_SECONDS = 40 * 60.0  # as long as one run may take
KEPT = "kept"  # a file that says: left running on purpose


class ClusterInUseError(RuntimeError):
    """Another run has its cluster on this machine: they would share names, networks and cgroups."""


class Cluster:
    """Real Kubernetes of one version, in a folder of its own."""

    def __init__(self, version: str, folder: Path, nodes: tuple[NodeSpec, ...] = NODES) -> None:
        self.version = version
        self.folder = folder
        self.plane = ControlPlane(folder)
        self.nodes = {spec.name: Node(self.plane, spec) for spec in nodes}
        self._mourned: set[str] = set()

    @property
    def kubeconfig(self) -> Path:
        return self.plane.kubeconfig

    def start(self) -> None:
        """Start everything; what an earlier run left in the folder is stopped and removed first."""
        self.plane.binary = build(self.version)
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, mode=0o700)
        require_root_linux()
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

    def check(self) -> None:
        """Raise ServerDiedError if a server has ended that nobody stopped; once for each."""
        processes = self.plane.processes
        if dead := [name for name in processes.dead() if name not in self._mourned]:
            self._mourned.update(dead)
            shown = "\n".join(f"{name} has died. Its last lines:\n{processes.tail_of(name)}" for name in dead)
            raise ServerDiedError(shown)

    def log_tails(self) -> dict[str, str]:
        """Return the last lines of each server's log by name, those of the dead first."""
        processes = self.plane.processes
        dead = processes.dead()
        return {
            f"{name} (dead)" if name in dead else name: processes.tail_of(name)
            for name in (*dead, *(name for name in processes.names() if name not in dead))
        }

    def kubectl(self, *words: str, stdin: str | None = None, check: bool = True) -> str:
        """Run this version's own kubectl as administrator; returns what it prints."""
        done = subprocess.run(
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

    def fake_nodes(self, count: int) -> list[str]:
        """Add nodes that only pretend to run pods, for scale; return their names.

        They bear the label `type: kwok` and a taint of that name, so that only pods that tolerate it come.
        A Job's pods succeed there at once.
        """
        processes = self.plane.processes
        if "kwok" not in processes.names():
            kwok = build_kwok()
            processes.start(
                "kwok",
                [
                    kwok, f"--kubeconfig={self.kubeconfig}", f"--config={kwok_stages(kwok)}",
                    "--manage-nodes-with-label-selector=type=kwok",
                ],
            )  # fmt: skip
        have = len(json.loads(self.kubectl("get", "nodes", "-l", "type=kwok", "-o", "json"))["items"])
        names = [f"fake-{number}" for number in range(have, have + count)]
        nodes = [_fake_node(name) for name in names]
        self.kubectl(
            "create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes})
        )
        wait = ["wait", "--for=condition=Ready", "node", "-l", "type=kwok", "--timeout=50s"]
        processes.wait("kwok", lambda: not self.kubectl(*wait).startswith("error"), KUBECTL_SECONDS)
        return names

    def set_gpus(self, name: str, count: int) -> None:
        """Give a node an extended resource `nvidia.com/gpu`, as a device plugin would announce it."""
        patch = {"status": {"capacity": {"nvidia.com/gpu": str(count)}}}
        self.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", json.dumps(patch))


def _fake_node(name: str) -> dict[str, object]:
    room = {"cpu": "64", "memory": "256Gi", "pods": "250"}
    labels = {"type": "kwok", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"node.alpha.kubernetes.io/ttl": "0"}},
        "spec": {"taints": [{"key": "kwok", "value": "fake", "effect": "NoSchedule"}]},
        "status": {"allocatable": room, "capacity": room},
    }


def run_folder(version: str) -> Path:
    return cache_folder() / "run" / version


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Hold the one place for a cluster on this machine; what a crashed run left there is stopped.

    Clusters of two versions use the same names of nodes, bridges and cgroups, so there is one at a time.
    """
    lock = cache_folder() / "run" / "lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a+") as file:
        _wait_for(file)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        for version in VERSIONS:
            if (run_folder(version) / KEPT).exists():
                raise ClusterInUseError(
                    f"Kubernetes {version} was left running; end it first: make cluster-stop"
                )
            Cluster(version, run_folder(version)).stop()
        yield


def _wait_for(lock: TextIO) -> None:
    end = time.monotonic() + OTHERS_SECONDS
    is_told = False
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # goes with this process, however that ends
            return
        except OSError:
            lock.seek(0)
            holder = f"Process {lock.read() or '?'} runs a cluster on this machine"
        if time.monotonic() > end:
            raise ClusterInUseError(f"{holder}, for {OTHERS_SECONDS / 60:.0f} minutes now; end it.")
        if not is_told:
            print(f"{holder}; waiting for its end …", file=sys.__stderr__, flush=True)
            is_told = True
        time.sleep(1)


@contextlib.contextmanager
def running(version: str) -> Iterator[Cluster]:
    """Start a cluster and stop it at the end, however the block ends."""
    with alone():
        cluster = Cluster(version, run_folder(version))
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


def require_root_linux() -> None:
    if not sys.platform.startswith("linux"):
        raise MissingToolError(
            "A kubelet needs Linux: run this on Linux, or use --kubeconfig with a cluster you have."
        )
    if os.geteuid() != 0:
        raise MissingToolError(
            "A kubelet needs root: run this as root, or use --kubeconfig with a cluster you have."
        )
