"""Indexes that a person asks for: they run, the rest stands, and nothing is claimed that was not done."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from airflow_batchjob.cli.main import main
from airflow_batchjob.core.deciding.report import achieved_text
from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.core.event import Outcome, Verdict
from airflow_batchjob.core.identity.identity import Again
from airflow_batchjob.supervisor.rerun import RerunRequest, request_rerun
from tests.retries.trying import LASTS, Bench, odds, request

CLEARED: dict[str, Any] = {"try_number": 2, "max_tries": 4}
NEVER = "exit $((JOB_COMPLETION_INDEX % 2))"  # the odd ones fail in each generation


async def ask(bench: Bench, name: str, indexes: str) -> RerunRequest:
    async with bench.client() as client:
        return await request_rerun(client, name, indexes, by="ada")


WORDS = {
    "failed": ("failed", [1, 3, 5], "3 of 3 asked, of 6; 6 have succeeded in all"),
    "rest": ("rest", [1, 3, 5], "3 of 3 asked, of 6; 6 have succeeded in all"),
    "all": ("all", [0, 1, 2, 3, 4, 5], "6 of 6 succeeded, 6 needed"),
    "by number, one that failed": ("3", [3], "1 of 1 asked, of 6; 4 have succeeded in all"),
    "by number, done and not done": ("5, 2-3", [2, 3, 5], "3 of 3 asked, of 6; 5 have succeeded in all"),
}


@pytest.mark.parametrize(("words", "want", "want_text"), WORDS.values(), ids=WORDS.keys())
async def test_what_is_asked_for_runs_and_the_rest_stands(
    bench: Bench, words: str, want: list[int], want_text: str
) -> None:
    first = await bench.run(request())

    asked = await ask(bench, first.job.name, words)
    verdict = await bench.run(request(**CLEARED))

    assert list(asked.indexes) == bench.ran(1) == want
    assert (verdict.outcome, achieved_text(verdict)) == (Outcome.MET, want_text)


@pytest.mark.local_only
async def test_what_nobody_ran_is_not_called_done(bench: Bench) -> None:
    first = await bench.run(request())

    await ask(bench, first.job.name, "3")
    verdict = await bench.run(request(**CLEARED))

    assert (verdict.succeeded_indexes, verdict.not_run_indexes) == ("0,2-4", "1,5")
    assert bench.annotation("asserted") == "1,5"
    assert bench.job()["status"]["completedIndexes"] == "0-5"


@pytest.mark.local_only
async def test_what_was_only_asserted_is_not_kept_by_a_later_generation(bench: Bench) -> None:
    first = await bench.run(request())
    await ask(bench, first.job.name, "3")
    await bench.run(request(**CLEARED))

    await ask(bench, first.job.name, "rest")
    verdict = await bench.run(request(try_number=3, max_tries=6))

    assert bench.ran(2) == [1, 5]
    assert (verdict.outcome, verdict.succeeded_indexes) == (Outcome.MET, "0-5")
    assert bench.successes() == dict.fromkeys(range(6), 1)


async def test_a_green_part_can_be_completed(bench: Bench) -> None:
    first = await bench.run(request(min_succeeded="50%"))
    assert first.outcome is Outcome.MET

    await ask(bench, first.job.name, "failed")
    verdict = await bench.run(request(**CLEARED, min_succeeded="50%"))

    assert (verdict.generation, verdict.succeeded, bench.ran(1)) == (1, 6, list(odds()))


async def test_a_success_policy_is_left_out(bench: Bench) -> None:
    asked: dict[str, Any] = {"min_succeeded": 3, "stop_when_succeeded": True}
    first = await bench.run(request(**asked))

    await ask(bench, first.job.name, "rest")
    verdict = await bench.run(request(**CLEARED, **asked))

    assert "successPolicy" in bench.job(0)["spec"]
    assert "successPolicy" not in bench.job(1)["spec"]
    assert verdict.succeeded == 6


async def test_a_mended_image_runs_the_failed_ones_alone(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    first = await bench.run(request(NEVER))

    await ask(bench, first.job.name, "failed")
    verdict = await bench.run(request("true", **CLEARED))

    assert (verdict.outcome, verdict.succeeded, bench.ran(1)) == (Outcome.MET, 6, list(odds()))
    assert "'failed' was asked for by ada; command changed since, what is kept was done before" in caplog.text


@pytest.mark.local_only
async def test_a_retry_goes_on_with_the_request_and_no_more(bench: Bench) -> None:
    script = "[ $GENERATION -gt 1 ] || exit $((JOB_COMPLETION_INDEX % 2))"
    first = await bench.run(request(script))
    await ask(bench, first.job.name, "2,3")
    second = await bench.run(request(script, **CLEARED))

    third = await bench.run(request(script, try_number=3, max_tries=4))

    assert (second.outcome, achieved_text(second)) == (
        Outcome.NOT_MET,
        "1 of 2 asked, of 6; 3 have succeeded in all",
    )
    assert [bench.ran(1), bench.ran(2)] == [[2, 3], [3]]
    assert (third.outcome, third.succeeded_indexes) == (Outcome.MET, "0,2-4")


@pytest.mark.local_only
async def test_a_clear_after_that_runs_all_that_is_not_done(bench: Bench) -> None:
    first = await bench.run(request(NEVER))
    await ask(bench, first.job.name, "3")
    await bench.run(request(NEVER, **CLEARED))

    await bench.run(request(NEVER, try_number=3, max_tries=6, on_clear=Again.REST))

    assert [bench.ran(1), bench.ran(2)] == [[3], list(odds())]


@pytest.mark.local_only
async def test_enough_over_all_generations_is_enough(bench: Bench) -> None:
    first = await bench.run(request(NEVER))
    await ask(bench, first.job.name, "2,3")

    verdict = await bench.run(request(NEVER, **CLEARED, min_succeeded=3))

    assert (verdict.outcome, verdict.asked_succeeded, verdict.succeeded) == (Outcome.MET, 1, 3)


@pytest.mark.local_only
async def test_other_completions_are_an_error_and_run_nothing(bench: Bench) -> None:
    first = await bench.run(request())
    await ask(bench, first.job.name, "3")

    with pytest.raises(SpecError, match="asked for on a Job of 6 completions, and now it has 8"):
        await bench.run(request(**CLEARED, completions=8))

    assert len(bench.jobs()) == 1


REFUSED = {
    "an index that is not there": ("6", "there is no such index"),
    "none": ("", "it names no index"),
    "no index at all": ("everything", "neither an index nor a range"),
}


@pytest.mark.parametrize(("words", "want"), REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.local_only
async def test_what_cannot_run_is_refused_before_anything_is_written(
    bench: Bench, words: str, want: str
) -> None:
    first = await bench.run(request())

    with pytest.raises(SpecError, match=want):
        await ask(bench, first.job.name, words)

    assert bench.annotation("rerun") == ""


@pytest.mark.local_only
async def test_the_rest_of_what_is_done_is_nothing(bench: Bench) -> None:
    first = await bench.run(request("true"))

    with pytest.raises(SpecError, match="everything is done already"):
        await ask(bench, first.job.name, "rest")


@pytest.mark.local_only
async def test_no_job_is_an_error(bench: Bench) -> None:
    with pytest.raises(SpecError, match="there is no such Job"):
        await ask(bench, "nightly-work", "failed")


@pytest.mark.local_only
async def test_a_job_that_still_runs_is_an_error(bench: Bench) -> None:
    order = await bench.order(request(LASTS))

    with pytest.raises(SpecError, match="has not ended"):
        await ask(bench, order.job.name, "failed")


@pytest.mark.local_only
async def test_the_job_that_is_asked_stays_for_a_day_more(bench: Bench) -> None:
    first = await bench.run(request("true", ttl_seconds_after_finished=600))

    await ask(bench, first.job.name, "1")

    assert bench.job()["spec"]["ttlSecondsAfterFinished"] >= 24 * 3600


async def told(bench: Bench, capsys: pytest.CaptureFixture[str], verdict: Verdict) -> list[str]:
    words = ["rerun", verdict.job.name, "--indexes", "failed", "--kubeconfig", str(bench.kubeconfig)]
    code = await asyncio.to_thread(main, [*words, "--namespace", bench.api.namespace])
    assert code == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.local_only
async def test_the_command_says_what_will_run_and_how_to_start_it(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    first = await bench.run(request(logical_date="2027-01-15T00:00:00+00:00"))

    lines = await told(bench, capsys, first)

    assert "3 of 6 indexes will run: 1,3,5; 3 have succeeded so far" in lines[0]
    assert lines[-1] == (
        "airflow tasks clear nightly --task-regex work --start-date 2027-01-15T00:00:00+00:00 "
        "--end-date 2027-01-15T00:00:00+00:00"
    )
