"""Build Kubernetes from public Go modules: one binary that is every server, cached by content."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent / "go"
VERSIONS = {"1.34": "v1.34.4", "1.37": "v1.37.2"}
"""The folder of the Go module by minor version, and the full version that its go.mod names."""
MAIN = "main.go"
VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
BUILD_SECONDS = 45 * 60
STRIPPED = ("-trimpath", "-ldflags=-s -w")
KWOK_STAGES = ("node/fast", "node/heartbeat", "pod/fast")
KWOK_PACKAGE = "sigs.k8s.io/kwok/cmd/kwok"


class MissingToolError(RuntimeError):
    """Something that building or running needs is not on this machine; says how to get it."""


def cache_folder() -> Path:
    """Return where binaries are kept: outside the repository, shared by its clones."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "airflow-batchjob" / "kubernetes"


def build(version: str) -> Path:
    """Return the binary of Kubernetes `version` ("1.34"); builds it where the cache has none.

    The key is the content of go.mod, go.sum, main.go and the flags, so an edit builds anew and
    a clean checkout elsewhere finds what is there.

    Raises:
        MissingToolError: There is no Go.
    """
    what = f"Kubernetes {version} (10 to 20 minutes on 2 cores with an empty cache)"
    return _built(_folder(version) / "kube", _sources(version), _flags(VERSIONS[version]), ".", what)


def build_kwok() -> Path:
    """Return the binary of kwok, which plays nodes; builds it where the cache has none.

    Raises:
        MissingToolError: There is no Go.
    """
    sources = (HERE / "kwok" / "go.mod", HERE / "kwok" / "go.sum")
    folder = cache_folder() / f"kwok-{_digest(sources, STRIPPED)}"
    binary = _built(folder / "kwok", sources, STRIPPED, KWOK_PACKAGE, "kwok (2 to 5 minutes)")
    if not (stages := kwok_stages(binary)).exists():
        where = ["go", "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok"]
        done = subprocess.run(
            where, cwd=HERE / "kwok", capture_output=True, text=True, check=True, timeout=60
        )
        module = Path(done.stdout.strip()) / "kustomize" / "stage"
        parts = [
            part
            for name in KWOK_STAGES
            for part in sorted((module / name).glob(f"{name.split('/')[0]}-*.yaml"))
        ]
        stages.write_text("---\n".join(part.read_text() for part in parts))
    return binary


def kwok_stages(binary: Path) -> Path:
    """Return the file that tells kwok what its nodes and pods go through: kwok's own, of its module."""
    return binary.with_name("stages.yaml")


def _built(binary: Path, sources: tuple[Path, ...], flags: tuple[str, ...], package: str, what: str) -> Path:
    if binary.exists():
        return binary
    go = shutil.which("go")
    if go is None:
        raise MissingToolError(
            "Go is missing: get it from https://go.dev/dl/ (Debian: golang) and put `go` on PATH."
        )
    folder = binary.parent
    folder.mkdir(parents=True, exist_ok=True)
    for source in sources:
        shutil.copy(source, folder)
    started = time.monotonic()
    print(f"Building {what} …", file=sys.stderr, flush=True)
    subprocess.run(
        [go, "build", *flags, "-o", "unfinished", package],
        cwd=folder,
        check=True,
        timeout=BUILD_SECONDS,
        env={**os.environ, "GOFLAGS": "-mod=readonly -buildvcs=false"},
    )
    (folder / "unfinished").replace(binary)
    print(f"Built {binary} in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return binary


def find(version: str) -> Path | None:
    """Return the binary of Kubernetes `version` if it has been built."""
    binary = _folder(version) / "kube"
    return binary if binary.exists() else None


def _folder(version: str) -> Path:
    return cache_folder() / f"{version}-{_digest(_sources(version), _flags(VERSIONS[version]))}"


def _digest(sources: tuple[Path, ...], flags: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.read_bytes())
    digest.update(" ".join(flags).encode())
    return digest.hexdigest()[:16]


def _sources(version: str) -> tuple[Path, ...]:
    source = HERE / f"v{version}"
    return (source / "go.mod", source / "go.sum", HERE / MAIN)


def _flags(full_version: str) -> tuple[str, ...]:
    # Without these the servers call themselves v0.0.0-master, and kubectl warns of skew.
    named = " ".join(f"-X {package}.gitVersion={full_version}" for package in VERSION_PACKAGES)
    return ("-trimpath", f"-ldflags=-s -w {named}")
