"""A Node as the API server returns it: only what tells whether it is a spot machine, and still there.

Source: https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/node-v1/
"""

from __future__ import annotations

import msgspec

from airflow_batchjob.core.reading.endings import Node
from airflow_batchjob.core.reading.job import Condition, Metadata, Read


class Taint(Read, frozen=True):
    key: str = ""


class NodeFields(Read, frozen=True):
    """`.spec`."""

    taints: tuple[Taint, ...] = ()


class NodeStatusFields(Read, frozen=True):
    """`.status`."""

    conditions: tuple[Condition, ...] = ()


class NodeObject(Read, frozen=True):
    """A v1 Node."""

    metadata: Metadata
    spec: NodeFields = msgspec.field(default_factory=NodeFields)
    status: NodeStatusFields = msgspec.field(default_factory=NodeStatusFields)

    def seen(self) -> Node:
        """Return what counts of it."""
        ready = [one.status == "True" for one in self.status.conditions if one.type == "Ready"]
        return Node(
            labels=self.metadata.labels,
            is_ready=all(ready),
            taints=frozenset(taint.key for taint in self.spec.taints),
        )
