"""What the account of a connection may have to do, what each right is for, and the Role that gives it.

The one list of rights: the pages' Role is made from it, and `batchjob doctor` asks for each of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ROLE_NAME = "airflow-batchjob"
QUOTED_EMPTY = '""'  # the core group

_HEAD = "# What the account of Airflow's connection needs, in the namespace of the Jobs."


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """One verb on one resource.

    Attributes:
        group: Of the API; "": the core.
        resource: In the plural, with a subresource after a slash.
        verb: As Kubernetes' authorizer spells it.
        without: What is missing without it; "": nothing works.
        in_namespace: False: on the whole cluster, by a ClusterRole.
    """

    group: str
    resource: str
    verb: str
    without: str = ""
    in_namespace: bool = True

    @property
    def is_needed(self) -> bool:
        return not self.without

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"


def _jobs(verb: str, without: str = "") -> Right:
    return Right(group="batch", resource="jobs", verb=verb, without=without)


_NO_DIAGNOSIS = "nobody says why pods do not start or why indexes failed, and lost machines are not seen"

RIGHTS: tuple[Right, ...] = (
    _jobs("create"),
    _jobs("get"),
    _jobs("list"),
    _jobs("watch", "Jobs are listed every 15 seconds, and ends are told that much later"),
    _jobs("patch"),
    _jobs("delete", "on_finish can't delete Jobs, and one that waits in a queue can't be withdrawn"),
    Right(
        group="batch",
        resource="jobs/status",
        verb="patch",
        without="a retry runs all indexes again in place of the rest, and none can be asked for by name",
    ),
    Right(group="", resource="pods", verb="list", without=_NO_DIAGNOSIS),
    Right(group="", resource="pods", verb="watch", without="pods are listed now and then where losses count"),
    Right(group="", resource="pods/log", verb="get", without="there are no logs, live or of failures"),
    Right(group="", resource="events", verb="list", without="nobody says why pods can't be created"),
    Right(
        group="",
        resource="nodes",
        verb="get",
        without="a pod that vanished with its machine counts as lost only where Kubernetes says so",
        in_namespace=False,
    ),
)


def role_yaml(rights: Iterable[Right] = RIGHTS) -> str:
    """Return the Role that gives `rights`, as far as they are of a namespace."""
    verbs: dict[tuple[str, str], list[str]] = {}
    for right in rights:
        if right.in_namespace:
            verbs.setdefault((right.group, right.resource), []).append(right.verb)
    rules = [
        f"  - apiGroups: [{group or QUOTED_EMPTY}]\n    resources: [{resource}]\n    verbs: [{', '.join(of)}]"
        for (group, resource), of in verbs.items()
    ]
    head = [_HEAD, "apiVersion: rbac.authorization.k8s.io/v1", "kind: Role", "metadata:"]
    return "\n".join([*head, f"  name: {ROLE_NAME}", "rules:", *rules, ""])


def cluster_role_yaml(rights: Iterable[Right] = RIGHTS) -> str:
    """Return a ClusterRole for those of `rights` that are of the whole cluster; "": there are none."""
    rules = [
        f"  - apiGroups: [{right.group or QUOTED_EMPTY}]\n"
        f"    resources: [{right.resource}]\n    verbs: [{right.verb}]"
        for right in rights
        if not right.in_namespace
    ]
    if not rules:
        return ""
    head = ["apiVersion: rbac.authorization.k8s.io/v1", "kind: ClusterRole", "metadata:"]
    return "\n".join([*head, f"  name: {ROLE_NAME}", "rules:", *rules, ""])
