"""A real node: containerd and a kubelet with folders, sockets and ports of their own.

Several fit on one machine; killing both processes and deleting the Node object is what the loss
of a spot machine looks like from the control plane.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.cluster.build import MissingToolError
from tests.cluster.control_plane import ControlPlane, free_port
from tests.cluster.images import write_image
from tests.cluster.tools import CNI_BIN, missing_packages

READY_SECONDS = 120.0
PAUSE_IMAGE = "docker.io/library/batchjob-pause:test"
BUSYBOX_IMAGE = "docker.io/library/batchjob-busybox:test"
USUAL_BUSYBOX = "docker.io/library/busybox:1.36"  # the same cases run on clusters that pull it
HOSTS = Path("/etc/hosts")


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """What a node is: its name, capacity type ("spot" or "on-demand") and pod network."""

    name: str
    capacity: str
    subnet: str  # a /24 of its own, e.g. "10.98.1.0/24"
    gpus: int = 0


class Node:
    """One node of a control plane on this machine."""

    def __init__(self, plane: ControlPlane, spec: NodeSpec) -> None:
        self.plane, self.spec = plane, spec
        self.folder = plane.folder / f"node-{spec.name}"
        self.socket = self.folder / "containerd.sock"

    def start(self) -> None:
        """Start containerd, load the images, start the kubelet, wait until the node is Ready."""
        if missing := missing_packages():
            raise MissingToolError(
                "\n".join(f"{name} is missing: apt-get install {it}" for name, it in missing.items())
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        _name_loopback(self.spec.name)
        self._write_containerd()
        processes = self.plane.processes
        processes.start(self._containerd, ["containerd", "--config", self.folder / "containerd.toml"])
        processes.wait(self._containerd, lambda: self._ctr("version").returncode == 0, READY_SECONDS)
        self._load_images()
        self._make_cgroup()
        self._write_kubelet()
        processes.start(self._kubelet, self._kubelet_command())
        processes.wait(self._kubelet, self._is_ready, READY_SECONDS)

    @property
    def _containerd(self) -> str:
        return f"containerd-{self.spec.name}"

    @property
    def _kubelet(self) -> str:
        return f"kubelet-{self.spec.name}"

    def vanish(self) -> None:
        """Take the machine away: no server answers any more, and every container is dead."""
        self.plane.processes.kill(self._kubelet)
        self.plane.processes.kill(self._containerd)
        self.sweep()

    def sweep(self) -> None:
        """End the shims and containers that containerd left, and unmount what they held."""
        marks = (str(self.socket), str(self.folder))
        for process in psutil.process_iter(["cmdline"]):
            line = " ".join(process.info["cmdline"] or ())
            if "containerd-shim" in line and any(mark in line for mark in marks):
                for child in (*_children(process), process):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        child.kill()
        for namespace in _namespaces_of(self.folder):
            subprocess.run(["umount", "-l", namespace], capture_output=True, check=False, timeout=30)
            Path(namespace).unlink(missing_ok=True)
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in sorted((m for m in mounts if m.startswith(str(self.folder))), reverse=True):
            subprocess.run(["umount", "-l", mount], check=False, timeout=30)

    def forget(self) -> None:
        """Remove what the node left in the machine: its name, its cgroups and its bridge."""
        _unname_loopback(self.spec.name)
        for controller in Path("/sys/fs/cgroup").iterdir():
            group = controller / self._cgroup.strip("/")
            if group.is_dir():
                for folder in sorted((g for g in group.rglob("*") if g.is_dir()), reverse=True):
                    _remove_cgroup(folder)
                _remove_cgroup(group)
        bridge = f"bj-{_short(self.spec.name)}"
        if Path(f"/sys/class/net/{bridge}").exists():
            subprocess.run(["ip", "link", "delete", bridge], check=False, timeout=30)

    def _ctr(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["ctr", "--address", str(self.socket), "-n", "k8s.io", *words],
            capture_output=True, check=False, timeout=120,
        )  # fmt: skip

    def _load_images(self) -> None:
        images = {
            PAUSE_IMAGE: ["sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait; done"],
            BUSYBOX_IMAGE: ["sh"],
            USUAL_BUSYBOX: ["sh"],
        }
        for name, command in images.items():
            path = self.folder / "image.tar"
            write_image(path, name, command)
            loaded = self._ctr("images", "import", str(path))
            if loaded.returncode:
                raise RuntimeError(f"image {name}: {loaded.stderr.decode(errors='replace')}")

    def _write_containerd(self) -> None:
        network = self.folder / "cni"
        network.mkdir(exist_ok=True)
        (network / "10-bridge.conflist").write_text(
            json.dumps(
                {
                    "cniVersion": "0.4.0",
                    "name": f"batchjob-{self.spec.name}",
                    "plugins": [
                        {
                            "type": "bridge",
                            "bridge": f"bj-{_short(self.spec.name)}",
                            "isGateway": True,
                            "ipMasq": False,
                            "ipam": {
                                "type": "host-local",
                                "ranges": [[{"subnet": self.spec.subnet}]],
                                "dataDir": str(self.folder / "ipam"),
                            },
                        }
                    ],
                }
            )
        )
        (self.folder / "containerd.toml").write_text(f"""\
