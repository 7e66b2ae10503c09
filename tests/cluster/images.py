"""Small images made from local files: a static busybox with its applets, as an OCI-loadable tar."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

from tests.cluster.tools import BUSYBOX

APPLETS = (
    "sh", "sleep", "echo", "cat", "true", "false", "env", "ls", "kill", "test", "expr", "mkdir", "touch",
    "rm", "head", "tail", "seq", "date", "id", "hostname", "grep", "sed", "awk", "dd", "wc", "printf", "yes",
)  # fmt: skip


def _layer(busybox: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder in ("bin", "tmp", "dev", "proc", "sys", "etc"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        entry = tarfile.TarInfo("bin/busybox")
        data = busybox.read_bytes()
        entry.size, entry.mode = len(data), 0o755
        tar.addfile(entry, io.BytesIO(data))
        for applet in APPLETS:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    return buffer.getvalue()


def write_image(path: Path, name: str, command: list[str], busybox: Path = BUSYBOX) -> None:
    """Write a docker-archive tar of a one-layer image called `name` that runs `command`."""
    layer = _layer(busybox)
    digest = hashlib.sha256(layer).hexdigest()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": ["PATH=/bin"], "Cmd": command},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
            "history": [{"created_by": "local files"}],
        }
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [name], "Layers": [f"{digest}.tar"]}]).encode()
    with tarfile.open(path, "w") as tar:
        for file, data in ((f"{digest}.tar", layer), (config_name, config), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(file)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
