"""Signals reach the coroutine that counts, and `execute` never ends normally after one."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
from airflow.sdk.execution_time.timeout import timeout

from airflow_batchjob.compat import AirflowTaskTimeout
from airflow_batchjob.core.errors import TaskCutError
from airflow_batchjob.operators.running import Runner


@pytest.fixture
def sigterm_kills():
    """Install what Airflow installs around `execute`: a handler that calls `on_kill` and goes on."""
    usual = signal.getsignal(signal.SIGTERM)

    def install(runner: Runner) -> None:
        signal.signal(signal.SIGTERM, lambda *_: runner.kill())

    yield install
    signal.signal(signal.SIGTERM, usual)


async def forever_after(act) -> None:
    asyncio.get_running_loop().call_soon(act)
    await asyncio.Event().wait()


def test_returns_what_the_coroutine_returns():
    assert Runner().run(asyncio.sleep(0, "done")) == "done"


def test_sigterm_ends_the_coroutine_with_an_error(sigterm_kills):
    runner = Runner()
    sigterm_kills(runner)

    with pytest.raises(TaskCutError):
        runner.run(forever_after(lambda: os.kill(os.getpid(), signal.SIGTERM)))


def test_the_coroutine_may_tidy_up_after_a_kill():
    runner, done = Runner(), []

    async def work() -> None:
        try:
            await forever_after(runner.kill)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            done.append("tidied")
            raise

    with pytest.raises(TaskCutError):
        runner.run(work())
    assert done == ["tidied"]


def test_a_kill_is_an_error_even_if_the_coroutine_ends_well():
    runner = Runner()

    async def work() -> str:
        try:
            await forever_after(runner.kill)
        except asyncio.CancelledError:
            return "as if nothing had happened"
        return ""

    with pytest.raises(TaskCutError):
        runner.run(work())


def test_nothing_runs_after_a_kill_and_a_second_kill_is_harmless():
    runner = Runner()
    runner.kill()
    runner.kill()

    with pytest.raises(TaskCutError):
        runner.run(asyncio.sleep(0))


def test_a_kill_during_tidying_does_not_cut_it_again():
    runner, done = Runner(), []

    async def work() -> None:
        try:
            await forever_after(runner.kill)
        except asyncio.CancelledError:
            runner.kill()
            await asyncio.sleep(0)
            done.append("tidied")
            raise

    with pytest.raises(TaskCutError):
        runner.run(work())
    assert done == ["tidied"]


def test_airflows_alarm_ends_the_coroutine_that_counts_not_one_beside_it():
    runner, beside = Runner(), []

    async def busy() -> None:
        while True:
            beside.append(1)
            await asyncio.sleep(0)

    async def work() -> None:
        task = asyncio.ensure_future(busy())
        try:
            await asyncio.Event().wait()
        finally:
            task.cancel()

    with pytest.raises(AirflowTaskTimeout), timeout(0.05):
        runner.run(work())
    assert beside


def test_the_usual_alarm_is_back_afterwards():
    usual = signal.getsignal(signal.SIGALRM)
    Runner().run(asyncio.sleep(0))
    assert signal.getsignal(signal.SIGALRM) is usual


def test_a_kill_while_the_loop_is_made_ends_it_too():
    runner = Runner()

    class Slow(asyncio.DefaultEventLoopPolicy):
        def new_event_loop(self) -> asyncio.AbstractEventLoop:
            runner.kill()
            return super().new_event_loop()

    asyncio.set_event_loop_policy(Slow())
    try:
        with pytest.raises(TaskCutError):
            runner.run(asyncio.sleep(60))
    finally:
        asyncio.set_event_loop_policy(None)
