"""A machine as a Node object. Pure."""

from __future__ import annotations

import platform
from datetime import datetime
from typing import Any

from airflow_batchjob.local.api.quantity import amount, canonical
from airflow_batchjob.local.nodes.machines import Machine
from airflow_batchjob.local.store import format_time

Object = dict[str, Any]

CAPACITY_LABEL = "airflow-batchjob/capacity"
HOSTNAME_LABEL = "kubernetes.io/hostname"
VERSION = "v1.37.2"  # of Kubernetes, whose behaviour is followed

_READY = "local agent is posting ready status"


def node_object(machine: Machine, now: datetime) -> Object:
    """Return the node that stands for a machine."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": machine.name,
            "labels": _labels(machine),
        },
        "spec": {"taints": [dict(taint) for taint in machine.taints]} if machine.taints else {},
        "status": {
            "capacity": _quantities(machine, reserved=False),
            "allocatable": _quantities(machine, reserved=True),
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "message": _READY,
                    "lastHeartbeatTime": format_time(now),
                    "lastTransitionTime": format_time(now),
                }
            ],
            "addresses": [
                {"type": "InternalIP", "address": "127.0.0.1"},
                {"type": "Hostname", "address": machine.name},
            ],
            "nodeInfo": {
                "kubeletVersion": VERSION,
                "operatingSystem": platform.system().lower(),
                "architecture": platform.machine(),
                "kernelVersion": platform.release(),
                "osImage": f"{platform.system()} (the machine of the local cluster)",
                "containerRuntimeVersion": "process://1",
            },
        },
    }


def _labels(machine: Machine) -> Object:
    architectures = {"x86_64": "amd64", "aarch64": "arm64"}
    return {
        HOSTNAME_LABEL: machine.name,
        "kubernetes.io/os": platform.system().lower(),
        "kubernetes.io/arch": architectures.get(platform.machine(), platform.machine()),
        CAPACITY_LABEL: machine.capacity.value,
        **machine.labels,
    }


def _quantities(machine: Machine, *, reserved: bool) -> Object:
    given = {"cpu": machine.cpu, "memory": machine.memory, **machine.resources}
    kept = machine.reserved if reserved else {}
    quantities = {
        name: canonical(value) if name not in kept else _less(value, kept[name], cpu=name == "cpu")
        for name, value in given.items()
    }
    return {**quantities, "pods": str(machine.pods)}


def _less(total: str, kept: str, *, cpu: bool) -> str:
    left = max(amount(total) - amount(kept), amount("0"))
    return f"{int(left * 1000)}m" if cpu else f"{int(left) // 1024}Ki"
