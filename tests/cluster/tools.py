"""What a real node needs on this machine: what is missing, and getting it where that is possible."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

from tests.cluster.build import HERE, VERSIONS, MissingToolError

CNI_BIN = Path("/usr/lib/cni")
BUSYBOX = Path("/bin/busybox")
PT_INTERP = 3
INSTALL_SECONDS = 15 * 60
GO_HELP = "Go {wanted} or later is missing{found}: get it from https://go.dev/dl/ and put `go` on PATH."


def missing_packages() -> dict[str, str]:
    """Return what a node needs and this machine lacks: its name → the Debian package that brings it."""
    there = {
        "containerd": shutil.which("containerd") and shutil.which("ctr"),
        "runc": shutil.which("runc"),
        "iptables": shutil.which("iptables"),
        "ip": shutil.which("ip"),
        "CNI bridge plugin": (CNI_BIN / "bridge").exists() and (CNI_BIN / "host-local").exists(),
        "static busybox": _is_static(BUSYBOX),
    }
    packages = {
        "containerd": "containerd",
        "runc": "runc",
        "iptables": "iptables",
        "ip": "iproute2",
        "CNI bridge plugin": "containernetworking-plugins",
        "static busybox": "busybox-static",
    }
    return {name: packages[name] for name, found in there.items() if not found}


def missing_go() -> str | None:
    """Return what is wrong with Go here, or None.

    Any Go since 1.21 fetches the toolchain that go.mod names, so that is what is needed.
    """
    go = shutil.which("go")
    said = (
        subprocess.run(
            [go, "env", "GOVERSION"], capture_output=True, text=True, check=False, timeout=60
        ).stdout
        if go
        else ""
    )
    found = re.match(r"go(\d+)\.(\d+)", said)
    if found and (int(found[1]), int(found[2])) >= (1, 21):
        return None
    modules = "\n".join((HERE / f"v{version}" / "go.mod").read_text() for version in VERSIONS)
    wanted = max(re.findall(r"^go (\S+)", modules, re.MULTILINE))
    return GO_HELP.format(wanted=wanted, found=f" ({said.strip()} is here)" if said else "")


def provide() -> None:
    """Install what is missing with apt-get where that is possible.

    Raises:
        MissingToolError: Something is missing still; says what, and how to get it.
    """
    missing = missing_packages()
    apt = shutil.which("apt-get")
    if missing and apt and os.geteuid() == 0:
        print(f"Installing {' '.join(missing.values())} with apt-get …", flush=True)
        _apt(apt, "update")
        _apt(apt, "install", "--yes", "--no-install-recommends", *missing.values())
        missing = missing_packages()
    said = [f"{name} is missing. Debian: apt-get install {package}" for name, package in missing.items()]
    if (go := missing_go()) is not None:
        said.append(go)
    if said:
        raise MissingToolError("\n".join(said))


def _apt(apt: str, *words: str) -> None:
    done = subprocess.run(
        [apt, "--quiet", *words],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=INSTALL_SECONDS,
    )  # fmt: skip
    if done.returncode:
        raise MissingToolError(f"apt-get {' '.join(words)} failed:\n{done.stdout[-2000:]}")


def _is_static(program: Path) -> bool:
    # A busybox of the package `busybox` names a loader (PT_INTERP), which an image of one file has not.
    if not program.exists():
        return False
    data = program.read_bytes()
    start, size, count = *struct.unpack_from("<Q", data, 32), *struct.unpack_from("<HH", data, 54)
    headers = (struct.unpack_from("<I", data, start + size * number)[0] for number in range(count))
    return PT_INTERP not in headers
