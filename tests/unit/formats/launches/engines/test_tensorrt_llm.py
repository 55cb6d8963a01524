"""Arguments of TensorRT-LLM as questions."""

from dataclasses import replace
from typing import Any

import pytest

from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Engine, Quantization, ServeWorkload
from service.formats.launches.values.errors import LaunchFormatError
from tests.unit.formats.launches.asking import (
    GPU,
    LOAD,
    ask,
    ask_command,
    get_layout,
    get_workload,
    read_back,
)
from tests.unit.formats.renderings.builders import a_job

SERVE = "trtllm-serve meta-llama/Llama-2-7b-hf"
SET = ServeWorkload(
    num_sequences=64,
    prompt_tokens=1536,
    output_tokens=512,
    engine=Engine.TENSORRT_LLM,
    max_model_len=4096,
    max_num_sequences=256,
    max_num_batched_tokens=8192,
    gpu_memory_fraction=0.9,
)
SPREAD = Layout(data_parallel=4, expert_parallel=4)
RENDERED: list[tuple[str, dict[str, Any], Layout]] = [
    ("llama-2-7b", {}, Layout()),
    ("llama-2-7b", {"kv_cache_dtype": DType.FP8}, Layout(tensor_parallel=2)),
    ("llama-2-7b", {"max_num_batched_tokens": 2048}, Layout(pipeline_parallel=2)),
    ("llama-2-7b", {"quantization": Quantization.FP8}, Layout()),
    ("llama-2-7b", {"quantization": Quantization.AWQ_INT4}, Layout(tensor_parallel=2)),
    ("llama-2-7b", {"weight_dtype": DType.FP16, "kv_cache_dtype": DType.FP16}, Layout()),
    ("llama-2-7b", {"kv_pool_tokens": 100_000}, Layout()),
    ("mixtral-8x7b", {}, SPREAD),
    ("mixtral-8x7b", {}, Layout(tensor_parallel=4, expert_parallel=4, expert_tensor_parallel=1)),
]
READ = [
    ("--tp_size 2", "layout", "tensor_parallel", 2),
    ("--tensor_parallel_size 4", "layout", "tensor_parallel", 4),
    ("--pp_size 2", "layout", "pipeline_parallel", 2),
    ("--tp_size 8 --ep_size 8", "layout", "expert_parallel", 8),
    ("--tp_size 8 --gpus_per_node 4", "layout", "gpus_per_node", 4),
    ("--max_batch_size 64", "workload", "max_num_sequences", 64),
    ("--max_num_tokens 16384", "workload", "max_num_batched_tokens", 16_384),
    ("--max_seq_len 8192", "workload", "max_model_len", 8192),
    ("--kv_cache_free_gpu_memory_fraction 0.8", "workload", "gpu_memory_fraction", 0.8),
    ("--free_gpu_memory_fraction 0.7", "workload", "gpu_memory_fraction", 0.7),
    ("--max_beam_width 2", "workload", "num_beams", 2),
]
IGNORED = (
    *("--cp_size 2", "--cluster_size 2", "--enable_chunked_prefill", "--backend tensorrt"),
    *("--server_role context", "--some_flag_of_tomorrow 3"),
)
IDLE = (
    *("--port 8000", "--host 0.0.0.0", "--trust_remote_code", "--log_level info"),
    *("--tool_parser qwen3", "--backend pytorch", "--num_postprocess_workers 4"),
)
BAD = [
    ("--tp_size two", "expected a whole number"),
    ("--kv_cache_free_gpu_memory_fraction 90", "above 0 and up to 1"),
    ("--max_batch_size 0", "from 1 on"),
    ("--extra_llm_api_options llm.yaml", "was not handed in"),
]
OPTIONS = """
enable_attention_dp: true
moe_expert_parallel_size: 8
max_batch_size: 128
kv_cache_config:
  dtype: fp8
  enable_block_reuse: false
  free_gpu_memory_fraction: 0.75
  host_cache_size: 1000000
cuda_graph_config:
  enable_padding: true
print_iter_log: true
"""


