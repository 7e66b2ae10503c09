"""`batchjob local`: a cluster on this machine, started, looked at, disturbed and stopped."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from airflow_batchjob.local.folder import ClusterFolder, Running
    from airflow_batchjob.local.reach import Reach, RefusedError

DEFAULT_NAME = "default"

_NOT_FOUND, _CONFLICT, _INVALID = 404, 409, 422
_MOST_NAMES = 20


def add_parser(subparsers: Any) -> None:
    """Add ``local`` and its own commands."""
    parser = subparsers.add_parser("local", help="a Kubernetes API on this machine, for jobs as processes")
    parser.set_defaults(run=run)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    start = _command(commands, "start", _start, "start it in the background and say how to reach it")
    foreground = _command(commands, "run", _run, "run it here, until interrupted")
    for one in (start, foreground):
        one.add_argument(
            "--port", type=int, default=0, help="on 127.0.0.1; chosen by the system if not given"
        )
        one.add_argument("--machines", type=Path, metavar="FILE", help="YAML that declares the nodes")
        one.add_argument(
            "--spot-loss-seconds",
            type=float,
            metavar="MEAN",
            help="lose each spot node by itself, once in this time on average",
        )
        one.add_argument("--seed", type=int, default=0, help="of these losses: the same seed, the same times")
    _command(commands, "stop", _stop, "stop it, and every process it has started; its Jobs are gone then")
    _command(commands, "status", _status, "say whether it runs, and what runs in it")
    _command(commands, "kubeconfig", _kubeconfig, "print the path of its kubeconfig")
    lose = _command(commands, "lose", _lose, "lose a node, as spot capacity is taken away")
    lose.add_argument("node")
    back = _command(commands, "restore", _restore, "bring back a node that was lost")
    back.add_argument("node")
    evict = _command(commands, "evict", _evict, "evict a pod")
    evict.add_argument("pod")
    evict.add_argument("--namespace", default="default")


def _command(
    commands: Any, name: str, act: Callable[[argparse.Namespace], int], help_: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help_, description=help_)
    parser.add_argument("--name", default=DEFAULT_NAME, help="of the cluster, where there are several")
    parser.add_argument(
        "--folder", type=Path, help="its own; by default below ${XDG_STATE_HOME:-~/.local/state}"
    )
    parser.set_defaults(act=act)
    return parser


def run(args: argparse.Namespace) -> int:
    """Run one of the commands.

    Returns:
        0: done. 1: it failed, and said why. 2: there is nothing of the name that was given.
    """
    from airflow_batchjob.local.reach import RefusedError

    try:
        return int(args.act(args))
    except RefusedError as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"no answer from the cluster: {error}")


def _fail(words: str) -> int:
    print(f"batchjob local: {words}", file=sys.stderr)
    return 1


def _folder(args: argparse.Namespace) -> ClusterFolder:
    from airflow_batchjob.local.folder import ClusterFolder, default_folder

    return ClusterFolder((args.folder or default_folder(args.name)).absolute())


def _again(args: argparse.Namespace, command: str) -> str:
    """Return the command line for another command on the same cluster."""
    words = ["batchjob", "local", command]
    if args.folder:
        words += ["--folder", str(args.folder)]
    elif args.name != DEFAULT_NAME:
        words += ["--name", args.name]
    return shlex.join(words)


def _start(args: argparse.Namespace) -> int:
    folder = _folder(args)
    running = folder.running()
    if running is not None:
        if args.port or args.machines or args.spot_loss_seconds:
            words = f"it runs already (process {running.pid}), with the settings it was started with"
            return _fail(f"{words}. Stop it first: {_again(args, 'stop')}")
        print(f"It runs already: process {running.pid}, {running.url}, since {running.started}.")
        _print_ways(folder, args)
        return 0
    from airflow_batchjob.local.daemon import StartError, start

    try:
        running = start(_settings(args, folder))
    except StartError as error:
        return _fail(f"it did not start: {error}")
    print(f"The local cluster runs: process {running.pid}, {running.url}.")
    _print_ways(folder, args)
    return 0


def _settings(args: argparse.Namespace, folder: ClusterFolder) -> Any:
    from airflow_batchjob.local.daemon import Settings

    return Settings(
        folder=str(folder.path),
        name=f"batchjob-{args.name}",
        port=args.port,
        machines=str(args.machines.absolute()) if args.machines else None,
        spot_loss_seconds=args.spot_loss_seconds,
        seed=args.seed,
    )


def _print_ways(folder: ClusterFolder, args: argparse.Namespace) -> None:
    from airflow_batchjob.local.kubeconfig import airflow_connection

    path = folder.kubeconfig
    print(f"kubeconfig: {path}")
    print("For kubectl:")
    print(f"  export KUBECONFIG={shlex.quote(str(path))}")
    print("For Airflow:")
    print(f"  export AIRFLOW_CONN_KUBERNETES_DEFAULT={shlex.quote(airflow_connection(path))}")
    print(f"To stop it: {_again(args, 'stop')}")


def _run(args: argparse.Namespace) -> int:
    import asyncio
    import logging

    from airflow_batchjob.local.daemon import StartError
    from airflow_batchjob.local.daemon import run as run_here

    folder = _folder(args)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    print(f"The local cluster runs here until interrupted; kubeconfig: {folder.kubeconfig}", flush=True)
    try:
        asyncio.run(run_here(_settings(args, folder)))
    except StartError as error:
        return _fail(f"it did not start: {error}")
    return 0


def _stop(args: argparse.Namespace) -> int:
    folder = _folder(args)
    try:
        was_running = folder.stop()
    except TimeoutError as error:
        return _fail(str(error))
    if was_running:
        print("Stopped; its Jobs, pods and kubeconfig are gone. The next start begins with none.")
    else:
        print(f"No cluster runs in {folder.path}.")
    return 0


def _status(args: argparse.Namespace) -> int:
    folder = _folder(args)
    running = folder.running()
    if running is None:
        print(f"No cluster runs in {folder.path}. To start one: {_again(args, 'start')}")
        return 1
    reach = _reach(folder)
    nodes = reach.ask("GET", "/api/v1/nodes")["items"]
    jobs = reach.ask("GET", "/apis/batch/v1/jobs")["items"]
    pods = reach.ask("GET", "/api/v1/pods")["items"]
    print(f"It runs: process {running.pid}, {running.url}, since {running.started}.")
    print(f"kubeconfig: {folder.kubeconfig}")
    print(f"nodes: {', '.join(sorted(node['metadata']['name'] for node in nodes)) or 'none'}")
    active = sum(job["status"].get("active") or 0 for job in jobs)
    print(f"jobs: {len(jobs)}; pods: {len(pods)}, {active} of them active in jobs")
    return 0


def _reach(folder: ClusterFolder) -> Reach:
    from airflow_batchjob.local.reach import Reach

    return Reach.by_kubeconfig(folder.kubeconfig)


def _running(args: argparse.Namespace) -> tuple[ClusterFolder, Running] | None:
    folder = _folder(args)
    running = folder.running()
    if running is None:
        _fail(f"no cluster runs in {folder.path}. To start one: {_again(args, 'start')}")
        return None
    return folder, running


def _kubeconfig(args: argparse.Namespace) -> int:
    found = _running(args)
    if found is None:
        return 1
    print(found[0].kubeconfig)
    return 0


def _lose(args: argparse.Namespace) -> int:
    from airflow_batchjob.local.reach import RefusedError

    found = _running(args)
    if found is None:
        return 1
    reach = _reach(found[0])
    try:
        reach.lose_node(args.node)
    except RefusedError as error:
        return _unknown(error, f"node {args.node!r}", _names(reach, "/api/v1/nodes"))
    print(f"Node {args.node} is lost. To bring it back: {_again(args, 'restore')} {shlex.quote(args.node)}")
    return 0


def _restore(args: argparse.Namespace) -> int:
    from airflow_batchjob.local.reach import RefusedError

    found = _running(args)
    if found is None:
        return 1
    reach = _reach(found[0])
    try:
        reach.bring_back_node(args.node)
    except RefusedError as error:
        if error.status.get("code") == _CONFLICT:
            print(f"Node {args.node} is there.")
            return 0
        if error.status.get("code") != _INVALID:
            raise
        _fail(str(error))  # it names all machines, lost ones too
        return 2
    print(f"Node {args.node} is back.")
    return 0


def _evict(args: argparse.Namespace) -> int:
    from airflow_batchjob.local.reach import RefusedError

    found = _running(args)
    if found is None:
        return 1
    reach = _reach(found[0])
    try:
        reach.evict(args.namespace, args.pod)
    except RefusedError as error:
        known = _names(reach, f"/api/v1/namespaces/{quote(args.namespace, safe='')}/pods")
        return _unknown(error, f"pod {args.pod!r} in namespace {args.namespace!r}", known)
    print(f"Pod {args.namespace}/{args.pod} is being evicted.")
    return 0


def _names(reach: Reach, path: str) -> list[str]:
    return sorted(one["metadata"]["name"] for one in reach.ask("GET", path)["items"])


def _unknown(error: RefusedError, what: str, known: list[str]) -> int:
    """Say that there is no such thing, and which there are; any other refusal is passed on."""
    if error.status.get("code") != _NOT_FOUND:
        raise error
    listed = ", ".join(known[:_MOST_NAMES]) or "none"
    _fail(f"there is no {what}. There now: {listed}{',…' if known[_MOST_NAMES:] else ''}")
    return 2
