"""Where tests keep what they write, and what of the developer's own settings they must not see."""

from __future__ import annotations

import os
from pathlib import Path

pytest_plugins = ["tests.cluster.plugin"]

ROOT = Path(__file__).parents[1]

# Before anything imports Airflow, which reads its settings once. A developer's own Airflow, its
# database and its connections stay out of the tests, and the tests out of them.
for name in [name for name in os.environ if name.startswith(("AIRFLOW_", "AIRFLOW__", "KUBECONFIG"))]:
    del os.environ[name]
os.environ |= {
    "AIRFLOW_HOME": str(ROOT / "build" / "airflow"),
    "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    # Short Jobs would never see the triggerer, and most tests have short Jobs.
    "AIRFLOW__BATCHJOB__SECONDS_BEFORE_DEFERRING": "0",
}
