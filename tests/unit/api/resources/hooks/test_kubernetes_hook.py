"""The admission webhook: what is let in, refused and changed, and what its user reads."""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from litestar.testing import TestClient

from tests.unit.api.builders import parts, patient_parts, served
from tests.unit.api.resources.hooks.reviews import FITS, TOO_LARGE, a_job, review


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes."""
    with served(patient_parts()) as client:
        yield client


def test_what_fits_is_let_in_without_a_word(client: TestClient[Any]) -> None:
    """The audit log of the cluster keeps what was found."""
    response = review(client, a_job(FITS), "refuse")

    assert response["allowed"]
    assert "warnings" not in response
    assert "of 79." in response["auditAnnotations"]["decision"]


def test_a_gpu_that_is_shared_is_warned_of_where_it_fits(client: TestClient[Any]) -> None:
    """Others take of its memory."""
    job = a_job(FITS)
    pod = job["spec"]["template"]["spec"]
    pod["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-SHARED"}

    response = review(client, job)

    [line] = response["warnings"]
    assert line.startswith("NVIDIA-A100-SXM4-80GB-SHARED is a GPU that several pods share")


def test_what_does_not_fit_is_let_in_with_a_warning(client: TestClient[Any]) -> None:
    """Verdict, bytes, and the fewest GPUs that hold it."""
    response = review(client, a_job(TOO_LARGE))

    assert response["allowed"]
    [line] = response["warnings"]
    assert line.startswith("headroom: does not fit: ")
    assert line.endswith("; it needs 2 x A100-SXM4-80GB")
    assert "\n" not in line


def test_what_does_not_fit_is_refused(client: TestClient[Any]) -> None:
    """Where the operator says so, with the same line."""
    response = review(client, a_job(TOO_LARGE), "refuse")

    assert not response["allowed"]
    assert response["status"]["code"] == 403
    assert response["status"]["message"].startswith("headroom: does not fit: ")


def test_it_gets_the_gpus_that_it_needs(client: TestClient[Any]) -> None:
    """By a patch of the one number, and its user reads it."""
    response = review(client, a_job(TOO_LARGE), "change")

    assert response["allowed"]
    assert response["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(response["patch"])) == [
        {
            "op": "replace",
            "path": "/spec/template/spec/containers/0/resources/limits/nvidia.com~1gpu",
            "value": "2",
        }
    ]
    assert response["warnings"][0].endswith("it gets 2 x A100-SXM4-80GB")


def test_other_settings_are_named_and_never_made(client: TestClient[Any]) -> None:
    """More GPUs alone would not hold it: its user has to split it, which no hook can do."""
    plain = "llama-2-7b --gpu A100-SXM4-80GB --task train --sequence-length 4096"

    response = review(client, a_job(plain), "change")

    assert not response["allowed"]
    assert response["status"]["message"].endswith(
        "it needs 2 x A100-SXM4-80GB with tensor_parallel 2"
    )


def test_a_launch_that_is_read_keeps_its_processes(client: TestClient[Any]) -> None:
    """Its command names one GPU, however many the job gets: it is refused, and not changed."""
    command = ["vllm", "serve", "llama-3.3-70b"]
    job = a_job(command=command)
    job["spec"]["template"]["spec"]["nodeSelector"] = {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"
    }

    response = review(client, job, "change")

    assert not response["allowed"]
    assert "does not fit" in response["status"]["message"]


def test_a_server_needs_the_gpus_that_it_names(client: TestClient[Any]) -> None:
    """A job that asks for two of the four of its server is told four, not a multiple."""
    job = a_job(gpus=2, command=["vllm", "serve", "llama-3.1-8b", "--tensor-parallel-size", "4"])
    job["spec"]["template"]["spec"]["nodeSelector"] = {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"
    }

    response = review(client, job, "change")

    assert json.loads(base64.b64decode(response["patch"]))[0]["value"] == "4"


def test_a_training_runs_on_every_gpu_of_its_job(client: TestClient[Any]) -> None:
    """What its launch leaves open is that it runs on all of them."""
    words = ["accelerate", "launch", "train.py", "--per_device_train_batch_size", "1"]
    script = [*words, "--bf16", "true", "--model_name_or_path", "llama-3.2-1b"]
    job = a_job(gpus=4, command=[*script, "--max_length", "512"])
    job["spec"]["template"]["spec"]["nodeSelector"] = {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"
    }

    response = review(client, job, "refuse")

    assert response["allowed"]


def test_what_is_no_pod_is_refused_where_nothing_unknown_passes() -> None:
    """An object that cannot be read is unknown like any other."""
    made = parts()
    closed = replace(made, settings=replace(made.settings, hook_fail="closed"))

    with served(closed) as client:
        response = review(client, {"kind": "Pod", "metadata": {}, "spec": {}})

    assert not response["allowed"]
    assert "no containers" in response["status"]["message"]


def test_adapters_are_spelt_as_on_the_command_line(client: TestClient[Any]) -> None:
    """Words of a nested part are those of ``headroom fit``."""
    note = f"{FITS} --method lora --lora-rank 8"

    response = review(client, a_job(note), "refuse")

    assert response["allowed"]
    assert "headroom: fits" in response["auditAnnotations"]["decision"]


def test_what_cannot_be_changed_is_refused(client: TestClient[Any]) -> None:
    """A Job over several nodes would need other pods, not another number."""
    question = TOO_LARGE.replace("llama-2-7b", "llama-2-13b")

    response = review(client, a_job(question, nodes=2), "change")

    assert not response["allowed"]
    assert "patch" not in response


def test_a_launch_is_read_where_nothing_is_said(client: TestClient[Any]) -> None:
    """The command of the container says model and layout; the job asks for too few GPUs."""
    job = a_job(command=["vllm", "serve", "llama-3.1-8b", "--tensor-parallel-size", "4"])
    job["spec"]["template"]["spec"]["nodeSelector"] = {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"
    }

    response = review(client, job, "refuse")

    assert response["status"]["message"] == (
        "headroom: the launch runs on 4 GPUs, and the job asks for 1; it needs 4 x H100-SXM5-80GB"
    )


def test_a_job_without_gpus_passes_without_a_word(client: TestClient[Any]) -> None:
    """Most of a cluster's objects have nothing to do with GPUs."""
    response = review(client, a_job(gpus=0), "refuse")

    assert response == {"uid": "u1", "allowed": True}


