"""Arguments of vLLM as questions."""

from typing import Any

import pytest

from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout
from service.estimator.values.speculative import DraftHead, Speculative
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

SERVE = "vllm serve meta-llama/Llama-2-7b-hf"
SET = ServeWorkload(
    num_sequences=64,
    prompt_tokens=1536,
    output_tokens=512,
    engine=Engine.VLLM,
    max_model_len=4096,
    max_num_sequences=128,
    max_num_batched_tokens=8192,
    gpu_memory_fraction=0.9,
)
EXPERTS = Layout(data_parallel=2, tensor_parallel=4, expert_parallel=8, expert_tensor_parallel=1)
RENDERED: list[tuple[str, dict[str, Any], Layout]] = [
    ("llama-2-7b", {}, Layout()),
    ("llama-2-7b", {"enforce_eager": True, "kv_cache_dtype": DType.FP8}, Layout(tensor_parallel=2)),
    ("llama-2-7b", {"quantization": Quantization.AWQ_INT4}, Layout(pipeline_parallel=2)),
    ("llama-2-7b", {"quantization": Quantization.FP8, "cpu_offload_gb": 2.5}, Layout()),
    (
        "llama-2-7b",
        {"weight_dtype": DType.FP16, "kv_cache_dtype": DType.FP16},
        Layout(tensor_parallel=4),
    ),
    ("llama-2-7b", {"speculative": Speculative(num_tokens=3)}, Layout()),
    ("llama-2-7b", {"kv_pool_bytes": 20 * 2**30}, Layout()),
    ("llama-2-7b", {"kv_pool_blocks": 2000}, Layout()),
    (
        "deepseek-v3",
        {"speculative": Speculative(num_tokens=1, head=DraftHead.MTP)},
        Layout(tensor_parallel=8),
    ),
    ("llama-2-7b", {"max_loras": 4, "max_lora_rank": 32}, Layout()),
    ("llama-2-7b", {"max_loras": 1}, Layout()),
    ("qwen3.5-4b", {"state_dtype": DType.BF16}, Layout()),
    ("gemma-3-4b", {"max_images_per_prompt": 2, "max_videos_per_prompt": 0}, Layout()),
    ("mixtral-8x7b", {}, EXPERTS),
]
READ = [
    ("-tp 2", "layout", "tensor_parallel", 2),
    ("--tensor-parallel 2", "layout", "tensor_parallel", 2),
    ("--gpu-memory=0.8", "workload", "gpu_memory_fraction", 0.8),
    ("--pipeline-parallel-size=4", "layout", "pipeline_parallel", 4),
    ("--data-parallel-size 2", "layout", "data_parallel", 2),
    ("-tp 4 -dp 2 --enable-expert-parallel", "layout", "expert_parallel", 8),
    ("-tp 8 -pp 2 --nnodes 2", "layout", "gpus_per_node", 8),
    ("-tp 2 -dp 4 --nnodes 2 -dpl 2", "layout", "gpus_per_node", 4),
    ("-tp 16 --nnodes 2 -dpl 1", "layout", "gpus_per_node", 8),
    ("--dtype half", "workload", "weight_dtype", "fp16"),
    ("--quantization gptq_marlin", "workload", "quantization", "gptq_int4"),
    ("-q bitsandbytes", "workload", "quantization", "nf4"),
    ("--kv-cache-dtype fp8_e5m2", "workload", "kv_cache_dtype", "fp8"),
    ("--mamba_ssm_cache_dtype float32", "workload", "state_dtype", "fp32"),
    ("--mamba-ssm-cache-dtype float16", "workload", "state_dtype", "fp16"),
    ("--max-model-len 32k", "workload", "max_model_len", 32_000),
    ("--max-model-len 32K", "workload", "max_model_len", 32_768),
    ("--max-model-len 25.6k", "workload", "max_model_len", 25_600),
    ("--max-num-seqs 48", "workload", "max_num_sequences", 48),
    ("--max_num_batched_tokens 16384", "workload", "max_num_batched_tokens", 16_384),
    ("--gpu-memory-utilization 0.85", "workload", "gpu_memory_fraction", 0.85),
    ("--device-memory-utilization 0.8", "workload", "gpu_memory_fraction", 0.8),
    ("-dp 2 -dph -tp 4", "layout", "tensor_parallel", 4),
    ("-n 2 -r 0 -tp 4", "layout", "gpus_per_node", 2),
    ("-ep -dp 4 -dpl 2", "layout", "gpus_per_node", 2),
    ("--enforce-eager", "workload", "enforce_eager", True),
    ("--cpu-offload-gb 4", "workload", "cpu_offload_gb", 4.0),
    ("--enable-lora", "workload", "max_loras", 1),
    ("--enable-lora --max-loras 4 --max-lora-rank 64", "workload", "max_loras", 4),
    ("--limit-mm-per-prompt '{\"image\": 4}'", "workload", "max_images_per_prompt", 4),
    ("--limit-mm-per-prompt image=4,video=0", "workload", "max_videos_per_prompt", 0),
    ("--limit-mm-per-prompt.video 0", "workload", "max_videos_per_prompt", 0),
    ("--limit-mm-per-prompt.video.count 1", "workload", "max_videos_per_prompt", 1),
    ("--enable-lora --max-loras 4 --max-lora-rank 64", "workload", "max_lora_rank", 64),
    ("--spec-method ngram --spec-tokens 4", "workload", "speculative", {"num_tokens": 4}),
    (
        """--speculative-config '{"model": "a/b", "num_speculative_tokens": 5}'""",
        "workload",
        "speculative",
        {"num_tokens": 5, "draft": "a/b"},
    ),
    (
        "--speculative-config.method ngram --speculative-config.num_speculative_tokens 2",
        "workload",
        "speculative",
        {"num_tokens": 2},
    ),
    ("--num-gpu-blocks-override 100", "workload", "kv_pool_blocks", 100),
    ("--kv-cache-memory-bytes 10G", "workload", "kv_pool_bytes", 10 * 2**30),
    ("--kv-cache-memory-bytes 12000000000", "workload", "kv_pool_bytes", 12_000_000_000),
]
IGNORED = (
    "--block-size 32",
    *("--max-model-len auto", "--max-model-len -1", "--quantization compressed-tensors"),
    *("--decode-context-parallel-size 2", "--compilation-config.mode 3", "-O0"),
    "-p 8000",
    *("--kv-cache-dtype nvfp4", "--some-flag-of-tomorrow 3", "--cpu-offload-params x"),
    """--limit-mm-per-prompt '{"audio": 2}'""",
    """--speculative-config '{"method": "dflash", "model": "x/y", "num_speculative_tokens": 3}'""",
    *("-O3", "-O 2", "-cc.mode 3", "-ac.backend FLASHINFER", "--no-enable-chunked-prefill"),
)
IDLE = (
    *("--port 8000", "--host 0.0.0.0", "--api-key a b", "--served-model-name x y", "--seed 0"),
    *("--trust-remote-code", "--enable-auto-tool-choice", "--tool-call-parser hermes"),
    *("--max-loras 4", "--cpu-offload-gb 0", "--disable-log-requests", "--swap-space 4"),
    *("--reasoning-parser qwen3", "--distributed-executor-backend ray", "--no-enable-lora"),
)
BAD = [
    (f"--max-model-len {'9' * 400}k", "expected a whole number"),
    ("--tensor-parallel-size two", "expected a whole number"),
    ("--gpu-memory-utilization 90", "above 0 and up to 1"),
    ("--max-model-len 1.5K", "a whole number before K"),
    ("--dtype int8", "expected one of"),
    ("--speculative-config '{'", "a JSON object"),
    ("--speculative-config '[1]'", "a JSON object"),
    ("--spec-method ngram", "num_speculative_tokens"),
    ("-tp 2 --nnodes 3", "divides 2 GPUs"),
    ("-tp 8 --nnodes 2 --data-parallel-size-local x", "'x'; expected a whole number"),
    ("-tp 2 -dp 4 --nnodes 2 -dpl 4", "expected 2: --nnodes 2 leaves 4 GPUs to a node"),
    ("--cpu-offload-gb -1", "from 0 on"),
    ("--config serve.yaml", "was not handed in"),
]


