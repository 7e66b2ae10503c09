"""Which cluster a command asks: its two options, held against the kubeconfig before anything is sent."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_batchjob.core.errors import Problem, SpecError

if TYPE_CHECKING:
    from airflow_batchjob.client.config import ClusterSettings

_MEND = "Name a kubeconfig, set KUBECONFIG, or start the local cluster: `batchjob local start`"


def cluster_options(parser: argparse.ArgumentParser) -> None:
    """Add what says which cluster is meant."""
    parser.add_argument("--kubeconfig", metavar="FILE", help="default: $KUBECONFIG, else ~/.kube/config")
    parser.add_argument("--context", metavar="NAME", help="of the kubeconfig (default: its current one)")


def settings_of(args: argparse.Namespace) -> ClusterSettings:
    """Return the cluster that `args` mean.

    Raises:
        SpecError: There is no kubeconfig, or it has no such context.
    """
    from airflow_batchjob.client.config import ClusterSettings

    if problems := tuple(_problems(args.kubeconfig, args.context)):
        raise SpecError(*problems)
    return ClusterSettings(
        kube_config_path=args.kubeconfig, cluster_context=args.context, namespace=args.namespace
    )


def _problems(kubeconfig: str | None, context: str | None) -> Iterator[Problem]:
    if kubeconfig is None and _is_in_a_pod():
        return  # its service account is taken
    named, paths = _named(kubeconfig)
    files = [path for text in paths.split(os.pathsep) if text and (path := Path(text).expanduser()).is_file()]
    if not files:
        yield Problem(named, paths, "there is no such file", _MEND)
    elif context is not None and (known := _contexts(files)) is not None and context not in known:
        names = ", ".join(known) or "none"
        yield Problem("--context", context, f"{paths} has no such context", f"Use a known one: {names}")


def _named(kubeconfig: str | None) -> tuple[str, str]:
    """Return what names the kubeconfig, and what it names: files as in `KUBECONFIG`."""
    if kubeconfig is not None:
        return "--kubeconfig", kubeconfig
    if given := os.environ.get("KUBECONFIG"):
        return "KUBECONFIG", given
    return "kubeconfig", str(Path.home() / ".kube" / "config")


def _is_in_a_pod() -> bool:
    from airflow_batchjob.client.config import SERVICE_ACCOUNT

    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and (SERVICE_ACCOUNT / "token").is_file()


def _contexts(files: list[Path]) -> list[str] | None:
    """Return the names of all contexts; None where a file is not understood: whoever loads it says why."""
    import yaml

    try:
        trees: list[Any] = [yaml.safe_load(path.read_bytes()) or {} for path in files]
        return sorted({str(one["name"]) for tree in trees for one in tree.get("contexts") or ()})
    except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError):
        return None