@pytest.mark.parametrize(
    ("note", "why"),
    [
        ("no-such-model --gpu T4 --task train --sequence-length 1", "no-such-model"),
        ("--task train", "begins with the model"),
        ("gpt2 --gpu T4 --task train --sequence-lenght 5", "sequence_length"),
        ("{", "no JSON"),
        ('{"modle": "gpt2"}', "modle"),
        ("gpt2 'open", "cannot be split"),
        ("gpt2 --gpu NOPE --task train --sequence-length 5", "NOPE"),
    ],
)
def test_what_cannot_be_answered_passes_with_its_reason(
    client: TestClient[Any], note: str | None, why: str
) -> None:
    """A planner must not hold up a cluster."""
    response = review(client, a_job(note, command=["python", "train.py"]), "refuse")

    assert response["allowed"]
    assert response["warnings"][0].startswith("headroom cannot say: ")
    assert why in response["warnings"][0]


def test_what_never_asked_passes_without_a_word(client: TestClient[Any]) -> None:
    """A notebook is no launch: its user reads nothing, the cluster's audit log why."""
    response = review(client, a_job(command=["jupyter", "lab"]), "refuse")

    assert response["allowed"]
    assert "warnings" not in response
    assert "cannot be read" in response["auditAnnotations"]["decision"]


def test_an_operator_may_let_nothing_pass_unknown() -> None:
    """HEADROOM_HOOK_FAIL=closed refuses what cannot be answered."""
    closed = patient_parts(hook_fail="closed")

    with served(closed) as client:
        response = review(client, a_job("no-such-model --gpu T4"))

    assert not response["allowed"]
    assert response["status"]["message"].startswith("headroom cannot say: ")


def test_an_answer_has_a_deadline() -> None:
    """A question that takes longer passes, and its thread ends with its budget."""
    made = parts()
    hurried = replace(made, settings=replace(made.settings, hook_deadline_s=1e-9))

    with served(hurried) as client:
        response = review(client, a_job(TOO_LARGE), "refuse")

    assert response["allowed"]
    assert "no answer within 1e-09 s" in response["warnings"][0]


def test_decisions_are_counted(client: TestClient[Any]) -> None:
    """By door, verdict and action."""
    review(client, a_job(TOO_LARGE), "refuse")

    text = client.get("/metrics").text
    assert 'headroom_hook_decisions_total{action="refuse",door="kubernetes",' in text
    assert 'headroom_hook_seconds_count{door="kubernetes"}' in text


def test_there_is_no_other_mode(client: TestClient[Any]) -> None:
    """A mistyped path must not warn in silence for a year."""
    answer = client.post("/v1/hooks/kubernetes/refuze", json={})

    assert answer.status_code == 404
    assert "warn, refuse, change" in answer.json()["detail"]


def test_deletions_pass(client: TestClient[Any]) -> None:
    """Kubernetes shows no object then."""
    body = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "u2", "operation": "DELETE", "object": None},
    }

    answer = client.post("/v1/hooks/kubernetes/refuse", json=body)

    assert answer.json()["response"] == {"uid": "u2", "allowed": True}
