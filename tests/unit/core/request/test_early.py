"""At parse time all that is known is checked, and nothing that is templated gives a false error."""

from __future__ import annotations

import pytest
import yaml

from airflow_batchjob.core.request.early import UNKNOWN, early_problems, is_templated
from airflow_batchjob.core.request.spec import TEMPLATED_FIELDS, JobSpec
from airflow_batchjob.core.sharing.machine import Machine


class Output:
    """Stands for another task's output, as Airflow's XComArg does."""

    def iter_references(self):
        return iter(())

    def resolve(self, context):
        raise AssertionError("it is not known yet")


OUTPUT = Output()


def job(container=None, **spec):
    work = {"name": "work", "image": "work:1", **(container or {})}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {**spec, "template": {"spec": {"restartPolicy": "Never", "containers": [work]}}},
    }


INDEXED = job(completionMode="Indexed", completions=50, parallelism=5)


def fields(**parameters):
    return [problem.field for problem in early_problems(JobSpec(**parameters))]


@pytest.mark.parametrize("value", ["{{ value }}", OUTPUT, "{% if x %}1{% endif %}", "{# none #}"])
@pytest.mark.parametrize("field", TEMPLATED_FIELDS)
def test_a_templated_field_has_no_problem_yet(field, value) -> None:
    rest = {} if field in ("manifest", "image") else {"image": "work:1"}

    assert fields(**{field: value, **rest}) == []
    if field != "manifest":
        assert fields(**{"manifest": INDEXED, field: value}) == []


