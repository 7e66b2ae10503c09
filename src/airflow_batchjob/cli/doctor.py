"""`batchjob doctor`: what a cluster lets this account do, what is missing for what, and the Role to apply.

It asks, and changes nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_batchjob.cli.cluster import cluster_options, settings_of
from airflow_batchjob.core.errors import ApiError, ApiRefusedError, NotFoundError
from airflow_batchjob.core.rules.rights import RIGHTS, ROLE_NAME, Right, cluster_role_yaml, role_yaml

if TYPE_CHECKING:
    from airflow_batchjob.client.config import ClusterSettings
    from airflow_batchjob.client.kubernetes import KubernetesClient

EXIT_WELL, EXIT_LACKING = 0, 1
OLDEST = (1, 33)
_KUEUE = "kueue.x-k8s.io"
_SERVICE_ACCOUNT = "system:serviceaccount:"


def add_parser(subparsers: Any) -> None:
    """Add the command to those of `batchjob`."""
    parser = subparsers.add_parser(
        "doctor",
        help="say what the cluster lets this account do, and what is missing",
        description="Ask the cluster what this account may do, and say what is missing for what. If anything "
        "is, the Role that gives it is printed. Exit code 0: all that is needed is there, 1: it is not, or "
        "the cluster can't be asked, 2: something asked for is wrong.",
    )
    parser.add_argument("--namespace", metavar="NAME", help="of the Jobs (default: the context's)")
    parser.add_argument("--role", action="store_true", help="print the Role alone, without asking anything")
    cluster_options(parser)
    parser.set_defaults(run=run)


@dataclass(kw_only=True)
class Findings:
    """What was found; `troubles` are what keeps Jobs from being run."""

    server: str
    namespace: str
    account: str = ""
    lines: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    missing: list[Right] = field(default_factory=list)


def run(args: argparse.Namespace) -> int:
    """Print what was found; return the exit code."""
    if args.role:
        sys.stdout.write(role_yaml())
        return EXIT_WELL
    settings = settings_of(args)
    try:
        found = asyncio.run(_ask(settings, args.namespace))
    except ApiError as error:
        print(f"NOT READY: {error}")
        return EXIT_LACKING
    print(f"{found.server}, namespace {found.namespace}{f', as {found.account}' if found.account else ''}")
    for line in found.lines:
        print(line)
    _print_missing(found)
    if found.troubles:
        print(f"NOT READY: {'; '.join(found.troubles)}")
        return EXIT_LACKING
    print("READY: Jobs can be run here" + (", with the limits above" if found.missing else ""))
    return EXIT_WELL


async def _ask(settings: ClusterSettings, namespace: str | None) -> Findings:
    from airflow_batchjob.client.config import connect

    async with await connect(settings) as client:
        found = Findings(server=client.server, namespace=namespace or client.namespace)
        await _look_at_server(client, found)
        await _look_at_namespace(client, found)
        await _look_at_rights(client, found)
        await _look_for_kueue(client, found)
    return found


async def _look_at_server(client: KubernetesClient, found: Findings) -> None:
    from airflow_batchjob.client import requests

    version = await client.answer(requests.server_version())
    said = str(version.get("gitVersion", "unknown"))
    numbers = [
        int("".join(filter(str.isdigit, str(version.get(part, "")))) or 0) for part in ("major", "minor")
    ]
    if tuple(numbers) < OLDEST:
        needed = ".".join(map(str, OLDEST))
        found.troubles.append(f"Kubernetes {said} is too old, {needed} or later is needed")
    found.lines.append(f"  Kubernetes {said}")
    try:
        me = await client.answer(requests.who_am_i())
    except ApiError:  # older than the question, or not told
        return
    found.account = str(me.get("status", {}).get("userInfo", {}).get("username", ""))


def _number(text: Any) -> int:
    """Return "33" or "33+" as a number."""
    return int("".join(filter(str.isdigit, str(text))) or 0)


async def _look_at_namespace(client: KubernetesClient, found: Findings) -> None:
    from airflow_batchjob.client import requests

    try:
        await client.answer(requests.get_namespace(found.namespace))
    except ApiRefusedError as error:
        if error.code == 404:
            found.troubles.append(f"there is no namespace {found.namespace}")
        else:
            found.lines.append(f"  namespace {found.namespace}: can't be looked at, which is not needed")
    except NotFoundError:
        found.troubles.append(f"there is no namespace {found.namespace}")
    else:
        found.lines.append(f"  namespace {found.namespace}: is there")


async def _look_at_rights(client: KubernetesClient, found: Findings) -> None:
    answers = await asyncio.gather(*(_may(client, found.namespace, right) for right in RIGHTS))
    for right, allowed in zip(RIGHTS, answers, strict=True):
        if allowed:
            found.lines.append(f"  may {right}")
            continue
        found.missing.append(right)
        if right.is_needed:
            found.lines.append(f"  MAY NOT {right}, which is needed")
        else:
            found.lines.append(f"  may not {right}: {right.without}")
    if lacking := [str(right) for right in found.missing if right.is_needed]:
        found.troubles.append(f"the account may not {', '.join(lacking)}")


async def _may(client: KubernetesClient, namespace: str, right: Right) -> bool:
    from airflow_batchjob.client import requests

    where = namespace if right.in_namespace else ""
    call = requests.access_review(where, group=right.group, resource=right.resource, verb=right.verb)
    answer = await client.answer(call)
    return bool(answer.get("status", {}).get("allowed"))


async def _look_for_kueue(client: KubernetesClient, found: Findings) -> None:
    from airflow_batchjob.client import requests

    try:
        served = await client.answer(requests.group(_KUEUE))
        api = str(served.get("preferredVersion", {}).get("groupVersion", f"{_KUEUE}/v1beta1"))
        queues = await client.answer(requests.list_custom(api, found.namespace, "localqueues"))
    except ApiRefusedError as error:
        here = "is not installed" if error.code == 404 else "its queues can't be looked at"
        found.lines.append(f"  Kueue: {here}")
    except NotFoundError:
        found.lines.append("  Kueue: is not installed")
    else:
        names = [str(item["metadata"]["name"]) for item in queues.get("items") or ()]
        found.lines.append(f"  Kueue: queues here: {', '.join(names) or 'none'}")


def _print_missing(found: Findings) -> None:
    """Print what gives the missing rights: the whole Role, so that it can be applied as it is."""
    in_namespace = [right for right in found.missing if right.in_namespace]
    if in_namespace:
        print(f"\nThis Role gives all of it; apply it in namespace {found.namespace}:\n")
        sys.stdout.write(role_yaml())
        print(f"\n{_binding(found, cluster='')}\n")
    if text := cluster_role_yaml(found.missing):
        print(f"{'' if in_namespace else chr(10)}This is of the whole cluster:\n")
        sys.stdout.write(text)
        print(f"\n{_binding(found, cluster='cluster')}\n")


def _binding(found: Findings, *, cluster: str) -> str:
    """Return the command that binds the role to this account."""
    subject = f"--user {found.account or 'NAME'}"
    if found.account.startswith(_SERVICE_ACCOUNT):
        subject = f"--serviceaccount {found.account.removeprefix(_SERVICE_ACCOUNT)}"
    words: Iterable[str] = (
        ["create clusterrolebinding", ROLE_NAME, "--clusterrole", ROLE_NAME, subject]
        if cluster
        else [f"--namespace {found.namespace} create rolebinding", ROLE_NAME, "--role", ROLE_NAME, subject]
    )
    return f"kubectl {' '.join(words)}"
