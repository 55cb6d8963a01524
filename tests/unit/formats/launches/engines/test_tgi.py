"""Arguments and variables of Text Generation Inference's launcher as questions."""

from dataclasses import replace
from typing import Any

import pytest

from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Engine, Quantization, ServeWorkload
from service.formats.launches.values.errors import LaunchFormatError
from tests.unit.formats.launches.asking import (
    GPU,
    ask_command,
    get_layout,
    get_workload,
    read_back,
)
from tests.unit.formats.renderings.builders import a_job

LAUNCHER = "text-generation-launcher --model-id llama-2-7b"
IMAGE = "docker run {} ghcr.io/huggingface/text-generation-inference:3.3.5 --model-id llama-2-7b"
SET = ServeWorkload(
    num_sequences=4,
    prompt_tokens=1536,
    output_tokens=512,
    engine=Engine.TGI,
    weight_dtype=DType.FP16,
    kv_cache_dtype=DType.FP16,
    max_num_batched_tokens=4096,
)
READ = [
    ("--num-shard 2", "layout", "tensor_parallel", 2),
    ("--quantize bitsandbytes-fp4", "workload", "quantization", "nf4"),
    ("--quantize marlin", "workload", "quantization", "gptq_int4"),
    ("--kv-cache-dtype fp8_e5m2", "workload", "kv_cache_dtype", "fp8"),
    ("--dtype bfloat16", "workload", "weight_dtype", "bf16"),
    ("--max-total-tokens 8192 --max-input-length 4096", "workload", "max_model_len", 8192),
    ("--max-batch-prefill-tokens 2048", "workload", "max_num_batched_tokens", 2048),
    ("--cuda-memory-fraction 0.5", "workload", "gpu_memory_fraction", 0.5),
]
IGNORED = ("--speculate 2", "--lora-adapters a/b", "--cuda-graphs 0,1", "--rope-factor 2.0")
IDLE = (
    *("--port 8080", "--max-concurrent-requests 512", "--trust-remote-code", "-p 80"),
    *("--max-batch-total-tokens 50000", "--json-output", "--otlp-endpoint http://x"),
)
SHARDS = [
    (LAUNCHER, None),
    (f"CUDA_VISIBLE_DEVICES=0,1 {LAUNCHER}", 2),
    (f"CUDA_VISIBLE_DEVICES=0,1 {LAUNCHER} --sharded false", 1),
    (f"NVIDIA_VISIBLE_DEVICES=2,3 {LAUNCHER} --sharded true", 2),
    (IMAGE.format("--gpus 4"), 4),
    (IMAGE.format("--gpus '\"device=0,2\"' --shm-size 1g"), 2),
    (IMAGE.format("--gpus device=1"), 1),
    (IMAGE.format("-e CUDA_VISIBLE_DEVICES=0 --gpus 4"), 1),
    (IMAGE.format("--runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=0,1"), 2),
    (IMAGE.format("--device nvidia.com/gpu=0 --device nvidia.com/gpu=1"), 2),
    (IMAGE.format("--gpus 4 -e NUM_SHARD=2"), 2),
]
BAD = [
    ("--num-shard 0", "from 1 on"),
    ("--quantize exl2", "expected one of bitsandbytes"),
    ("--kv-cache-dtype int8", "expected one of fp8_e4m3fn"),
    ("--dtype float32", "expected one of float16"),
]


@pytest.mark.parametrize("fields", [{}, {"quantization": Quantization.NF4, "max_model_len": 4096}])
def test_what_is_rendered_is_read_back(fields: dict[str, Any]) -> None:
    """A rendered command asks what was evaluated."""
    workload, layout = replace(SET, **fields), Layout(tensor_parallel=2)

    question = read_back(a_job(workload, layout, model="llama-2-7b", gpu=GPU))

    assert (question.workload, question.layout) == (workload, layout)


@pytest.mark.parametrize(("flags", "part", "field", "value"), READ)
def test_an_option_or_its_variable_is_a_field(
    flags: str, part: str, field: str, value: object
) -> None:
    """Each has a variable of its name, over which the option wins."""
    words = flags.replace("--", "").split()
    pairs = zip(words[::2], words[1::2], strict=True)
    variables = " ".join(f"{name.upper().replace('-', '_')}={word}" for name, word in pairs)

    for command in (f"{LAUNCHER} {flags}", f"{variables} {LAUNCHER}"):
        question = ask_command(command)
        fields = get_layout(question) if part == "layout" else get_workload(question)
        assert fields[field] == value
        assert question.imported.ignored == ()


@pytest.mark.parametrize(("command", "ranks"), SHARDS)
def test_ranks_are_the_gpus_that_it_sees(command: str, ranks: int | None) -> None:
    """Where no number of shards is said, the launcher counts the devices that are visible."""
    question = ask_command(command)

    assert get_layout(question).get("tensor_parallel") == ranks
    assert "layout.tensor_parallel" not in {one.field for one in question.questions}


def test_all_gpus_of_a_machine_are_asked_for() -> None:
    """An image that is given all of them says no number; one is taken meanwhile."""
    question = ask_command(IMAGE.format("--gpus all"))

    opened = {one.field: one.is_assumed for one in question.questions}
    assert opened["layout.tensor_parallel"] is True


@pytest.mark.parametrize(
    ("model", "flags", "dtype"),
    [
        ("llama-2-7b", "", "fp16"),
        ("google/gemma-2-2b", "", "bf16"),
        ("google/gemma-2-2b", "--quantize awq", "fp16"),
        ("nobody/knows", "", None),
    ],
)
def test_a_family_has_the_launchers_format(model: str, flags: str, dtype: str | None) -> None:
    """That of the checkpoint's config decides nothing."""
    question = ask_command(f"text-generation-launcher --model-id {model} {flags}")

    assert get_workload(question).get("weight_dtype") == dtype


@pytest.mark.parametrize("flags", IGNORED)
def test_what_has_no_word_is_named(flags: str) -> None:
    """What may count and has no field is ignored by its name."""
    assert ask_command(f"{LAUNCHER} {flags}").imported.ignored


@pytest.mark.parametrize("flags", IDLE)
def test_what_decides_nothing_is_named(flags: str) -> None:
    """The router's settings, and those that flash attention overrides, have no effect."""
    imported = ask_command(f"{LAUNCHER} {flags}").imported

    assert imported.without_effect == (flags.partition(" ")[0],)
    assert imported.ignored == ()


@pytest.mark.parametrize(("flags", "reason"), BAD)
def test_odd_values_are_refused(flags: str, reason: str) -> None:
    """With what would be right."""
    with pytest.raises(LaunchFormatError, match=reason):
        ask_command(f"{LAUNCHER} {flags}")
