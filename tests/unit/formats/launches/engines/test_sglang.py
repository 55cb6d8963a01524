"""Arguments of SGLang as questions."""

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

SERVE = "python3 -m sglang.launch_server --model-path meta-llama/Llama-2-7b-hf"
STANDALONE = "--speculative-algorithm STANDALONE"
SET = ServeWorkload(
    num_sequences=64,
    prompt_tokens=1536,
    output_tokens=512,
    engine=Engine.SGLANG,
    max_model_len=4096,
)
EXPERTS = Layout(data_parallel=2, tensor_parallel=4, expert_parallel=8, expert_tensor_parallel=1)
RENDERED: list[tuple[str, dict[str, Any], Layout]] = [
    ("llama-2-7b", {}, Layout()),
    ("llama-2-7b", {"enforce_eager": True, "kv_cache_dtype": DType.FP8}, Layout(tensor_parallel=2)),
    ("llama-2-7b", {"max_num_batched_tokens": 2048}, Layout(tensor_parallel=2)),
    ("llama-2-7b", {"gpu_memory_fraction": 0.8, "cpu_offload_gb": 3.0}, Layout()),
    ("llama-2-7b", {"quantization": Quantization.GPTQ_INT4}, Layout(pipeline_parallel=2)),
    ("llama-2-7b", {"kv_pool_tokens": 100_000}, Layout()),
    ("mixtral-8x7b", {}, EXPERTS),
    ("mixtral-8x7b", {}, Layout(tensor_parallel=4, expert_parallel=4, expert_tensor_parallel=1)),
]
READ = [
    ("--max-total-tokens 100000", "workload", "kv_pool_tokens", 100_000),
    ("--tp 2", "layout", "tensor_parallel", 2),
    ("--tensor-parallel-size 4", "layout", "tensor_parallel", 4),
    ("--pp-size 2", "layout", "pipeline_parallel", 2),
    ("--dp 2", "layout", "data_parallel", 2),
    ("--tp 8 --attn-dp-size 2 --ep 8", "layout", "tensor_parallel", 4),
    ("--tp 8 --attn-dp-size 2 --ep 8", "layout", "data_parallel", 2),
    ("--tp 8 --dp 4 --enable-dp-attention --ep-size 8", "layout", "tensor_parallel", 2),
    ("--tp 8 --moe-a2a-backend deepep", "layout", "expert_parallel", 8),
    ("--tp 16 --nnodes 2 --node-rank 0", "layout", "gpus_per_node", 8),
    ("--dtype float16", "workload", "weight_dtype", "fp16"),
    ("--quantization awq_marlin", "workload", "quantization", "awq_int4"),
    ("--kv-cache-dtype fp8_e5m2", "workload", "kv_cache_dtype", "fp8"),
    ("--mamba-ssm-dtype bfloat16", "workload", "state_dtype", "bf16"),
    ("--context-length 8192", "workload", "max_model_len", 8192),
    ("--chunked-prefill-size 4096", "workload", "max_num_batched_tokens", 4096),
    ("--mem-fraction-static 0.85", "workload", "gpu_memory_fraction", 0.85),
    ("--disable-cuda-graph", "workload", "enforce_eager", True),
    ("--cpu-offload-gb 4", "workload", "cpu_offload_gb", 4.0),
    (
        "--speculative-algorithm NGRAM --speculative-num-draft-tokens 5",
        "workload",
        "speculative",
        {"num_tokens": 4},
    ),
    (
        f"{STANDALONE} --speculative-draft-model a/b --speculative-num-steps 3",
        "workload",
        "speculative",
        {"num_tokens": 3, "draft": "a/b"},
    ),
    (
        "--speculative-algorithm EAGLE --speculative-num-draft-tokens 3",
        "workload",
        "speculative",
        {"num_tokens": 2, "head": "mtp"},
    ),
    (
        "--speculative-algorithm NEXTN --speculative-draft-model-path a/b-NextN",
        "workload",
        "speculative",
        {"num_tokens": 3, "head": "mtp"},
    ),
    (
        "--speculative-algorithm EAGLE3 --speculative-draft-model-path a/b",
        "workload",
        "speculative",
        {"num_tokens": 3, "head": "eagle3"},
    ),
    (
        "--speculative-algorithm EAGLE --speculative-draft-model-path a/b",
        "workload",
        "speculative",
        {"num_tokens": 3, "head": "eagle"},
    ),
]
IGNORED = (
    *("--page-size 64", "--chunked-prefill-size -1"),
    *("--attn-dp-size 1 --dcp-size 2", "--enable-lora", "--lora-paths a=b c=d"),
    *("--kv-cache-dtype nvfp4", "--quantization w8a8_int8", "--some-flag-of-tomorrow 3"),
    *("--enable-hierarchical-cache --hicache-ratio 2", "--disaggregation-mode prefill"),
    "--speculative-algorithm DFLASH --speculative-draft-model-path a/b --speculative-num-steps 3",
)
IDLE = (
    *("--port 30000", "--host 0.0.0.0", "--trust-remote-code", "--served-model-name x"),
    *("--schedule-policy lpm", "--log-level warning", "--tool-call-parser qwen25"),
    *("--max-lora-rank 64", "--cpu-offload-gb 0", "--enable-metrics", "--random-seed 1"),
)
BAD = [
    ("--tp two", "expected a whole number"),
    ("--mem-fraction-static 85", "above 0 and up to 1"),
    ("--dtype int8", "expected one of"),
    ("--tp 8 --attn-dp-size 3", "divides the 8 tensor ranks"),
    ("--tp 8 --nnodes 3", "divides 8 GPUs"),
    ("--config serve.yaml", "was not handed in"),
]