ALL_TEMPLATED = {
    field: "{{ value }}" for field in TEMPLATED_FIELDS if field not in ("command", "args", "env", "pod")
}
NO_FALSE_ERROR = {
    "everything at once": ALL_TEMPLATED,
    "everything from other tasks": dict.fromkeys(TEMPLATED_FIELDS, OUTPUT),
    "parts of lists and maps": {
        "image": "work:{{ tag }}",
        "command": ["python", "{{ script }}", OUTPUT],
        "env": {"DAY": "{{ ds }}", "N": OUTPUT},
        "labels": {"day": "{{ ds }}", "team": OUTPUT},
        "annotations": {"run": "{{ run_id }}"},
        "pod": {"volumes": [{"name": "{{ v }}"}], "terminationGracePeriodSeconds": "{{ n }}"},
    },
    "a fuse beside unknown completions": {
        "image": "i",
        "completions": OUTPUT,
        "max_failed_indexes": 5,
        "min_succeeded": 7,
        "parallelism": 9,
    },
    "an unknown fuse": {"manifest": INDEXED, "max_failed_indexes": OUTPUT, "min_succeeded": "90%"},
    "an unknown threshold": {"manifest": INDEXED, "max_failed_indexes": 0, "min_succeeded": "{{ n }}"},
    "Jinja in a manifest's text": {
        "manifest": "{% if big %}\nkind: Job\n{% endif %}\nspec: {completions: {{ n }}}",
        "min_succeeded": 5,
    },
    "Jinja in a manifest's values": {
        "manifest": job(
            {
                "image": "{{ image }}",
                "resources": {"limits": {"memory": "{{ mem }}"}, "requests": {"memory": "2Gi"}},
                "env": "{{ env }}",
            },
            completionMode="{{ mode }}",
            completions="{{ n }}",
            parallelism="{{ p }}",
            activeDeadlineSeconds=OUTPUT,
        ),
        "max_failed_indexes": 3,
        "min_succeeded": "99%",
    },
    "Jinja in a resource and a machine": {
        "manifest": job({"resources": {"limits": {"cpu": "{{ c }}", "memory": "{{ m }}"}}}),
        "machine": Machine(cpu=2, memory="4Gi"),
    },
    "an unknown restart policy": {
        "manifest": {
            **INDEXED,
            "spec": {
                "template": {
                    "spec": {"restartPolicy": "{{ r }}", "containers": [{"name": "a", "image": "b"}]}
                }
            },
        },
        "retries_per_index": 1,
        "completions": 3,
    },
    "variables that are templated": {
        "manifest": job(
            {"image": "${IMAGE}", "env": [{"name": "N", "value": "x-${N}"}]},
            completions="${N}",
            completionMode="Indexed",
        ),
        "variables": {"IMAGE": "work:{{ tag }}", "N": OUTPUT},
        "min_succeeded": 3,
    },
    "variables of another task": {
        "manifest": yaml.safe_dump(job({"image": "${IMAGE}"}, completions="${N}")),
        "variables": OUTPUT,
    },
    "a machine that only the connection knows": {
        "manifest": job({"resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}}}),
        "machine": "big",
    },
    "nothing is templated, nothing is wrong": {"manifest": INDEXED, "min_succeeded": "90%"},
}


@pytest.mark.parametrize("given", NO_FALSE_ERROR.values(), ids=NO_FALSE_ERROR.keys())
def test_what_is_not_known_yet_gives_no_error(given) -> None:
    assert fields(**given) == []


SURE = {
    "a parameter beside templated ones": (
        {"image": "{{ i }}", "retries_per_index": -1, "completions": "{{ n }}"},
        ["retries_per_index"],
    ),
    "a percentage whatever the completions": (
        {"image": "i", "completions": OUTPUT, "min_succeeded": "101%"},
        ["min_succeeded"],
    ),
    "thresholds beside a manifest that is templated": (
        {"manifest": "{{ m }}", "completions": 10, "max_failed_indexes": 0, "min_succeeded": 5},
        ["max_failed_indexes"],
    ),
    "a fuse against the manifest's completions": (
        {"manifest": INDEXED, "max_failed_indexes": 0, "min_succeeded": 10, "image": "{{ i }}"},
        ["max_failed_indexes"],
    ),
    "what the manifest has wrong beside its templates": (
        {"manifest": job({"image": "{{ i }}", "command": ["sleep", 60]}, backOffLimit=3)},
        ["spec.template.spec.containers[0].command[1]", "spec.backOffLimit"],
    ),
    "a request above its limit beside a template": (
        {
            "manifest": job(
                {
                    "image": "{{ i }}",
                    "resources": {"requests": {"cpu": 2, "memory": "{{ m }}"}, "limits": {"cpu": 1}},
                }
            )
        },
        ["spec.template.spec.containers[0].resources.requests.cpu"],
    ),
    "missing variables beside templated ones": (
        {"manifest": job({"image": "${IMAGE}"}), "variables": {"N": "{{ n }}"}},
        ["spec.template.spec.containers[0].image"],
    ),
    "no image": ({"completions": "{{ n }}"}, ["image"]),
    "a field that is not templated": (
        {"image": "i", "service_account_name": "{{ account }}"},
        ["service_account_name"],
    ),
    "a command that is text": ({"image": "i", "command": "sleep 60"}, ["command"]),
    "what needs indexes, though its number is known later": (
        {"manifest": job(), "retries_per_index": 1, "parallelism": "{{ p }}"},
        ["retries_per_index"],
    ),
    "a manifest that is not YAML": ({"manifest": "a: [b, ${C}]"}, ["manifest"]),
}


@pytest.mark.parametrize(("given", "want"), SURE.values(), ids=SURE.keys())
def test_what_is_surely_wrong_is_said_at_once(given, want) -> None:
    assert fields(**given) == want


TEMPLATED = {
    "Jinja": ("{{ ds }}", True),
    "a block": ("{% raw %}", True),
    "what bash means and Jinja takes for a comment": ("echo ${#a[@]}", True),
    "a variable": ("${NAME}", False),
    "text": ("text", False),
    "deep": ({"a": [{"b": "{{ c }}"}]}, True),
    "in a key": ({"{{ a }}": 1}, True),
    "another task's output": (OUTPUT, True),
    "deep output": ([OUTPUT], True),
    "a number": (5, False),
    "the placeholder itself": (UNKNOWN, True),
}


@pytest.mark.parametrize(("value", "want"), TEMPLATED.values(), ids=TEMPLATED.keys())
def test_what_is_templated(value, want) -> None:
    assert is_templated(value) is want


def test_the_request_is_not_changed() -> None:
    env = {"N": OUTPUT}

    early_problems(JobSpec(image="i", env=env))

    assert env == {"N": OUTPUT}
