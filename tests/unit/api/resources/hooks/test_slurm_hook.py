"""The door of Slurm: what its cli_filter reads."""

from collections.abc import Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

from tests.unit.api.builders import patient_parts, served

FITS = "llama-3.2-1b --task train --sequence-length 1024"
TOO_LARGE = (
    "llama-2-7b --task train --sequence-length 4096 --zero-stage 3 --activation-checkpointing full"
)
A100 = "nvidia_a100-sxm4-80gb"


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes."""
    with served(patient_parts()) as client:
        yield client


def a_job(words: str, **options: str) -> dict[str, Any]:
    """Return a job whose script says its question."""
    return {
        "command": "sbatch",
        "options": {"argv": ["job.sh"], **({"gres": f"gres/gpu:{A100}:1"} | options)},
        "script": f"#!/bin/bash\n#HEADROOM {words}\n",
    }


def review(client: TestClient[Any], job: dict[str, Any], mode: str = "") -> dict[str, Any]:
    """Return what becomes of a job."""
    answer = client.post(f"/v1/hooks/slurm{mode and '/' + mode}", json=job)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def read_lines(client: TestClient[Any], job: dict[str, Any], mode: str) -> list[str]:
    """Return the lines that Lua reads."""
    answer = client.post(f"/v1/hooks/slurm/{mode}", json=job, headers={"accept": "text/plain"})
    assert answer.headers["content-type"].startswith("text/plain")
    return answer.text.split("\n")


def test_what_fits_passes(client: TestClient[Any]) -> None:
    """The GPU is the one that Slurm's type names."""
    answer = review(client, a_job(FITS), "refuse")

    assert (answer["action"], answer["verdict"], answer["gpu"]) == (
        "allow",
        "fits",
        "A100-SXM4-80GB",
    )


def test_what_does_not_fit_is_warned_of(client: TestClient[Any]) -> None:
    """Without a mode nothing is refused."""
    answer = review(client, a_job(TOO_LARGE))

    assert answer["action"] == "warn"
    assert answer["sentence"].endswith("; it needs 2 x A100-SXM4-80GB")
    assert list(answer["options"]) == ["comment"]


def test_what_does_not_fit_is_refused(client: TestClient[Any]) -> None:
    """In lines, for whoever has no JSON."""
    action, line, *rest = read_lines(client, a_job(TOO_LARGE), "refuse")

    assert action == "refuse"
    assert line.startswith("headroom: does not fit: ")
    assert rest == [""]


def test_it_gets_the_gpus_that_it_needs(client: TestClient[Any]) -> None:
    """By the option that it says them with."""
    action, line, option, *_comment = read_lines(client, a_job(TOO_LARGE), "change")

    assert action == "change"
    assert line.endswith("; it gets 2 x A100-SXM4-80GB")
    assert option == f"gres=gpu:{A100}:2"


def test_a_slice_is_answered_as_a_slice(client: TestClient[Any]) -> None:
    """What an A100 holds, its smallest slice does not."""
    job = a_job(FITS, gres=f"gres/gpu:{A100}_1g.10gb:1")

    answer = review(client, job, "refuse")

    assert answer["action"] != "allow", answer


def test_a_job_without_gpus_passes_without_a_word(client: TestClient[Any]) -> None:
    """A cluster has other jobs too."""
    job = {"options": {"mem": "4G", "argv": ["job.sh"]}, "script": "#!/bin/sh\nmake\n"}

    assert read_lines(client, job, "refuse") == ["allow", "", ""]


def test_numbers_that_no_job_has_pass_with_the_reason(client: TestClient[Any]) -> None:
    """Slurm refuses them by itself."""
    answer = review(client, {"options": {"gres": "gres/gpu:999999999"}}, "refuse")

    assert (answer["action"], answer["verdict"]) == ("warn", "unknown")
    assert "999,999,999" in answer["sentence"]


def test_a_mode_that_there_is_not(client: TestClient[Any]) -> None:
    """The answer names those that there are."""
    answer = client.post("/v1/hooks/slurm/forbid", json={"options": {}})

    assert answer.status_code == 404
    assert "warn, refuse, change" in answer.json()["detail"]


def test_a_job_names_its_question_to_its_nodes(client: TestClient[Any]) -> None:
    """Behind what its user wrote, and once: it is no question itself."""
    first = review(client, a_job(FITS, comment="for the paper"))["options"]["comment"]
    again = review(client, a_job(FITS, comment=first))
    asked = review(client, a_job("", comment=f"headroom: {FITS}"))["options"]["comment"]

    head, _, digest = first.rpartition(" headroom-question=")
    assert head == "for the paper"
    assert len(digest) == 32
    assert again["options"]["comment"] == first
    assert asked == f"headroom: {FITS} headroom-question={digest}"


@pytest.mark.parametrize(
    ("batch", "action", "words"),
    [
        (512, "refuse", "headroom: does not fit whatever workload.evaluation.kept_batches is: at "),
        (1, "allow", "headroom cannot say: the launch does not say workload.evaluation.kept_"),
    ],
)
def test_what_only_adds_memory_need_not_be_said_of_what_does_not_fit(
    client: TestClient[Any], batch: int, action: str, words: str
) -> None:
    """The number of GPUs that it needs waits for what it does not say."""
    launch = (
        "torchrun --nproc_per_node gpu train.py --model_name_or_path llama-2-7b --bf16 "
        "--fsdp full_shard --sequence_length 2048 --eval_strategy steps "
        f"--metric_for_best_model accuracy --per_device_train_batch_size {batch}"
    )
    options = {"argv": ["job.sh"], "gres": "gres/gpu:h100-sxm:4"}
    job = {"command": "sbatch", "options": options, "script": f"#!/bin/bash\n{launch}\n"}

    answer = review(client, job, "change" if batch > 1 else "refuse")

    assert answer["action"] == action
    assert answer["sentence"].startswith(words)
    assert "it needs" not in answer["sentence"]
