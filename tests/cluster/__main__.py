"""Real clusters by hand: leave one running to look at (`start 1.37`, then `stop`), or test on all."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable

from tests.cluster.build import VERSIONS, MissingToolError, build
from tests.cluster.cluster import KEPT, Cluster, ClusterInUseError, alone, run_folder
from tests.cluster.processes import ServerDiedError
from tests.cluster.suite import run_all


def _build(version: str) -> int:
    print(build(version))
    return 0


def _start(version: str) -> int:
    began = time.monotonic()
    cluster = Cluster(version, run_folder(version))
    with alone():
        try:
            cluster.start()
        except BaseException:
            cluster.stop()
            raise
        (cluster.folder / KEPT).touch()
    print(f"Kubernetes {version} runs, started in {time.monotonic() - began:.0f} s. Use it with")
    print(f"  export KUBECONFIG={cluster.kubeconfig}")
    print(f"  alias kubectl='{cluster.plane.binary} kubectl'")
    print("and end it with\n  make cluster-stop")
    return 0


def _stop(version: str) -> int:
    for each in VERSIONS:
        kept = run_folder(each) / KEPT
        was_kept = kept.exists()
        kept.unlink(missing_ok=True)
        if was_kept:
            with alone():
                print(f"Kubernetes {each} is stopped.")
            return 0
    with alone():
        print("No cluster was left running.")
    return 0


def _record(version: str) -> int:
    from tests.cluster.record import record

    record(version)
    return 0


ACTIONS: dict[str, Callable[[str], int]] = {
    "build": _build,
    "start": _start,
    "stop": _stop,
    "record": _record,
    "test": lambda version: run_all(),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("action", choices=sorted(ACTIONS))
    parser.add_argument("version", nargs="?", choices=sorted(VERSIONS), default=max(VERSIONS))
    asked = parser.parse_args()
    try:
        return ACTIONS[asked.action](asked.version)
    except (MissingToolError, ClusterInUseError, ServerDiedError) as reason:
        print(reason, file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as failed:
        print(f"{failed.cmd[0]}: exit code {failed.returncode}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
