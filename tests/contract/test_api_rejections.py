"""What is refused: which code, which field, which reason. The words may differ between versions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.asking import Asker, Object, container, indexed, job

GPU = "nvidia.com/gpu"
RESTART = "spec.template.spec.restartPolicy"
RESOURCES = "spec.template.spec.containers[0].resources"


def failing_by(*rules: Object, **spec: Any) -> Object:
    return job(podFailurePolicy={"rules": list(rules)}, **spec)


def with_resources(**resources: Object) -> Object:
    return job(pod={"containers": [container(resources=resources)]})


def codes(operator: str, *values: int, **more: object) -> Object:
    return {"action": "FailJob", "onExitCodes": {"operator": operator, "values": list(values), **more}}


CONDITION = {"type": "DisruptionTarget", "status": "True"}

INVALID: dict[str, tuple[Object, set[tuple[str, str]]]] = {
    "10 no restart policy": (job(pod={"restartPolicy": None}), {(RESTART, "Required")}),
    "11 a restart policy that does not exist": (
        job(pod={"restartPolicy": "Sometimes"}),
        {(RESTART, "NotSupported")},
    ),
    "12 indexed without completions": (
        job(completionMode="Indexed", parallelism=2),
        {("spec.completions", "Required")},
    ),
    "13 too many at once": (
        indexed(completions=100_001, parallelism=100_001),
        {("spec.parallelism", "Invalid")},
    ),
    "14 very many completions, a budget per index, no fuse": (
        indexed(completions=100_001, parallelism=10, backoffLimitPerIndex=1),
        {("spec.maxFailedIndexes", "Required")},
    ),
    "16 a budget per index without indexes": (
        job(backoffLimitPerIndex=1),
        {("spec.backoffLimitPerIndex", "Invalid")},
    ),
    "a fuse without a budget per index": (
        indexed(maxFailedIndexes=1),
        {("spec.backoffLimitPerIndex", "Required")},
    ),
    "17 a fuse above the completions": (
        indexed(maxFailedIndexes=4, backoffLimitPerIndex=0),
        {("spec.maxFailedIndexes", "Invalid")},
    ),
    "a mode that does not exist": (job(completionMode="Some"), {("spec.completionMode", "NotSupported")}),
    "negative numbers": (
        job(parallelism=-1, backoffLimit=-1, activeDeadlineSeconds=-1, ttlSecondsAfterFinished=-1),
        {
            ("spec.parallelism", "Invalid"),
            ("spec.backoffLimit", "Invalid"),
            ("spec.activeDeadlineSeconds", "Invalid"),
            ("spec.ttlSecondsAfterFinished", "Invalid"),
        },
    ),
    "18 a failure policy where pods restart in place": (
        failing_by(codes("In", 42), pod={"restartPolicy": "OnFailure"}),
        {(RESTART, "Invalid")},
    ),
    "a failure policy that replaces pods still ending": (
        failing_by(codes("In", 42), podReplacementPolicy="TerminatingOrFailed"),
        {("spec.podReplacementPolicy", "NotSupported")},
    ),
    "19 an index to fail without a budget per index": (
        failing_by({**codes("In", 42), "action": "FailIndex"}),
        {("spec.podFailurePolicy.rules[0].action", "Invalid")},
    ),
    "an action that does not exist": (
        failing_by({**codes("In", 42), "action": "Weep"}),
        {("spec.podFailurePolicy.rules[0].action", "NotSupported")},
    ),
    "20 exit codes out of order": (
        failing_by(codes("In", 3, 1)),
        {("spec.podFailurePolicy.rules[0].onExitCodes.values", "Invalid")},
    ),
    "success among the exit codes": (
        failing_by(codes("In", 0, 1)),
        {("spec.podFailurePolicy.rules[0].onExitCodes.values[0]", "Invalid")},
    ),
    "exit codes of a container that is not there": (
        failing_by(codes("In", 1, containerName="other")),
        {("spec.podFailurePolicy.rules[0].onExitCodes.containerName", "Invalid")},
    ),
    "a rule of both kinds": (
        failing_by({**codes("In", 1), "onPodConditions": [CONDITION]}),
        {("spec.podFailurePolicy.rules[0]", "Invalid")},
    ),
    "a rule of neither kind": (
        failing_by({"action": "Ignore"}),
        {("spec.podFailurePolicy.rules[0]", "Invalid")},
    ),
    "21 success by indexes that are not there": (
        indexed(completions=5, successPolicy={"rules": [{"succeededIndexes": "0-9"}]}),
        {("spec.successPolicy.rules[0].succeededIndexes", "Invalid")},
    ),
    "success by more than are listed": (
        indexed(completions=5, successPolicy={"rules": [{"succeededIndexes": "0-1", "succeededCount": 3}]}),
        {("spec.successPolicy.rules[0].succeededCount", "Invalid")},
    ),
    "success by a rule that says nothing": (
        indexed(successPolicy={"rules": [{}]}),
        {("spec.successPolicy.rules[0]", "Required")},
    ),
    "success by indexes without indexes": (
        job(successPolicy={"rules": [{"succeededCount": 1}]}),
        {("spec.successPolicy", "Invalid")},
    ),
    "22 a name without room for the index": (
        indexed("j" * 62, completions=1),
        {("metadata.name", "Invalid")},
    ),
    "23 a name without room for a long index": (
        indexed("j" * 60, completions=1000),
        {("metadata.name", "Invalid")},
    ),
    "a name with capitals": (job("Job"), {("metadata.name", "Invalid")}),
    "a manager without a domain": (job(managedBy="me"), {("spec.managedBy", "Invalid")}),
    "24 a card asked for and another number allowed": (
        with_resources(requests={GPU: "1"}, limits={GPU: "2"}),
        {(f"{RESOURCES}.requests", "Invalid")},
    ),
    "25 a card asked for without a limit": (
        with_resources(requests={GPU: "1"}),
        {(f"{RESOURCES}.limits", "Required")},
    ),
    "half a card": (
        with_resources(requests={GPU: "500m"}, limits={GPU: "500m"}),
        {(f"{RESOURCES}.limits[{GPU}]", "Invalid"), (f"{RESOURCES}.requests[{GPU}]", "Invalid")},
    ),
    "more memory asked for than allowed": (
        with_resources(requests={"memory": "2Gi"}, limits={"memory": "1Gi"}),
        {(f"{RESOURCES}.requests", "Invalid")},
    ),
    "no containers": (job(pod={"containers": []}), {("spec.template.spec.containers", "Required")}),
    "a container without a name": (
        job(pod={"containers": [container(name=None)]}),
        {("spec.template.spec.containers[0].name", "Required")},
    ),
    "two containers of one name": (
        job(pod={"containers": [container(), container()]}),
        {("spec.template.spec.containers[1].name", "Duplicate")},
    ),
    "a mount without its volume": (
        job(pod={"containers": [container(volumeMounts=[{"name": "v", "mountPath": "/v"}])]}),
        {("spec.template.spec.containers[0].volumeMounts[0].name", "NotFound")},
    ),
    "no selector where it was to be made by hand": (
        job(manualSelector=True),
        {("spec.selector", "Required")},
    ),
}


@pytest.mark.parametrize(("sent", "want"), INVALID.values(), ids=INVALID.keys())
def test_an_invalid_job_is_refused_with_the_field_and_the_reason(
    api: Asker, sent: Object, want: set[tuple[str, str]]
) -> None:
    answer = api.create_job(sent)

    assert (answer.code, answer.body.get("reason")) == (422, "Invalid"), answer.body
    assert want <= answer.causes
    assert answer.body["message"].startswith(f'Job.batch "{sent["metadata"]["name"]}" is invalid: ')


ACCEPTED = {
    "15 very many completions with fuse and bounded parallelism": indexed(
        completions=100_001,
        parallelism=10_000,
        backoffLimitPerIndex=1,
        maxFailedIndexes=10_000,
        suspend=True,
    ),
    "22 the longest name with one index": indexed("j" * 61, completions=1, suspend=True),
    "23 a name that just fits its hundred indexes": indexed("j" * 60, completions=100, suspend=True),
    "a deadline of no time at all": job(activeDeadlineSeconds=0, suspend=True),
    "no completions wanted": indexed(completions=0, suspend=True),
}


@pytest.mark.parametrize("sent", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_what_is_odd_and_right_is_accepted(api: Asker, sent: Object) -> None:
    assert api.create_job(sent).code == 201


UNREADABLE: dict[str, tuple[Object | bytes, str]] = {
    "26 a quantity that is none": (with_resources(limits={"cpu": "1x"}), "quantities must match"),
    "text where a number stands": (job(parallelism="2"), "cannot unmarshal string"),
    "a list where an object stands": (job() | {"spec": []}, "cannot unmarshal array"),
    "another kind": (job() | {"kind": "Pod"}, "Pod"),
    "no JSON": (b"{", ""),
}


@pytest.mark.parametrize(("sent", "want"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_cannot_be_read_is_a_bad_request(api: Asker, sent: Object, want: str) -> None:
    answer = api.create_job(sent)

    assert (answer.code, answer.body["reason"]) == (400, "BadRequest")
    assert want in answer.body["message"]


def test_27_an_unknown_field_is_dropped_with_a_warning(api: Asker) -> None:
    answer = api.create_job(job(suspend=True, foo=1))

    assert answer.code == 201
    assert "foo" not in answer.body["spec"]
    assert answer.warnings == ('299 - "unknown field \\"spec.foo\\""',)


def test_27_an_unknown_field_is_refused_where_strictness_is_asked_for(api: Asker) -> None:
    sent = job(suspend=True, foo=1)
    sent["spec"]["template"]["backoffLimit"] = 3

    answer = api.create_job(sent, fieldValidation="Strict")

    assert (answer.code, answer.body["reason"]) == (400, "BadRequest")
    for field in ("spec.foo", "spec.template.backoffLimit"):
        assert f'unknown field "{field}"' in answer.body["message"]


def test_a_repeated_field_is_refused_where_strictness_is_asked_for(api: Asker) -> None:
    sent = b'{"metadata": {"name": "a", "name": "j"}, "spec": {}}'

    answer = api.ask("POST", api.jobs(), sent, fieldValidation="Strict")

    assert answer.code == 400
    assert 'duplicate field "metadata.name"' in answer.body["message"]


def test_an_unknown_field_is_dropped_in_silence_where_that_is_asked_for(api: Asker) -> None:
    answer = api.create_job(job(suspend=True, foo=1), fieldValidation="Ignore")

    assert (answer.code, answer.warnings) == (201, ())


def test_a_name_that_is_taken_is_a_conflict(api: Asker) -> None:
    api.have_job(job(suspend=True))

    answer = api.create_job(job(suspend=True))

    assert (answer.code, answer.body["reason"]) == (409, "AlreadyExists")
    assert answer.body["message"] == 'jobs.batch "j" already exists'


def test_a_namespace_that_is_not_there_is_said_to_be_missing(api: Asker) -> None:
    answer = api.ask("POST", "/apis/batch/v1/namespaces/nowhere/jobs", job())

    assert (answer.code, answer.body["reason"]) == (404, "NotFound")
    assert answer.body["details"]["kind"] == "namespaces"


def test_what_is_not_there_is_not_found(api: Asker) -> None:
    answer = api.ask("GET", api.jobs("j"))

    assert (answer.code, answer.body["reason"]) == (404, "NotFound")
    assert answer.body["message"] == 'jobs.batch "j" not found'
    assert answer.body["details"] == {"name": "j", "group": "batch", "kind": "jobs"}
