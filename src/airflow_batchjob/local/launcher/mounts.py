"""A view of the file system for one container alone: its volumes at their mount paths. Linux only.

Runs in the forked child, before the command: a new mount namespace, and in it every mount path is
made to exist without touching the machine's own folders. Where a parent folder lacks an entry, a
small memory file system takes its place and shows all its entries again, plus the new one.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Sequence

from airflow_batchjob.local.launcher.protocol import Mount

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 32, 4096, 16384, 1 << 18

MOST_ENTRIES = 500  # of a folder that must be rebuilt to get a new entry; each costs a mount

_libc = ctypes.CDLL(None, use_errno=True)


class MountError(Exception):
    """A mount path cannot be made; the message says which and why."""


def are_possible() -> bool:
    """Try, in a child process, whether this system allows private mounts."""
    if not sys.platform.startswith("linux"):
        return False
    child = os.fork()
    if child == 0:
        try:
            _unshare()
        except BaseException:  # noqa: BLE001  whatever it is, the child must not come back
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def enter(mounts: Sequence[Mount], scratch: str) -> None:
    """Give this process its own view. It cannot be undone: call it in a child.

    Args:
        mounts: What is to appear where; sources are absolute paths that exist.
        scratch: A folder to build on; made if need be. It gets empty folders, nothing else.

    Raises:
        MountError: It cannot be done.
    """
    try:
        os.makedirs(scratch, exist_ok=True)  # noqa: PTH103
        _unshare()
        _show(mounts, scratch)
    except OSError as error:
        raise MountError(f"cannot mount the volumes: {error}") from error


def _show(mounts: Sequence[Mount], scratch: str) -> None:
    root = "/"
    # Parents first: a volume may be mounted inside another.
    for mount in sorted(mounts, key=lambda m: m.target.count("/")):
        target = os.path.normpath("/" + mount.target.strip("/"))
        root = _make_exist(root, target, scratch, is_folder=os.path.isdir(mount.source))  # noqa: PTH112
        _bind(mount.source, root.rstrip("/") + target, mount.target)
        if mount.read_only:
            _protect(root.rstrip("/") + target, mount.target)
    if root != "/":
        os.chroot(root)


def _unshare() -> None:
    user, group = os.getuid(), os.getgid()
    flags = _CLONE_NEWNS if user == 0 else _CLONE_NEWNS | _CLONE_NEWUSER
    if _libc.unshare(flags) != 0:
        raise MountError(f"no private mounts on this system: {os.strerror(ctypes.get_errno())}")
    if flags & _CLONE_NEWUSER:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123
                file.write(text)
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE, "/")


def _protect(path: str, shown: str) -> None:
    # Flags that the mount has already must be named again: an ordinary user may not drop them.
    kept = os.statvfs(path).f_flag & (_MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    _mount(None, path, None, _MS_BIND | _MS_REMOUNT | _MS_RDONLY | kept, shown)


def _make_exist(root: str, target: str, scratch: str, *, is_folder: bool) -> str:
    """Make `target` exist below `root`; return the root that has it."""
    parent, parts = "/", [part for part in target.split("/") if part]
    for depth, part in enumerate(parts):
        path = root.rstrip("/") + parent.rstrip("/") + "/" + part
        if not os.path.lexists(path):
            root = _rebuild(root, parent, scratch)
            base = root.rstrip("/") + parent
            rest = parts[depth:]
            if is_folder:
                os.makedirs(os.path.join(base, *rest))  # noqa: PTH103, PTH118
            else:
                os.makedirs(os.path.join(base, *rest[:-1]), exist_ok=True)  # noqa: PTH103, PTH118
                os.close(os.open(os.path.join(base, *rest), os.O_CREAT | os.O_WRONLY))  # noqa: PTH118
            break
        parent = parent.rstrip("/") + "/" + part
    return root


def _rebuild(root: str, parent: str, scratch: str) -> str:
    """Put a memory file system in place of `parent` that shows the same entries; return the root then."""
    old = root.rstrip("/") + parent
    entries = os.listdir(old)  # noqa: PTH208
    if len(entries) > MOST_ENTRIES:
        raise MountError(f"{parent} has {len(entries)} entries: too many to add one of its own")
    new = tempfile.mkdtemp(dir=scratch)
    _mount("tmpfs", new, "tmpfs", 0, parent)
    for entry in entries:
        source, place = os.path.join(old, entry), os.path.join(new, entry)  # noqa: PTH118
        if os.path.islink(source):  # noqa: PTH114
            os.symlink(os.readlink(source), place)  # noqa: PTH115, PTH211
            continue
        if os.path.isdir(source):  # noqa: PTH112
            os.mkdir(place)  # noqa: PTH102
        else:
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY))
        try:
            _bind(source, place, parent)
        except MountError:
            # Some special files refuse to be bound; nothing a command needs.
            continue
    if parent == "/":
        return new
    _bind(new, old, parent)
    return root


def _bind(source: str, target: str, shown: str) -> None:
    _mount(source, target, None, _MS_BIND | _MS_REC, shown)


def _mount(source: str | None, target: str, kind: str | None, flags: int, shown: str) -> None:
    encoded = [text.encode() if text is not None else None for text in (source, target, kind)]
    if _libc.mount(*encoded, ctypes.c_ulong(flags), None) != 0:
        raise MountError(f"cannot mount {shown}: {os.strerror(ctypes.get_errno())}")
