"""The operator on the local cluster: it defers, it waits here, and it ends as its Job ended."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_batchjob import (
    BatchJobOperator,
    DeadlineError,
    OutcomeUnknownError,
    ThresholdNotMetError,
)
from airflow_batchjob.compat import (
    AirflowFailException,
    AirflowSkipException,
    TaskDeferralError,
    TaskDeferred,
)
from airflow_batchjob.core.event import Order
from airflow_batchjob.triggers.batchjob import BatchJobTrigger
from tests.dags.airflow_tasks import TaskInstance, prepared

pytestmark = pytest.mark.usefixtures("batchjob_connection")

FAIL_ODD = ["sh", "-c", "exit $((JOB_COMPLETION_INDEX % 2))"]
KEYS = {
    "job_name",
    "job_namespace",
    "job_uid",
    "generation",
    "verdict",
    "reason",
    "completions",
    "succeeded",
    "failed",
    "not_run",
    "succeeded_indexes",
    "failed_indexes",
    "not_run_indexes",
    "losses",
    "fell_back",
    "cost",
}


def work(**given: Any) -> tuple[Any, Any, Any]:
    return prepared(BatchJobOperator, **({"image": "none", "command": ["true"]} | given))


def deferred(task: Any, context: Any) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as told:
        task.execute(context)
    return told.value


def fired(pause: TaskDeferred) -> dict[str, Any]:
    """Run the trigger as the triggerer does: rebuilt from JSON; its event goes through JSON, too."""
    path, arguments = pause.trigger.serialize()
    assert path == "airflow_batchjob.triggers.batchjob.BatchJobTrigger"
    trigger = BatchJobTrigger(**json.loads(json.dumps(arguments)))

    async def first() -> Any:
        return await anext(trigger.run())

    event: dict[str, Any] = json.loads(json.dumps(asyncio.run(first()).payload))
    assert len(json.dumps(event)) < 8_000
    return event


def run(task: Any, context: Any) -> Any:
    pause = deferred(task, context)
    return resumed(task, context, fired(pause))


def resumed(task: Any, context: Any, event: Any) -> Any:
    return task.resume_execution("resume", {"event": event}, context)


def job(cluster: Any, ti: TaskInstance) -> dict[str, Any]:
    name, namespace = ti.xcoms["job_name"], ti.xcoms["job_namespace"]
    found: dict[str, Any] = cluster.reach.ask("GET", f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}")
    return found


@pytest.mark.parametrize("deferrable", [True, False])
def test_returns_what_was_done(deferrable):
    task, ti, context = work(completions=3, deferrable=deferrable)

    result = run(task, context) if deferrable else task.execute(context)

    assert result.keys() == KEYS
    assert (result["verdict"], result["succeeded_indexes"]) == ("met", "0-2")
    assert ti.xcoms == result


@pytest.mark.parametrize("deferrable", [True, False])
def test_fails_with_the_same_words_after_pushing_all_results(deferrable):
    task, ti, context = work(completions=4, command=FAIL_ODD, deferrable=deferrable, logs="none")

    with pytest.raises(
        ThresholdNotMetError, match=r"2 of 4 succeeded, 4 needed\. 2 failed: 1,3\. 2x exit 1 in main"
    ):
        run(task, context) if deferrable else task.execute(context)

    assert ti.xcoms.keys() == KEYS
    assert (ti.xcoms["failed_indexes"], ti.xcoms["verdict"]) == ("1,3", "not_met")


def test_names_of_the_job_are_known_while_it_waits():
    task, ti, context = work(command=["sleep", "30"])

    pause = deferred(task, context)

    assert ti.xcoms.keys() == {"job_name", "job_namespace", "job_uid"}
    order = Order.from_json_types(pause.trigger.order)
    assert (order.job.name, order.job.uid) == (ti.xcoms["job_name"], ti.xcoms["job_uid"])
    assert len(json.dumps(pause.trigger.serialize())) < 2_000


def test_pushes_nothing_where_that_is_not_wanted():
    task, ti, context = work(do_xcom_push=False)

    run(task, context)

    assert ti.xcoms == {}


def test_tolerated_failures_are_a_success():
    task, _, context = work(completions=4, command=FAIL_ODD, min_succeeded="50%")

    assert run(task, context)["failed_indexes"] == "1,3"


def test_resuming_twice_with_one_event_says_the_same():
    task, _, context = work(completions=2, on_finish="delete")
    event = fired(deferred(task, context))

    assert resumed(task, context, event) == resumed(task, context, event)


def test_two_triggers_of_one_job_say_the_same():
    task, _, context = work(completions=2)
    pause = deferred(task, context)

    assert fired(pause) == fired(pause)


def test_templates_reach_the_container(batchjob_cluster):
    task, ti, context = work(env={"RUN": "{{ run_id }}"}, command=["sh", "-c", 'test "$RUN" = {{ run_id }}'])

    assert run(task, context)["verdict"] == "met"
    assert ti.run_id in json.dumps(job(batchjob_cluster, ti)["spec"])


def test_no_completions_skip_the_task():
    task, _, context = work(completions="{{ 0 }}")

    with pytest.raises(AirflowSkipException, match="completions=0"):
        task.execute(context)


def test_an_exit_code_can_skip_the_task():
    task, ti, context = work(command=["sh", "-c", "exit 99"], exit_codes={"skip": [99]})

    with pytest.raises(AirflowSkipException, match="99"):
        run(task, context)
    assert ti.xcoms.keys() == KEYS


NO_RETRY = {
    "a FailJob rule": {"command": ["sh", "-c", "exit 43"], "exit_codes": {"fail_job": [43]}},
    "a rendered number that makes no sense": {"completions": "{{ 'many' }}"},
    "a rendered contradiction": {"completions": "{{ 5 }}", "min_succeeded": "{{ 6 }}"},
    "a machine that nobody knows": {"machine": "huge"},
}


@pytest.mark.parametrize("given", NO_RETRY.values(), ids=NO_RETRY.keys())
def test_does_not_retry_what_cannot_help(given):
    task, _, context = work(**given)

    with pytest.raises(AirflowFailException):
        run(task, context)


def test_a_deadline_can_be_retried():
    task, _, context = work(command=["sleep", "60"], deadline_seconds=1)

    with pytest.raises(DeadlineError, match="deadline_seconds=1"):
        run(task, context)


def test_a_job_that_someone_deletes_has_an_unknown_end(batchjob_cluster):
    task, ti, context = work(command=["sleep", "60"])
    pause = deferred(task, context)
    path = f"/apis/batch/v1/namespaces/{ti.xcoms['job_namespace']}/jobs/{ti.xcoms['job_name']}"
    batchjob_cluster.reach.ask("DELETE", path)

    with pytest.raises(OutcomeUnknownError):
        resumed(task, context, fired(pause))


def test_the_next_try_attaches_to_what_still_runs():
    first = TaskInstance(task_id="work", max_tries=1)
    task, ti, context = work(ti=first, command=["sleep", "2"])
    deferred(task, context)

    again, _, context = work(ti=ti.next_try(), command=["sleep", "2"])
    result = run(again, context)

    assert result["job_uid"] == ti.xcoms["job_uid"]
    assert (result["verdict"], result["generation"]) == ("met", 0)


def test_the_next_try_takes_a_result_that_was_never_told():
    first = TaskInstance(task_id="work", max_tries=1)
    task, ti, context = work(ti=first)
    fired(deferred(task, context))

    again, _, context = work(ti=ti.next_try())

    assert again.execute(context)["job_uid"] == ti.xcoms["job_uid"]


class TestTheExecutionTimeout:
    def test_holds_while_deferred(self, batchjob_cluster):
        task, ti, context = work(command=["sleep", "60"], execution_timeout=timedelta(seconds=4))
        pause = deferred(task, context)

        with pytest.raises(DeadlineError, match="execution_timeout"):
            resumed(task, context, fired(pause))
        assert job(batchjob_cluster, ti)["status"]["conditions"][-1]["type"] == "Failed"

    def test_has_a_later_backstop_in_airflow(self):
        task, _, context = work(command=["sleep", "1"], execution_timeout=timedelta(hours=1))

        timeout = deferred(task, context).timeout

        assert timedelta(hours=1) < timeout <= timedelta(hours=1, seconds=60)

    def test_counts_from_the_tasks_start(self):
        started = datetime.now(tz=timezone.utc) - timedelta(minutes=50)
        ti = TaskInstance(task_id="work", start_date=started)
        task, _, context = work(ti=ti, execution_timeout=timedelta(hours=1))

        pause = deferred(task, context)

        end = Order.from_json_types(pause.trigger.order).wall_clock_end
        assert end == started.timestamp() + 3_590
        assert pause.timeout < timedelta(minutes=11, seconds=1)

    def test_stops_the_job_where_airflow_resumes_only_to_fail(self, batchjob_cluster):
        task, ti, context = work(command=["sleep", "60"])
        deferred(task, context)

        with pytest.raises(DeadlineError):
            task.resume_execution("__fail__", {"error": "Trigger timeout"}, context)
        assert job(batchjob_cluster, ti)["spec"]["activeDeadlineSeconds"] == 0


class TestATriggerThatFailed:
    @pytest.mark.parametrize(
        ("max_tries", "stopped"), [(0, True), (1, False)], ids=["last try", "a try is left"]
    )
    def test_leaves_no_job_that_nobody_comes_back_for(self, batchjob_cluster, max_tries, stopped):
        ti = TaskInstance(task_id="work", max_tries=max_tries)
        task, _, context = work(ti=ti, command=["sleep", "60"])
        deferred(task, context)

        with pytest.raises(TaskDeferralError):
            task.resume_execution("__fail__", {"error": "Trigger failure"}, context)

        assert (job(batchjob_cluster, ti)["spec"].get("activeDeadlineSeconds") == 0) is stopped


def test_a_connection_that_does_not_exist_is_named():
    from airflow_batchjob.compat import AirflowNotFoundException

    task, _, context = work(kubernetes_conn_id="nowhere")

    with pytest.raises(AirflowNotFoundException, match="kubernetes_conn_id='nowhere'"):
        task.execute(context)
