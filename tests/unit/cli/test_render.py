"""`batchjob render` prints what would be sent, or every problem."""

from __future__ import annotations

import io
import sys

import pytest
import yaml

from airflow_batchjob.cli.main import main

TWO_CONTAINERS = """\
apiVersion: batch/v1
kind: Job
metadata:
  creationTimestamp: null
  name: train
spec:
  backoffLimit: 4
  template:
    spec:
      containers:
        - image: registry.example.com/train:v3.0
          name: train
          resources:
            limits: {cpu: 14000m, nvidia.com/gpu: 1, memory: 51200Mi}
            requests: {cpu: 1166m, nvidia.com/gpu: 1, memory: 2133Mi}
        - image: registry.example.com/helper:v4
          name: train-helper
          resources:
            limits: {cpu: 9333m, nvidia.com/gpu: 1, memory: 4200Mi}
            requests: {cpu: 2333m, nvidia.com/gpu: 1, memory: 10666Mi}
      restartPolicy: Never
status: {}
"""
VARIABLES = """\
apiVersion: batch/v1
kind: Job
metadata: {name: "${JOB_NAME}"}
spec:
  completionMode: Indexed
  completions: ${N}
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: "${IMAGE}", command: [sh, -c, "echo ${HOME}"]}]
"""


@pytest.fixture
def manifest(tmp_path):
    def write(text, name="embed.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


def test_a_machine_is_shared_out(manifest, capsys) -> None:
    code = main(["render", manifest(TWO_CONTAINERS), "--machine", "cpu=20,memory=101Gi,gpus=1"])

    out, err = capsys.readouterr()
    train, helper = yaml.safe_load(out)["spec"]["template"]["spec"]["containers"]
    assert code == 0
    assert train["resources"] == {
        "limits": {"cpu": "12000m", "memory": "95583Mi", "nvidia.com/gpu": "1"},
        "requests": {"cpu": "3000m", "memory": "23895Mi", "nvidia.com/gpu": "1"},
    }
    assert helper["resources"] == {
        "limits": {"cpu": "7999m", "memory": "7840Mi"},
        "requests": {"cpu": "1999m", "memory": "1960Mi"},
    }
    assert all(line.startswith("# ") for line in err.splitlines())
    assert "metadata.creationTimestamp" in err


def test_without_one_the_request_above_its_limit_is_named(manifest, capsys) -> None:
    code = main(["render", manifest(TWO_CONTAINERS)])

    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "containers[1].resources.requests.memory='10666Mi'" in err
    assert "'train-helper'" in err


def test_every_missing_variable_is_listed(manifest, capsys) -> None:
    code = main(["render", manifest(VARIABLES)])

    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert all(f"there is no variable {name}" in err for name in ("JOB_NAME", "N", "IMAGE"))
    assert "HOME" not in err


def test_variables_take_the_type_of_their_place(manifest, capsys) -> None:
    sets = ["--set", "JOB_NAME=1.10", "--set", "N=5", "--set", "IMAGE=work:a=b"]

    code = main(["render", manifest(VARIABLES), *sets])

    sent = yaml.safe_load(capsys.readouterr().out)
    assert code == 0
    assert sent["spec"]["completions"] == 5
    assert sent["metadata"]["name"] == "job-1-10"  # a Job's name starts with a letter
    assert sent["spec"]["template"]["spec"]["containers"][0]["image"] == "work:a=b"


def test_sizes_are_options(manifest, capsys) -> None:
    pod = "{restartPolicy: Never, containers: [{name: a, image: old}]}"
    text = f"apiVersion: batch/v1\nkind: Job\nspec: {{template: {{spec: {pod}}}}}"
    options = (
        "--completions 20 --parallelism 5 --retries-per-index 1 --max-failed-indexes 10% --min-succeeded 90% "
        "--stop-when-succeeded --backoff-limit 99 --deadline-seconds 60 --pending-seconds 9 --image new "
        "--container a --namespace team --name mine"
    )

    code = main(["render", manifest(text), *options.split()])

    sent = yaml.safe_load(capsys.readouterr().out)
    spec = sent["spec"]
    assert code == 0
    assert sent["metadata"] == {"name": "mine", "namespace": "team"}
    assert (spec["completions"], spec["parallelism"], spec["completionMode"]) == (20, 5, "Indexed")
    assert (spec["backoffLimitPerIndex"], spec["maxFailedIndexes"], spec["backoffLimit"]) == (1, 2, 99)
    assert spec["successPolicy"] == {"rules": [{"succeededCount": 18}]}
    assert spec["activeDeadlineSeconds"] == 60
    assert spec["template"]["spec"]["containers"] == [{"name": "a", "image": "new"}]


def test_an_untitled_manifest_is_called_like_its_file(manifest, capsys) -> None:
    text = TWO_CONTAINERS.replace("  name: train\nspec", "spec")

    main(["render", manifest(text), "--machine", "cpu=20,memory=101Gi,gpus=1"])

    assert yaml.safe_load(capsys.readouterr().out)["metadata"]["name"] == "embed"


def test_the_order_is_stable(manifest, capsys) -> None:
    job = yaml.safe_load(VARIABLES)
    turned = dict(reversed(job.items()))
    outs = []
    for text in (yaml.safe_dump(job, sort_keys=False), yaml.safe_dump(turned, sort_keys=False)):
        main(["render", manifest(text), "--set", "JOB_NAME=a", "--set", "N=1", "--set", "IMAGE=i"])
        outs.append(capsys.readouterr().out)

    assert outs[0] == outs[1]


def test_standard_input_is_read(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TWO_CONTAINERS.encode())))

    assert main(["render", "-", "--machine", "cpu=20,memory=101Gi,gpus=1"]) == 0


