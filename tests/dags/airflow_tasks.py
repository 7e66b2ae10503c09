"""A task instance as the worker has it, without an Airflow around it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any
from uuid import uuid4

from airflow.sdk import DAG, BaseOperator

_RUNS = itertools.count()


@dataclass(kw_only=True)
class TaskInstance:
    """What the operator reads of a task instance, and the XComs that it pushed."""

    task_id: str
    dag_id: str = "cluster"
    run_id: str = field(default_factory=lambda: f"run-{next(_RUNS)}-{uuid4().hex[:6]}")
    map_index: int = -1
    id: str = field(default_factory=lambda: str(uuid4()))
    try_number: int = 1
    max_tries: int = 0
    start_date: datetime = field(default_factory=lambda: datetime.now(tz=timezone.utc))
    xcoms: dict[str, Any] = field(default_factory=dict)

    def xcom_push(self, key: str, value: Any) -> None:
        self.xcoms[key] = value

    def next_try(self) -> TaskInstance:
        """Return the same task in its next try: Airflow gives it another id."""
        return TaskInstance(
            task_id=self.task_id,
            dag_id=self.dag_id,
            run_id=self.run_id,
            map_index=self.map_index,
            try_number=self.try_number + 1,
            max_tries=self.max_tries,
        )


def prepared(
    operator: type[BaseOperator], ti: TaskInstance | None = None, **given: Any
) -> tuple[Any, Any, Any]:
    """Return a task, its instance and its context, templates rendered."""
    ti = ti or TaskInstance(task_id="work")
    dag = DAG(ti.dag_id, schedule=None)
    task = operator(task_id=ti.task_id, dag=dag, **given)
    context: Any = {"ti": ti, "dag": dag, "task": task, "run_id": ti.run_id, "params": {}}
    task.render_template_fields(context, dag.get_template_env())
    return task, ti, context
