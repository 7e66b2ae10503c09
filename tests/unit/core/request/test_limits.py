"""Completions, budgets, thresholds, exit codes and deadlines: each exception of the precedence rule."""

from __future__ import annotations

from typing import ClassVar

import pytest

from airflow_batchjob.core.errors import SpecError
from airflow_batchjob.core.request.budget import Thresholds
from airflow_batchjob.core.request.manifest import Built, build
from airflow_batchjob.core.request.spec import JobSpec


def job(restart="Never", **spec):
    pod = {"restartPolicy": restart, "containers": [{"name": "work", "image": "work:1"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {**spec, "template": {"spec": pod}},
    }


def indexed(**spec):
    return job(completionMode="Indexed", **{"completions": 50, "parallelism": 5, **spec})


def built(**parameters) -> Built:
    return build(JobSpec(**parameters), default_name="dag-task")


def problems(**parameters):
    with pytest.raises(SpecError) as caught:
        built(**parameters)
    return {problem.field: f"{problem.why}. {problem.mend}" for problem in caught.value.problems}


class TestMode:
    CASES: ClassVar = {
        "built from parameters": ({"image": "i"}, "Indexed"),
        "completions given to a manifest that names no mode": (
            {"manifest": job(), "completions": 3},
            "Indexed",
        ),
        "a manifest that names no mode": ({"manifest": job(completions=3)}, None),
        "a named mode stays": (
            {"manifest": job(completionMode="NonIndexed"), "completions": 3},
            "NonIndexed",
        ),
        "an indexed manifest": ({"manifest": indexed()}, "Indexed"),
    }

    @pytest.mark.parametrize(("given", "want"), CASES.values(), ids=CASES.keys())
    def test_who_decides(self, given, want) -> None:
        result = built(**given)

        assert result.manifest["spec"].get("completionMode") == want
        assert result.thresholds.indexed is (want == "Indexed")

    def test_becoming_indexed_is_noted(self) -> None:
        assert any("completionMode is Indexed" in n for n in built(manifest=job(), completions=3).notes)

    def test_a_manifest_keeps_one_pod_at_a_time_with_a_note(self) -> None:
        result = built(manifest=job(), completions=3)

        assert "parallelism" not in result.manifest["spec"]
        assert any("one pod at a time" in note for note in result.notes)

    NEEDING: ClassVar = {
        "a budget per index": {"retries_per_index": 0},
        "a fuse": {"max_failed_indexes": 1},
        "a fuse in per cent": {"max_failed_indexes": "1%"},
        "a threshold": {"min_succeeded": 1},
        "a threshold in per cent": {"min_succeeded": "90%"},
        "an early end": {"stop_when_succeeded": True},
    }

    @pytest.mark.parametrize("mode", [{}, {"completionMode": "NonIndexed"}])
    @pytest.mark.parametrize("given", NEEDING.values(), ids=NEEDING.keys())
    def test_what_needs_indexes_is_refused_without_them(self, given, mode) -> None:
        (field,) = given

        assert "completionMode" in problems(manifest=job(completions=5, **mode), **given)[field]

    def test_an_exit_code_that_fails_an_index_needs_one(self) -> None:
        found = problems(manifest=job(), exit_codes={"fail_index": [42]})

        assert set(found) == {"exit_codes['fail_index']"}

    def test_giving_completions_is_a_way_out_where_no_mode_is_named(self) -> None:
        assert "give completions" in problems(manifest=job(), min_succeeded=1)["min_succeeded"]
        built(manifest=job(), min_succeeded=1, completions=5)

    def test_without_indexes_a_manifest_runs_as_it_is(self) -> None:
        spec = built(manifest=job(backoffLimit=4), backoff_limit=7, deadline_seconds=60).manifest["spec"]

        assert (spec["backoffLimit"], spec["activeDeadlineSeconds"]) == (7, 60)


class TestBudgets:
    @pytest.mark.parametrize("given", [{"retries_per_index": 1}, {"max_failed_indexes": 5}])
    def test_a_budget_per_index_takes_the_manifests_backoff_limit_away(self, given) -> None:
        result = built(manifest=indexed(backoffLimit=4), **given)

        assert "backoffLimit" not in result.manifest["spec"]
        assert any("backoffLimit (4) is left out" in note for note in result.notes)

    @pytest.mark.parametrize("given", [{"retries_per_index": 1}, {"max_failed_indexes": 5}])
    def test_unless_a_backoff_limit_is_given_too(self, given) -> None:
        result = built(manifest=indexed(backoffLimit=4), backoff_limit=9, **given)

        assert result.manifest["spec"]["backoffLimit"] == 9
        assert not any("left out" in note for note in result.notes)

    @pytest.mark.parametrize("given", [{}, {"parallelism": 2}, {"min_succeeded": 9}, {"completions": 9}])
    def test_what_is_no_budget_leaves_it(self, given) -> None:
        assert built(manifest=indexed(backoffLimit=4), **given).manifest["spec"]["backoffLimit"] == 4

    def test_a_fuse_alone_implies_no_retries(self) -> None:
        result = built(manifest=indexed(), max_failed_indexes="10%")

        assert result.manifest["spec"]["backoffLimitPerIndex"] == 0
        assert result.manifest["spec"]["maxFailedIndexes"] == 5
        assert any("retries_per_index is 0" in note for note in result.notes)

    def test_but_keeps_those_of_the_manifest(self) -> None:
        result = built(manifest=indexed(backoffLimitPerIndex=3), max_failed_indexes=5)

        assert result.manifest["spec"]["backoffLimitPerIndex"] == 3
        assert not any("retries_per_index" in note for note in result.notes)

    def test_a_budget_brings_no_fuse(self) -> None:
        assert "maxFailedIndexes" not in built(manifest=indexed(), retries_per_index=1).manifest["spec"]


class TestRestartInPlace:
    def test_a_backoff_limit_must_be_given(self) -> None:
        pod = {"restartPolicy": "OnFailure"}

        assert set(problems(image="i", pod=pod)) == {"backoff_limit"}
        assert set(problems(manifest=indexed(restart="OnFailure"))) == {"backoff_limit"}

    @pytest.mark.parametrize(
        "given",
        [
            {"image": "i", "pod": {"restartPolicy": "OnFailure"}, "backoff_limit": 8},
            {"manifest": indexed(restart="OnFailure", backoffLimit=8)},
            {"manifest": indexed(restart="OnFailure"), "backoff_limit": 8},
        ],
    )
    def test_then_no_budget_per_index_is_sent(self, given) -> None:
        spec = built(**given).manifest["spec"]

        assert spec["backoffLimit"] == 8
        assert "backoffLimitPerIndex" not in spec

    @pytest.mark.parametrize("field", ["retries_per_index", "max_failed_indexes"])
    def test_budgets_per_index_are_refused_with_the_reason(self, field) -> None:
        found = problems(manifest=indexed(restart="OnFailure", backoffLimit=8), **{field: 1})

        assert "restarts of all live pods count together" in found[field]
        assert "backoff_limit" in found[field]

    def test_exit_codes_are_refused_too(self) -> None:
        found = problems(manifest=indexed(restart="OnFailure", backoffLimit=8), exit_codes={"fail_job": [3]})

        assert set(found) == {"exit_codes"}

    def test_without_indexes_kubernetes_default_holds(self) -> None:
        assert "backoffLimit" not in built(manifest=job(restart="OnFailure")).manifest["spec"]


class TestThresholds:
    CASES: ClassVar = {
        "nothing asked": ({"manifest": indexed()}, Thresholds(completions=50, indexed=True)),
        "all asked": (
            {
                "manifest": indexed(),
                "completions": "2000",
                "max_failed_indexes": "1%",
                "min_succeeded": "99%",
                "stop_when_succeeded": True,
                "deadline_seconds": "60",
                "pending_seconds": "900",
            },
            Thresholds(
                completions=2000,
                indexed=True,
                min_succeeded=1980,
                stop_when_succeeded=True,
                max_failed_indexes=20,
                deadline_seconds=60,
                pending_seconds=900,
            ),
        ),
        "the manifest's own limits": (
            {"manifest": indexed(backoffLimitPerIndex=0, maxFailedIndexes=3, activeDeadlineSeconds=9)},
            Thresholds(completions=50, indexed=True, max_failed_indexes=3, deadline_seconds=9),
        ),
        "neither completions nor parallelism is one": (
            {"manifest": job()},
            Thresholds(completions=1, indexed=False),
        ),
        "a work queue": ({"manifest": job(parallelism=3)}, Thresholds(completions=None, indexed=False)),
    }

    @pytest.mark.parametrize(("given", "want"), CASES.values(), ids=CASES.keys())
    def test_in_numbers(self, given, want) -> None:
        assert built(**given).thresholds == want

    CONTRADICTIONS: ClassVar = {
        "the fuse fires too early": (
            {"manifest": indexed(), "max_failed_indexes": 1, "min_succeeded": 10},
            "max_failed_indexes",
        ),
        "the manifest's own fuse does": (
            {"manifest": indexed(backoffLimitPerIndex=0, maxFailedIndexes=1), "min_succeeded": 10},
            "spec.maxFailedIndexes",
        ),
        "more successes than the manifest has indexes": (
            {"manifest": indexed(), "min_succeeded": 51},
            "min_succeeded",
        ),
        "more failures than the manifest has indexes": (
            {"manifest": indexed(), "max_failed_indexes": 51},
            "max_failed_indexes",
        ),
        "above 100 %": ({"manifest": indexed(), "min_succeeded": "101%"}, "min_succeeded"),
    }

    @pytest.mark.parametrize(("given", "want"), CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
    def test_contradictions_are_named_once(self, given, want) -> None:
        assert set(problems(**given)) == {want}

    def test_any_fuse_is_valid_where_no_threshold_is_given(self) -> None:
        assert built(manifest=indexed(), max_failed_indexes=0).thresholds.needed == 50


class TestStopWhenSucceeded:
    def test_becomes_a_success_policy(self) -> None:
        spec = built(manifest=indexed(), min_succeeded="99%", stop_when_succeeded=True).manifest["spec"]

        assert spec["successPolicy"] == {"rules": [{"succeededCount": 50}]}

    def test_replaces_the_manifests_own_with_a_note(self) -> None:
        manifest = indexed(successPolicy={"rules": [{"succeededIndexes": "0"}]})

        result = built(manifest=manifest, min_succeeded=10, stop_when_succeeded=True)

        assert result.manifest["spec"]["successPolicy"] == {"rules": [{"succeededCount": 10}]}
        assert any("successPolicy is replaced" in note for note in result.notes)

    def test_without_a_threshold_there_is_nothing_to_stop_at(self) -> None:
        result = built(manifest=indexed(), stop_when_succeeded=True)

        assert "successPolicy" not in result.manifest["spec"]
        assert any("stop_when_succeeded does nothing" in note for note in result.notes)

    def test_a_threshold_alone_leaves_the_manifests_policy(self) -> None:
        own = {"rules": [{"succeededIndexes": "0"}]}

        spec = built(manifest=indexed(successPolicy=own), min_succeeded=10).manifest["spec"]

        assert spec["successPolicy"] == own


class TestExitCodes:
    OWN: ClassVar = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}

    def test_become_rules_before_the_manifests_own(self) -> None:
        manifest = indexed(podFailurePolicy={"rules": [self.OWN]}, backoffLimitPerIndex=1)

        result = built(manifest=manifest, exit_codes={"fail_job": [43], "fail_index": ["42", 41]})

        assert result.manifest["spec"]["podFailurePolicy"]["rules"] == [
            {
                "action": "FailIndex",
                "onExitCodes": {"containerName": "work", "operator": "In", "values": [41, 42]},
            },
            {"action": "FailJob", "onExitCodes": {"containerName": "work", "operator": "In", "values": [43]}},
            self.OWN,
        ]
        assert result.skip_exit_codes == ()

    def test_a_skip_ends_the_job_at_once_and_is_handed_on(self) -> None:
        result = built(image="i", exit_codes={"skip": [99]})

        (rule,) = result.manifest["spec"]["podFailurePolicy"]["rules"]
        assert rule["action"] == "FailJob"
        assert rule["onExitCodes"]["values"] == [99]
        assert (result.skip_exit_codes, result.container) == ((99,), "main")

    def test_a_single_pod_without_indexes_can_be_skipped(self) -> None:
        assert built(manifest=job(), exit_codes={"skip": [99]}).skip_exit_codes == (99,)

    NOT_SKIPPED: ClassVar = {
        "many indexes": {"image": "i", "completions": 2},
        "many completions of the manifest": {"manifest": indexed()},
        "a work queue": {"manifest": job(parallelism=3)},
    }

    @pytest.mark.parametrize("given", NOT_SKIPPED.values(), ids=NOT_SKIPPED.keys())
    def test_one_pod_cannot_skip_for_many(self, given) -> None:
        assert set(problems(exit_codes={"skip": [99]}, **given)) == {"exit_codes['skip']"}

    def test_an_index_fails_by_itself_only_with_a_budget(self) -> None:
        found = problems(manifest=indexed(), exit_codes={"fail_index": [42]})

        assert list(found) == ["exit_codes['fail_index'].action"]
        assert "retries_per_index" in found["exit_codes['fail_index'].action"]
        built(manifest=indexed(), exit_codes={"fail_index": [42]}, retries_per_index=0)

    def test_the_manifests_own_rules_keep_their_places_in_problems(self) -> None:
        wrong = {"action": "Explode", "onPodConditions": [{"type": "DisruptionTarget"}]}
        manifest = indexed(podFailurePolicy={"rules": [self.OWN, wrong]})

        found = problems(manifest=manifest, exit_codes={"fail_job": [43]})

        assert set(found) == {"spec.podFailurePolicy.rules[1].action"}

    def test_a_replacement_policy_that_kubernetes_refuses_with_rules_is_named(self) -> None:
        manifest = indexed(podReplacementPolicy="TerminatingOrFailed")

        assert set(problems(manifest=manifest, exit_codes={"fail_job": [43]})) == {
            "spec.podReplacementPolicy"
        }
