"""Run shards on machines that are taken away, with two broken inputs: what `make demo-spot` does.

All that it writes is in build/demo. The machines are lost at a seeded rate, so each run loses the same
ones at about the same times.
"""

from __future__ import annotations

import json
import shutil
import sys

from tools import demo
from tools.spot_history import History
from tools.spot_picture import draw, headline

MACHINES = """\
machines:
  - {name: desk, cpu: 5, memory: 4Gi}
  - {name: spot-1, cpu: 3, memory: 4Gi, capacity: spot}
  - {name: spot-2, cpu: 3, memory: 4Gi, capacity: spot}
  - {name: spot-3, cpu: 3, memory: 4Gi, capacity: spot}
"""
LOSS_SECONDS, SEED = "6", "4"
PIPELINE = """
import sys
from shards_on_spot import dag
run = dag.test(run_conf={"folder": sys.argv[1]})
sys.exit(run.state != "success")
"""


def main() -> int:
    """Start the cluster, run the pipeline, draw what became of each index, and stop the cluster."""
    shutil.rmtree(demo.OUTPUT, ignore_errors=True)
    demo.OUTPUT.mkdir(parents=True)
    machines = demo.BUILD / "machines.yaml"
    machines.write_text(MACHINES)
    losses = ("--machines", str(machines), "--spot-loss-seconds", LOSS_SECONDS, "--seed", SEED)
    making = "" if demo.database_made().exists() else ", making Airflow's database"
    demo.say(f"starting a local cluster that loses each spot machine every {LOSS_SECONDS} s or so{making}")
    with demo.LOG.open("w") as log, demo.local_cluster(*losses) as connection:
        environment = demo.airflow_environment() | connection
        demo.make_database(environment, log)
        demo.say("Airflow starts, and runs dags/shards_on_spot.py")
        with History(demo.CLUSTER / "kubeconfig") as history:
            ended = demo.run_pipeline(environment, log, PIPELINE)
    pods, steps = history.told()
    picture = demo.BUILD / "spot.svg"
    picture.write_text(draw(pods, steps))
    picture.with_suffix(".json").write_text(json.dumps([ran._asdict() for ran in pods], indent=1))
    demo.say(headline(pods, 1 + max((ran.shard for ran in pods), default=0)))
    if ended:
        demo.say(f"the pipeline failed; Airflow's log: {demo.shown(demo.LOG)}")
        return 1
    print(f"\n  picture  {demo.shown(picture)}\n")
    demo.say("done; the local cluster is stopped")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        demo.say("interrupted; the local cluster and its processes are stopped")
        sys.exit(130)
