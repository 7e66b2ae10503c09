"""A control plane: etcd, apiserver, controller manager and scheduler on loopback ports of their own."""

from __future__ import annotations

import json
import secrets
import socket
import ssl
import urllib.request
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.cluster.processes import Processes

READY_SECONDS = 90.0
SERVICE_RANGE = "10.97.0.0/24"


def free_port() -> int:
    """Return a loopback port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class ControlPlane:
    """One Kubernetes without nodes. `start`, then `kubeconfig` is an administrator's."""

    def __init__(self, folder: Path) -> None:
        self.binary = Path("kube")  # set before `start`
        self.folder = folder
        self.processes = Processes(folder)
        self.kubeconfig = folder / "kubeconfig"
        self.port = 0
        self._tokens: dict[str, str] = {}

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start all four servers and wait until they answer, each within a limit."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._write_keys()
        self._start_etcd()
        self._start_apiserver()
        self._start_controllers()

    def token_of(self, user: str) -> str:
        return self._tokens[user]

    def write_kubeconfig(self, path: Path, user: str) -> None:
        """Write a kubeconfig (JSON, which is YAML) for one of the static users."""
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [
                        {
                            "name": "test",
                            "cluster": {
                                "server": self.url,
                                "certificate-authority": str(self.folder / "certs" / "apiserver.crt"),
                            },
                        }
                    ],
                    "users": [{"name": user, "user": {"token": self._tokens[user]}}],
                    "contexts": [
                        {"name": "test", "context": {"cluster": "test", "user": user, "namespace": "default"}}
                    ],
                    "current-context": "test",
                },
                indent=1,
            )
        )
        path.chmod(0o600)

    def add_user(self, user: str, groups: str) -> None:
        """Name a user with a static token; before `start`."""
        self._tokens[user] = secrets.token_hex(16)
        with (self.folder / "tokens.csv").open("a") as file:
            file.write(f'{self._tokens[user]},{user},{user},"{groups}"\n')

    def _write_keys(self) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        (self.folder / "service-account.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        self.add_user("admin", "system:masters")

    def _start_etcd(self) -> None:
        client, peer = free_port(), free_port()
        self._etcd = f"http://127.0.0.1:{client}"
        self.processes.start(
            "etcd",
            [
                self.binary, "etcd",
                f"--data-dir={self.folder / 'etcd'}",
                f"--listen-client-urls={self._etcd}", f"--advertise-client-urls={self._etcd}",
                f"--listen-peer-urls=http://127.0.0.1:{peer}",
                f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
                f"--initial-cluster=default=http://127.0.0.1:{peer}",
                "--unsafe-no-fsync",  # a test cluster's data need not survive the machine
            ],
        )  # fmt: skip
        self.processes.wait("etcd", lambda: _get(f"{self._etcd}/health") == 200, READY_SECONDS)

    def _start_apiserver(self) -> None:
        self.port = free_port()
        key = self.folder / "service-account.key"
        self.processes.start(
            "kube-apiserver",
            [
                self.binary, "kube-apiserver",
                f"--etcd-servers={self._etcd}",
                "--bind-address=127.0.0.1", f"--secure-port={self.port}",
                f"--cert-dir={self.folder / 'certs'}",
                f"--token-auth-file={self.folder / 'tokens.csv'}",
                "--authorization-mode=Node,RBAC",
                f"--service-account-issuer={self.url}",
                f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
                f"--service-cluster-ip-range={SERVICE_RANGE}",
                "--kubelet-preferred-address-types=Hostname",  # logs go over loopback
                "--etcd-compaction-interval=30s",  # so that a version can be too old within a run
            ],
        )  # fmt: skip
        self.processes.wait("kube-apiserver", self._ready, READY_SECONDS)
        self.write_kubeconfig(self.kubeconfig, "admin")

    def _start_controllers(self) -> None:
        ports = {"kube-controller-manager": free_port(), "kube-scheduler": free_port()}
        extra = {
            "kube-controller-manager": [
                f"--service-account-private-key-file={self.folder / 'service-account.key'}",
                "--use-service-account-credentials=false",
                "--node-monitor-grace-period=20s",
                "--concurrent-job-syncs=10",
                "--kube-api-qps=200", "--kube-api-burst=400",
            ],
            "kube-scheduler": ["--kube-api-qps=200", "--kube-api-burst=400"],
        }  # fmt: skip
        for name, port in ports.items():
            self.processes.start(
                name,
                [
                    self.binary, name,
                    f"--kubeconfig={self.kubeconfig}",
                    f"--authentication-kubeconfig={self.kubeconfig}",
                    f"--authorization-kubeconfig={self.kubeconfig}",
                    "--bind-address=127.0.0.1", f"--secure-port={port}",
                    f"--cert-dir={self.folder / f'certs-{name}'}",
                    "--leader-elect=false",
                    *extra[name],
                ],
            )  # fmt: skip
        for name, port in ports.items():
            self.processes.wait(
                name, lambda port=port: _get(f"https://127.0.0.1:{port}/healthz") == 200, READY_SECONDS
            )

    def _ready(self) -> bool:
        return _get(f"{self.url}/readyz", token=self._tokens["admin"]) == 200

    def stop(self) -> None:
        self.processes.stop()


def _get(url: str, token: str = "") -> int:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    context = ssl._create_unverified_context() if url.startswith("https") else None  # own loopback server
    with urllib.request.urlopen(request, timeout=5, context=context) as answer:
        status: int = answer.status
        return status