@pytest.mark.parametrize(("model", "fields", "layout"), RENDERED)
def test_what_is_rendered_is_read_back(model: str, fields: dict[str, Any], layout: Layout) -> None:
    """A rendered command asks what was evaluated."""
    workload = ServeWorkload(**{**{name: getattr(SET, name) for name in SET.__slots__}, **fields})

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

    assert imported.without_effect == (flags.split(maxsplit=1)[0],)
    assert imported.ignored == ()


@pytest.mark.parametrize(("flags", "expected"), BAD)
def test_a_bad_value_is_refused(flags: str, expected: str) -> None:
    """The refusal says where, and what would be right."""
    with pytest.raises(LaunchFormatError) as caught:
        ask_command(f"{SERVE} {flags}")

    assert expected in caught.value.message
    assert caught.value.field == "command"


def test_the_load_is_asked_for() -> None:
    """No launch says how many requests come; the limits that it sets are told with the question."""
    question = ask_command(f"{SERVE} --max-num-seqs 48 --max-model-len 8192", gpu=GPU)

    assert question.missing == ("workload.num_sequences", "workload.prompt_tokens")
    reasons = {one.field: one.why for one in question.questions}
    assert "at most 48 by --max-num-seqs" in reasons["workload.num_sequences"]
    assert "at most 8192 by --max-model-len" in reasons["workload.prompt_tokens"]