@pytest.mark.parametrize(("model", "fields", "layout"), RENDERED)
def test_what_is_rendered_is_read_back(model: str, fields: dict[str, Any], layout: Layout) -> None:
    """A rendered command asks what was evaluated."""
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

    assert question.imported.ignored
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


def test_the_same_in_a_file_and_a_call() -> None:
    """A config file, the newer program and the arguments of Engine() say what flags say."""
    flags = ask_command(f"{SERVE} --tp 2 --mem-fraction-static 0.8", workload=LOAD)
    content = "model-path: meta-llama/Llama-2-7b-hf\ntensor-parallel-size: 2\n"
    file = {"name": "serve.yaml", "content": f"{content}mem-fraction-static: 0.8\n"}

    configured = ask_command("sglang serve --config serve.yaml", files=[file], workload=LOAD)
    called = ask(
        arguments={
            "model_path": "meta-llama/Llama-2-7b-hf",
            "tp_size": 2,
            "mem_fraction_static": 0.8,
        },
        workload=LOAD,
    )

    assert flags.document == configured.document == called.document


def test_groups_of_attention_without_spread_experts_are_named() -> None:
    """The layout has no word for them: all tensor ranks are evaluated, and it is said."""
    question = ask_command(f"{SERVE} --tp 8 --attn-dp-size 2")

    assert get_layout(question) == {"tensor_parallel": 8}
    assert question.imported.ignored == ("--attn-dp-size",)


def test_groups_of_attention_over_cut_experts_hold_all_of_their_attention() -> None:
    """DeepSeek's usual launch was counted with a sixteenth of each attention matrix a rank."""
    command = "python -m sglang.launch_server --model-path deepseek-v3 --tp 16 --nnodes 2"
    plain = ask_command(command)
    grouped = ask_command(f"{command} --enable-dp-attention --dp 16")

    assert get_layout(plain) == {"tensor_parallel": 16, "gpus_per_node": 8}
    assert get_layout(grouped) == {
        "tensor_parallel": 1,
        "data_parallel": 16,
        "expert_parallel": 16,
        "gpus_per_node": 8,
    }
    assert grouped.imported.ignored == ()
    assert any("counted as spread" in warning for warning in grouped.imported.warnings)
