"""GPUs that containers are given outside of a cluster."""

import json

import pytest

from tests.unit.formats.launches.asking import ask, ask_command, get_layout

_VARIABLES = {"LLAMA_ARG_MODEL": "/models/llama-2-7b-Q8_0.gguf", "LLAMA_ARG_CTX_SIZE": 4096}
_SERVICE = {"image": "ghcr.io/ggml-org/llama.cpp:server-cuda", "environment": _VARIABLES}
_GPU = {"driver": "nvidia", "capabilities": ["gpu"]}
_TRAIN = "train.py --model_name_or_path llama-2-7b --bf16 --sequence_length 512"


@pytest.mark.parametrize(
    ("fields", "number"),
    [
        ({}, None),
        ({"gpus": "all"}, None),
        ({"gpus": "2"}, 2),
        ({"gpus": [{"driver": "nvidia", "count": 3}]}, 3),
        ({"deploy": [{**_GPU, "count": 2}]}, 2),
        ({"deploy": [{**_GPU, "count": "all"}]}, None),
        ({"deploy": [{**_GPU, "device_ids": ["0", "3"]}]}, 2),
        ({"deploy": [{**_GPU, "count": "${GPUS:-4}"}]}, 4),
        ({"deploy": [{**_GPU, "count": "${GPUS}"}]}, None),
        ({"deploy": [{"capabilities": ["tpu"], "count": 2}]}, None),
        ({"environment": {**_VARIABLES, "NVIDIA_VISIBLE_DEVICES": "0,1"}}, 2),
    ],
)
def test_a_compose_service_says_its_gpus(fields: dict[str, object], number: int | None) -> None:
    """By ``gpus``, by reserved devices or the variable of the runtime; its words are variables."""
    devices = fields.get("deploy")
    deploy = {"resources": {"reservations": {"devices": devices}}}
    given = fields if devices is None else {"deploy": deploy}
    text = json.dumps({"services": {"llm": {**_SERVICE, **given}}})

    question = ask(files=[{"name": "compose.yaml", "content": text}])

    assert get_layout(question).get("pipeline_parallel") == number
    assert question.document["model"] == "llama-2-7b"
    assert question.imported.ignored == ()


@pytest.mark.parametrize(
    ("command", "ranks"),
    [
        (f"docker run --gpus 4 trainer:1 accelerate launch {_TRAIN} --fsdp full_shard", 4),
        (f"docker run --gpus 4 trainer:1 torchrun --nproc_per_node gpu {_TRAIN}", 4),
        (f"srun --gres=gpu:8 docker run --gpus device=0 trainer:1 accelerate launch {_TRAIN}", 1),
    ],
)
def test_a_starter_takes_its_containers_gpus(command: str, ranks: int) -> None:
    """Those that the container sees are all that there are, whatever its job has."""
    assert get_layout(ask_command(command)).get("data_parallel", 1) == ranks


def test_another_number_of_gpus_is_warned_of() -> None:
    """A container with two runs an engine on one of them."""
    question = ask_command("docker run --gpus 2 vllm/vllm-openai:v0.20.1 --model llama-2-7b")

    assert "asks for 2 GPUs (--gpus 2), and the launch runs on 1" in " ".join(
        question.imported.warnings
    )