def test_a_mode_that_doubles_limits_asks_for_them() -> None:
    """Throughput mode doubles what is not said, which the answer does not know."""
    question = ask_command(f"{SERVE} --performance-mode throughput --max-num-seqs 48", gpu=GPU)

    reasons = {one.field: one.why for one in question.questions}
    assert "doubles" in reasons["workload.max_num_batched_tokens"]
    assert "workload.max_num_sequences" not in reasons


def test_the_same_in_a_file_and_a_call() -> None:
    """A config file and the arguments of LLM() say what flags say."""
    flags = ask_command(
        f"{SERVE} -tp 2 --max-model-len 8192 --gpu-memory-utilization 0.8", workload=LOAD
    )
    content = (
        "model: meta-llama/Llama-2-7b-hf\ntensor-parallel-size: 2\nmax-model-len: 8192\n"
        "gpu-memory-utilization: 0.8\nport: 8000\n"
    )
    file = {"name": "conf/serve.yaml", "content": content}
    arguments = {
        "model": "meta-llama/Llama-2-7b-hf",
        "tensor_parallel_size": 2,
        "max_model_len": 8192,
        "gpu_memory_utilization": 0.8,
    }

    configured = ask_command("vllm serve --config /etc/serve.yaml", files=[file], workload=LOAD)
    called = ask(arguments=arguments, workload=LOAD)
    module = ask_command(
        "VLLM_LOGGING_LEVEL=DEBUG python -m vllm.entrypoints.openai.api_server --model "
        "meta-llama/Llama-2-7b-hf -tp=2 --max-model-len 8192 --gpu-memory-utilization 0.8",
        workload=LOAD,
    )

    assert flags.document == configured.document == called.document == module.document
    assert configured.imported.without_effect == ("port",)
    assert configured.imported.ignored == ()


def test_words_of_the_command_win_over_its_file() -> None:
    """So has vLLM it."""
    file = {"name": "serve.yaml", "content": "max-model-len: 8192\ntensor-parallel-size: 2\n"}
    question = ask_command(f"{SERVE} --config serve.yaml --max-model-len 4096", files=[file])

    assert get_workload(question)["max_model_len"] == 4096
    assert get_layout(question)["tensor_parallel"] == 2


def test_the_default_share_is_the_releases() -> None:
    """It is told with its source, and left to the release, which a request may name."""
    question = ask_command(SERVE, workload={**LOAD, "engine_version": "0.19.0"})

    assert "gpu_memory_fraction" not in get_workload(question)
    defaults = {one.key: one for one in question.imported.read if "default" in one.where}
    assert defaults["gpu_memory_utilization"].value == 0.92
    assert "vllm/config/cache.py" in defaults["gpu_memory_utilization"].where
    assert get_workload(question)["engine_version"] == "0.19.0"


def test_a_command_that_serves_nothing_is_refused() -> None:
    """``vllm bench`` starts no engine that is evaluated."""
    with pytest.raises(LaunchFormatError, match="expected vllm serve MODEL"):
        ask_command("vllm bench serve --model x")


def test_what_starts_the_engine_is_accounted_for() -> None:
    """Variables and options before the program are named like its own."""
    imported = ask_command(
        f"srun -N 2 --partition gpu env VLLM_USE_V1=1 CUDA_VISIBLE_DEVICES=0 {SERVE}"
    ).imported

    assert imported.ignored == ("VLLM_USE_V1",)
    assert imported.without_effect == ("CUDA_VISIBLE_DEVICES", "-N", "--partition")


def test_limits_that_count_are_not_called_ignored() -> None:
    """A warning told of each limit, those that are read too."""
    question = ask_command("vllm serve gemma-3-4b --limit-mm-per-prompt image=4,audio=2", gpu=GPU)

    ignored = [text for text in question.imported.warnings if "is ignored" in text]
    assert [".audio is ignored" in text for text in ignored] == [True]


def test_the_server_of_trl_is_vllms_with_its_own_share() -> None:
    """``trl vllm-serve`` has 0.9 of the memory where nothing is said, vLLM 0.92."""
    command = "CUDA_VISIBLE_DEVICES=2,3 trl vllm-serve --model Qwen/Qwen3-4B"

    silent, spoken = (
        get_workload(ask_command(f"{command} --tensor-parallel-size 2{words}", gpu=GPU))
        for words in ("", " --gpu-memory-utilization 0.5")
    )

    assert (silent["engine"], silent["gpu_memory_fraction"]) == ("vllm", 0.9)
    assert spoken["gpu_memory_fraction"] == 0.5