def test_no_completions_are_said_to_be_nothing(manifest, capsys) -> None:
    code = main(["render", manifest(VARIABLES), "--set", "JOB_NAME=a", "--set", "N=0", "--set", "IMAGE=i"])

    assert code == 0
    assert "nothing would be submitted" in capsys.readouterr().err


def test_jinja_is_said_to_be_airflows(manifest, capsys) -> None:
    text = VARIABLES.replace('"${IMAGE}"', '"work:{{ ds_nodash }}"')

    code = main(["render", manifest(text), "--set", "JOB_NAME=a", "--set", "N=1"])

    assert code == 0
    assert "# Jinja is rendered by Airflow alone" in capsys.readouterr().err


BAD_INPUT = {
    "a file that is not there": ("", ["/nowhere/job.yaml"], "there is no such file"),
    "a folder": ("", ["/"], "it can't be read"),
    "an option without a name": (VARIABLES, ["--set", "JOB_NAME"], "Write --set NAME=VALUE"),
    "not YAML": ("a: [b, ${C}]", [], "not YAML, line 1"),
    "not a Job": ("apiVersion: v1\nkind: Pod", [], "not a Job"),
    "a list": ("- a", [], "it is a list"),
    "an empty file": ("", [], "it is empty"),
    "a machine of no size": (TWO_CONTAINERS, ["--machine", "cpu=x,memory=1Gi"], "machine.cpu"),
    "a machine of an unknown name": (
        TWO_CONTAINERS,
        ["--machine", "big"],
        "there is no machine of that name",
    ),
    "a percentage out of range": (VARIABLES, ["--min-succeeded", "101%"], "above 100%"),
    "an option that needs indexes": (TWO_CONTAINERS, ["--retries-per-index", "1"], "completionMode"),
    "too many at once": (
        VARIABLES,
        ["--set", "JOB_NAME=a", "--set", "N=200000", "--set", "IMAGE=i", "--parallelism", "100001"],
        "at most 100000 pods",
    ),
    "a name that leaves no room": (
        VARIABLES,
        ["--set", "N=1000", "--set", "IMAGE=i", "--set", f"JOB_NAME={'a' * 60}"],
        "index suffix '-999'",
    ),
}


@pytest.mark.parametrize(("text", "options", "want"), BAD_INPUT.values(), ids=BAD_INPUT.keys())
def test_bad_input_is_an_error_in_words(text, options, want, manifest, capsys) -> None:
    own = [] if options[:1] and options[0].startswith("/") else [manifest(text)]

    code = main(["render", *own, *options])

    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert want in err
    assert "Traceback" not in err


def test_bytes_that_are_no_text_are_named(tmp_path, capsys) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(b"\xff\xfe\x00")

    assert main(["render", str(path)]) == 2
    assert "not text in UTF-8" in capsys.readouterr().err


def test_the_name_is_one_that_kubernetes_takes_and_its_digits_are_announced(manifest, capsys) -> None:
    sets = ["--set", "N=2", "--set", "IMAGE=x", "--set", "JOB_NAME=y"]

    code = main(["render", manifest(VARIABLES), *sets, "--name", "Bad_Name!"])

    shown = capsys.readouterr()
    assert code == 0
    assert yaml.safe_load(shown.out)["metadata"]["name"] == "bad-name"
    assert "# when it is sent, ten digits are added to its name, and labels and annotations" in shown.err