@pytest.mark.parametrize(("model", "fields", "layout"), RENDERED)
def test_what_is_rendered_is_read_back(model: str, fields: dict[str, Any], layout: Layout) -> None:
    """A rendered command and its YAML ask what was evaluated."""
    workload = replace(SET, **fields)

    question = read_back(a_job(workload, layout, model=model, gpu=GPU))

    assert (question.workload, question.layout) == (workload, layout)


@pytest.mark.parametrize(("flags", "part", "field", "value"), READ)
def test_a_flag_is_a_field(flags: str, part: str, field: str, value: object) -> None:
    """Each argument that counts becomes the field that means it."""
    question = ask_command(f"{SERVE} {flags}")

    fields = get_layout(question) if part == "layout" else get_workload(question)
    assert fields[field] == value
    assert question.imported.ignored == ()


@pytest.mark.parametrize("flags", IGNORED)
def test_what_has_no_word_is_named(flags: str) -> None:
    """What may count and has no field is ignored by its name, and no field is made of it."""
    question = ask_command(f"{SERVE} {flags}")

    assert question.imported.ignored == (flags.partition(" ")[0],)
    assert get_workload(question) == get_workload(ask_command(SERVE))


@pytest.mark.parametrize("flags", IDLE)
def test_what_decides_nothing_is_named(flags: str) -> None:
    """Servers' own settings have no effect on memory or time."""
    imported = ask_command(f"{SERVE} {flags}").imported

    assert imported.without_effect == (flags.partition(" ")[0],)
    assert imported.ignored == ()


@pytest.mark.parametrize(("flags", "expected"), BAD)
def test_a_bad_value_is_refused(flags: str, expected: str) -> None:
    """The refusal says where, and what would be right."""
    with pytest.raises(LaunchFormatError) as caught:
        ask_command(f"{SERVE} {flags}")

    assert expected in caught.value.message
    assert caught.value.field == "command"


def test_the_options_file_wins() -> None:
    """Its YAML overwrites what the command says, and attention by data is its word."""
    file = {"name": "llm.yaml", "content": OPTIONS}
    command = f"trtllm-llmapi-launch {SERVE} --tp_size 8 --max_batch_size 64 --config a/llm.yaml"
    question = ask_command(command, files=[file])

    assert get_layout(question) == {
        "expert_parallel": 8,
        "data_parallel": 8,
        "tensor_parallel": 1,
    }
    workload = get_workload(question)
    assert (workload["max_num_sequences"], workload["gpu_memory_fraction"]) == (128, 0.75)
    assert workload["kv_cache_dtype"] == "fp8"
    assert question.imported.warnings[0] == (
        "llm.yaml:4: max_batch_size 128 wins over --max_batch_size 64 of the command; leave one out"
    )
    assert question.imported.ignored == (
        "kv_cache_config.host_cache_size",
        "cuda_graph_config.enable_padding",
    )
    assert set(question.imported.without_effect) == {
        "kv_cache_config.enable_block_reuse",
        "print_iter_log",
    }


def test_the_same_as_arguments() -> None:
    """The keyword arguments of LLM() say what flags say."""
    flags = ask_command(f"{SERVE} --tp_size 2 --max_seq_len 4096", workload=LOAD)
    called = ask(
        launcher="tensorrt_llm",
        arguments={
            "model": "meta-llama/Llama-2-7b-hf",
            "tensor_parallel_size": 2,
            "max_seq_len": 4096,
        },
        workload=LOAD,
    )

    assert flags.document == called.document


def test_attention_by_data_without_spread_experts_is_named() -> None:
    """The layout has no word for it: it is evaluated over all ranks, and that is said."""
    file = {"name": "llm.yaml", "content": "enable_attention_dp: true\n"}
    question = ask_command(f"{SERVE} --tp_size 4 --config llm.yaml", files=[file])

    assert get_layout(question) == {"tensor_parallel": 4}
    assert question.imported.ignored == ("enable_attention_dp",)
