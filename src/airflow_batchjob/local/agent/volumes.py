"""A pod's volumes as folders and files of the cluster's own folder, and where containers see them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow_batchjob.local.agent.environment import ConfigError, Lookup, contents, field_value
from airflow_batchjob.local.agent.refusals import is_in_place
from airflow_batchjob.local.launcher.protocol import Mount

Object = dict[str, Any]


def make_volumes(pod: Object, folder: Path, lookup: Lookup) -> dict[str, Path]:
    """Make the folder of each volume that some container mounts; return them by name.

    Args:
        pod: The pod.
        folder: The pod's own folder.
        lookup: Finds config maps and secrets.

    Raises:
        ConfigError: A config map, a secret or a key is missing, or a host path is not there.
    """
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
    mounted = {mount["name"] for c in containers for mount in c.get("volumeMounts") or ()}
    return {
        volume["name"]: _make(volume, pod, folder / "volumes" / volume["name"], lookup)
        for volume in spec.get("volumes") or ()
        if volume["name"] in mounted
    }


def mounts_of(container: Object, pod: Object, volumes: dict[str, Path]) -> list[Mount]:
    """Return what a container sees of the volumes, and where."""
    by_name = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    mounts = []
    for mount in container.get("volumeMounts") or ():
        volume = by_name[mount["name"]]
        if is_in_place(mount, volume):
            continue
        source = volumes[mount["name"]]
        if mount.get("subPath"):
            source /= mount["subPath"]
            if not source.exists():
                source.mkdir(parents=True)
        read_only = bool(mount.get("readOnly")) or not {"emptyDir", "hostPath"} & volume.keys()
        mounts.append(Mount(source=str(source), target=mount["mountPath"], read_only=read_only))
    return mounts


def _make(volume: Object, pod: Object, folder: Path, lookup: Lookup) -> Path:
    if host := volume.get("hostPath"):
        path = Path(host["path"])
        if host.get("type") == "DirectoryOrCreate":
            path.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            raise ConfigError(f'hostPath "{path}" of volume "{volume["name"]}" does not exist')
        return path
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in _files(volume, pod, lookup).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def _files(volume: Object, pod: Object, lookup: Lookup) -> dict[str, bytes]:
    if source := volume.get("configMap"):
        return _of_keys(source, source["name"], lookup("configmaps", source["name"]), "configmap")
    if source := volume.get("secret"):
        return _of_keys(source, source["secretName"], lookup("secrets", source["secretName"]), "secret")
    if source := volume.get("downwardAPI"):
        return {
            item["path"]: field_value(pod, item["fieldRef"]["fieldPath"]).encode()
            for item in source.get("items") or ()
            if "fieldRef" in item
        }
    return {}


def _of_keys(source: Object, name: str, found: Object | None, kind: str) -> dict[str, bytes]:
    if found is None:
        if source.get("optional"):
            return {}
        raise ConfigError(f'{kind} "{name}" not found')
    data = contents(found)
    if not source.get("items"):
        return data
    missing = [item["key"] for item in source["items"] if item["key"] not in data]
    if missing and not source.get("optional"):
        raise ConfigError(f'references non-existent config key: {missing[0]} in {kind} "{name}"')
    return {item["path"]: data[item["key"]] for item in source["items"] if item["key"] in data}