version = 2
root = "{self.folder / "containerd"}"
state = "{self.folder / "containerd-state"}"
[grpc]
address = "{self.socket}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE_IMAGE}"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{CNI_BIN}"
conf_dir = "{network}"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
""")

    @property
    def _cgroup(self) -> str:
        return f"/batchjob-{self.spec.name}"

    def _make_cgroup(self) -> None:
        # The kubelet expects its root cgroup in every controller; a new cpuset is empty and unusable.
        for controller in Path("/sys/fs/cgroup").iterdir():
            if not (controller / "tasks").exists():
                continue
            group = controller / self._cgroup.strip("/")
            group.mkdir(exist_ok=True)
            for file in ("cpuset.cpus", "cpuset.mems"):
                if (group / file).exists():
                    (group / file).write_text((controller / file).read_text())

    def _write_kubelet(self) -> None:
        user = f"system:node:{self.spec.name}"
        self.plane.write_kubeconfig(self.folder / "kubeconfig", user)
        (self.folder / "kubelet.json").write_text(
            json.dumps(
                {
                    "apiVersion": "kubelet.config.k8s.io/v1beta1",
                    "kind": "KubeletConfiguration",
                    "address": "127.0.0.1",
                    "port": free_port(),
                    "healthzPort": 0,
                    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
                    "authorization": {"mode": "AlwaysAllow"},
                    "containerRuntimeEndpoint": f"unix://{self.socket}",
                    "failSwapOn": False,
                    "failCgroupV1": False,
                    "cgroupDriver": "cgroupfs",
                    "cgroupsPerQOS": False,
                    "cgroupRoot": self._cgroup,
                    "enforceNodeAllocatable": [],
                    "evictionHard": {
                        "memory.available": "1Mi",
                        "nodefs.available": "0%",
                        "imagefs.available": "0%",
                    },
                    "imageGCHighThresholdPercent": 100,
                    "nodeStatusUpdateFrequency": "5s",
                    "syncFrequency": "10s",
                    "registerNode": True,
                    "maxPods": 250,
                    "resolvConf": "",
                    "volumePluginDir": str(self.folder / "plugins"),
                    "podLogsDir": str(self.folder / "logs"),
                }
            )
        )

    def _kubelet_command(self) -> list[str | Path]:
        return [
            self.plane.binary, "kubelet",
            f"--config={self.folder / 'kubelet.json'}",
            f"--kubeconfig={self.folder / 'kubeconfig'}",
            f"--root-dir={self.folder / 'kubelet'}",
            f"--cert-dir={self.folder / 'kubelet-certs'}",
            f"--hostname-override={self.spec.name}",
            f"--node-ip={_own_address()}",
            f"--node-labels=airflow-batchjob/capacity={self.spec.capacity}",
            "--v=1",
        ]  # fmt: skip

    def _is_ready(self) -> bool:
        answer = subprocess.run(
            [
                str(self.plane.binary), "kubectl", f"--kubeconfig={self.plane.kubeconfig}",
                "get", "node", self.spec.name,
                "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].status}",
            ],
            capture_output=True, check=False, timeout=30,
        )  # fmt: skip
        return answer.stdout == b"True"


def _short(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name)[-10:]  # a bridge's name has at most 15 characters


def _children(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return list(process.children(recursive=True))
    return []


def _own_address() -> str:
    for name, addresses in psutil.net_if_addrs().items():
        for address in addresses:
            if (
                address.family.name == "AF_INET"
                and name != "lo"
                and not name.startswith(("bj-", "docker", "veth"))
            ):
                return str(address.address)
    raise MissingToolError(
        "This machine has no network interface but loopback; a kubelet refuses loopback as node IP."
    )


def _name_loopback(name: str) -> None:
    # The apiserver reaches a kubelet by the node's host name, so logs stay on loopback.
    _unname_loopback(name)
    with HOSTS.open("a") as file:
        file.write(_hosts_line(name))


def _unname_loopback(name: str) -> None:
    lines = HOSTS.read_text().splitlines(keepends=True)
    if (kept := [line for line in lines if line != _hosts_line(name)]) != lines:
        HOSTS.write_text("".join(kept))  # in place: in a container the file is mounted and cannot be replaced


def _hosts_line(name: str) -> str:
    return f"127.0.0.1 {name}\n"


def _remove_cgroup(folder: Path) -> None:
    with contextlib.suppress(OSError):  # a process that is just leaving holds it; the next start tries again
        folder.rmdir()


def _namespaces_of(folder: Path) -> list[str]:
    # containerd keeps each sandbox's record, with its network namespace, in its own folder
    found = set()
    for record in (folder / "containerd-state").rglob("config.json"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            for namespace in json.loads(record.read_text())["linux"]["namespaces"]:
                if namespace.get("type") == "network" and "/netns/" in namespace.get("path", ""):
                    found.add(namespace["path"])
    return sorted(found)
