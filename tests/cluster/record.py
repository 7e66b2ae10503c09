"""Writes tests/data/jobs/ anew: Jobs, pods and events as a real cluster writes them, at every stage.

`python -m tests.cluster record 1.37`. Left out are managedFields; addresses of this machine are written as
192.0.2.1, which is nobody's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import yaml

from tests.cluster.build import VERSIONS
from tests.cluster.cluster import running
from tests.cluster.stages import SCENARIOS, Scenario, Snapshot, node_lost
from tests.contract.asking import Asker, Object

FOLDER = Path(__file__).parents[1] / "data" / "jobs"


def record(version: str) -> None:
    """Run every scenario on a cluster of `version`, and write a file for each stage."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob(f"{version}-*.yaml"):
        old.unlink()
    with running(version) as cluster:
        server = Asker.by_kubeconfig(cluster.kubeconfig, is_local=False)
        server = replace(server, minor=int(version.split(".")[1]))

        def play(scenario: Scenario) -> None:
            with server.in_a_new_namespace() as api:
                for stage, objects in scenario(api):
                    _write(version, stage, objects, (scenario.__doc__ or "").strip(), api.namespace)

        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(play, scenario) for scenario in SCENARIOS]:
                done.result()

        def lost(api: Asker) -> Iterator[Snapshot]:
            return node_lost(api, cluster)

        lost.__doc__ = node_lost.__doc__
        play(lost)


def _write(version: str, stage: str, objects: list[Object], sentence: str, namespace: str) -> None:
    command = f"python -m tests.cluster record {version}"
    head = f"# Kubernetes {VERSIONS[version]}, by `{command}`: {sentence or stage}\n"
    body = yaml.safe_dump_all([_cleaned(obj) for obj in objects], sort_keys=False, width=110)
    body = re.sub(r"\b(?:10|172|192)\.\d+\.\d+\.\d+\b", "192.0.2.1", body).replace(namespace, "recorded")
    (FOLDER / f"{version}-{stage}.yaml").write_text(head + body)


def _cleaned(obj: Object) -> Object:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}
