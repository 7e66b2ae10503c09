"""Leave a real cluster running to look at: `python -m tests.cluster start 1.37`, then `stop`."""

from __future__ import annotations

import argparse
import sys
import time

from tests.cluster.build import VERSIONS, MissingToolError, build, cache_folder
from tests.cluster.cluster import Cluster


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("action", choices=["build", "start", "stop"])
    parser.add_argument("version", nargs="?", choices=sorted(VERSIONS), default="1.37")
    asked = parser.parse_args()
    started = time.monotonic()
    try:
        if asked.action == "build":
            print(build(asked.version))
            return 0
        cluster = Cluster(asked.version, cache_folder() / "run" / asked.version)
        if asked.action == "stop":
            cluster.stop()
            print(f"Kubernetes {asked.version} is stopped.")
            return 0
        cluster.start()
    except MissingToolError as missing:
        print(missing, file=sys.stderr)
        return 2
    print(f"Kubernetes {asked.version} runs since {time.monotonic() - started:.0f} s. Use it with")
    print(f"  export KUBECONFIG={cluster.kubeconfig}\nand end it with\n  make cluster-stop")
    return 0


if __name__ == "__main__":
    sys.exit(main())
