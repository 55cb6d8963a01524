"""What starts a serving replica: flags hold the numbers that the estimate rests on."""

import json
from dataclasses import replace

import pytest

from service.catalog.models import load_architecture, resolve_model
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout
from service.estimator.values.speculative import Speculative
from service.estimator.values.workload import Engine, Quantization, ServeWorkload
from service.formats.renderings.render import make_launch, render
from tests.unit.formats.renderings.builders import a_job, flags_of

CHAT = ServeWorkload(num_sequences=64, prompt_tokens=1536, output_tokens=512, engine=Engine.VLLM)


def test_vllm_is_told_every_number_that_its_memory_rests_on() -> None:
    """Defaults differ between releases and GPUs: what was evaluated is said, defaults among it."""
    flags = flags_of(make_launch(a_job(CHAT, Layout(tensor_parallel=2))).command)

    assert flags == {
        "tensor_parallel_size": "2",
        "dtype": "bfloat16",
        "kv_cache_dtype": "auto",
        "max_model_len": "4096",
        "max_num_seqs": "256",
        "max_num_batched_tokens": "2048",
        "gpu_memory_utilization": "0.92",
    }


def test_vllm_is_told_what_was_asked() -> None:
    """Words of the request are flags of their own."""
    asked = replace(
        CHAT,
        quantization=Quantization.AWQ_INT4,
        kv_cache_dtype=DType.FP8,
        max_model_len=2048,
        max_num_sequences=128,
        max_num_batched_tokens=4096,
        gpu_memory_fraction=0.8,
        enforce_eager=True,
        speculative=Speculative(num_tokens=3),
    )
    launch = make_launch(a_job(asked, Layout(pipeline_parallel=2)))
    flags = flags_of(launch.command)

    assert (flags["quantization"], flags["kv_cache_dtype"], flags["enforce_eager"]) == (
        "awq",
        "fp8",
        "true",
    )
    assert (flags["max_model_len"], flags["max_num_seqs"], flags["max_num_batched_tokens"]) == (
        "2048",
        "128",
        "4096",
    )
    assert (flags["gpu_memory_utilization"], flags["pipeline_parallel_size"]) == ("0.8", "2")
    assert json.loads(flags["speculative_config"]) == {
        "method": "ngram",
        "num_speculative_tokens": 3,
    }
    assert any("awq_int4" in note for note in launch.notes)


def test_engines_are_told_what_is_pooled() -> None:
    """A model of head none is served by vLLM's pooling runner, and as SGLang's embedding."""
    model = load_architecture(resolve_model("qwen3-embedding-0.6b"))
    workload = ServeWorkload(
        num_sequences=8, prompt_tokens=512, output_tokens=0, engine=Engine.VLLM
    )
    vllm = flags_of(make_launch(replace(a_job(workload), model=model)).command)
    sglang = replace(workload, engine=Engine.SGLANG)

    flags = flags_of(make_launch(replace(a_job(sglang), model=model)).command)

    assert vllm["runner"] == "pooling"
    assert flags["is_embedding"] == "true"


def test_replicas_that_share_nothing_are_started_apart() -> None:
    """Two replicas of four GPUs are one command of four, twice; experts on all eight are one
    command of eight.
    """
    apart = render(a_job(CHAT, Layout(data_parallel=2, tensor_parallel=4), model="mixtral-8x7b"))[
        "launch"
    ]
    layout = Layout(data_parallel=2, tensor_parallel=4, expert_parallel=8, expert_tensor_parallel=1)
    spread = a_job(CHAT, layout, model="mixtral-8x7b")
    flags = flags_of(make_launch(spread).command)

    assert isinstance(apart, dict)
    assert (apart["replicas"], apart["gpus_per_node"]) == (2, 4)
    assert (spread.replicas, spread.gpus) == (1, 8)
    assert (flags["data_parallel_size"], flags["enable_expert_parallel"]) == ("2", "true")


def test_experts_on_the_ranks_of_one_replica_take_a_switch_and_no_replicas() -> None:
    """The expert-parallel size of vLLM is its tensor x data ranks: nothing else says it."""
    layout = Layout(tensor_parallel=8, expert_parallel=8, expert_tensor_parallel=1)
    flags = flags_of(make_launch(a_job(CHAT, layout, model="mixtral-8x7b")).command)

    assert (flags["tensor_parallel_size"], flags["enable_expert_parallel"]) == ("8", "true")
    assert "data_parallel_size" not in flags


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        (Layout(tensor_parallel=8, expert_parallel=4, expert_tensor_parallel=2), ("8", "4", None)),
        (
            Layout(tensor_parallel=4, data_parallel=2, expert_parallel=8, expert_tensor_parallel=1),
            ("8", "8", "2"),
        ),
    ],
)
def test_sglang_counts_all_ranks_of_a_server_as_its_tensor_ranks(
    layout: Layout, said: tuple[str | None, ...]
) -> None:
    """Groups of them attend for themselves where there are several replicas, which is a switch."""
    flags = flags_of(
        make_launch(
            a_job(replace(CHAT, engine=Engine.SGLANG), layout, model="mixtral-8x7b")
        ).command,
    )

    assert (flags["tp_size"], flags["ep_size"], flags.get("dp_size")) == said
    assert ("enable_dp_attention" in flags) == (said[2] is not None)


def test_tensorrt_llm_has_ranks_that_attend_for_themselves_in_its_options() -> None:
    """Its tensor ranks are those of the server, and whether all of them split attention stands in
    the file.
    """
    job = a_job(
        replace(CHAT, engine=Engine.TENSORRT_LLM),
        Layout(data_parallel=8, expert_parallel=8),
        model="mixtral-8x7b",
    )
    launch = make_launch(job)
    flags = flags_of(launch.command)

    assert (flags["tp_size"], flags["ep_size"]) == ("8", "8")
    assert json.loads(launch.files["llm_options.yaml"])["enable_attention_dp"] is True


@pytest.mark.parametrize(
    ("engine", "tensor", "length"),
    [
        (Engine.SGLANG, "tp_size", "context_length"),
        (Engine.TENSORRT_LLM, "tp_size", "max_seq_len"),
        (Engine.VLLM, "tensor_parallel_size", "max_model_len"),
    ],
)
def test_each_engine_calls_the_ranks_and_the_length_its_own(
    engine: Engine, tensor: str, length: str
) -> None:
    """The same layout in three vocabularies."""
    flags = flags_of(
        make_launch(a_job(replace(CHAT, engine=engine), Layout(tensor_parallel=4))).command
    )

    assert (flags[tensor], flags[length]) == ("4", "4096")


def test_engines_on_two_nodes_are_told_where_the_head_is() -> None:
    """Each node has its rank, and all have the head's address."""
    layout = Layout(tensor_parallel=8, pipeline_parallel=2)
    vllm = flags_of(make_launch(a_job(CHAT, layout, model="llama-2-70b")).command)
    sglang = flags_of(
        make_launch(a_job(replace(CHAT, engine=Engine.SGLANG), layout, model="llama-2-70b")).command
    )

    assert (vllm["nnodes"], vllm["node_rank"], vllm["master_addr"]) == (
        "2",
        "${NODE_RANK}",
        "${HEAD_ADDRESS}",
    )
    assert (sglang["nnodes"], sglang["dist_init_addr"]) == ("2", "${HEAD_ADDRESS}:20000")


def test_sglang_is_told_what_was_asked() -> None:
    """An fp8 cache, chunks and the fraction are flags; eager execution is no graphs."""
    asked = replace(
        CHAT,
        engine=Engine.SGLANG,
        kv_cache_dtype=DType.FP8,
        max_num_batched_tokens=4096,
        gpu_memory_fraction=0.7,
        enforce_eager=True,
    )
    flags = flags_of(make_launch(a_job(asked, Layout())).command)

    assert (
        flags["kv_cache_dtype"],
        flags["chunked_prefill_size"],
        flags["mem_fraction_static"],
    ) == ("fp8_e4m3", "4096", "0.7")
    assert flags["disable_cuda_graph"] == "true"


def test_tensorrt_llm_reads_the_cache_from_a_file() -> None:
    """What ``trtllm-serve`` has no flag for stands in the file that it is given."""
    launch = make_launch(
        a_job(replace(CHAT, engine=Engine.TENSORRT_LLM, kv_cache_dtype=DType.FP8), Layout())
    )
    flags = flags_of(launch.command)

    assert json.loads(launch.files[flags["extra_llm_api_options"]]) == {
        "dtype": "bfloat16",
        "kv_cache_config": {"dtype": "fp8"},
    }
    assert (flags["max_batch_size"], flags["max_num_tokens"]) == ("2048", "8192")
    assert flags["kv_cache_free_gpu_memory_fraction"] == "0.9"


@pytest.mark.parametrize(
    ("quantization", "algorithm"),
    [(Quantization.FP8, "FP8"), (Quantization.AWQ_INT4, "W4A16_AWQ"), (Quantization.INT8, "W8A16")],
)
def test_tensorrt_llm_is_told_the_format_of_the_weights(
    quantization: Quantization, algorithm: str
) -> None:
    """The command named 16-bit weights where quantised ones were evaluated."""
    asked = replace(CHAT, engine=Engine.TENSORRT_LLM, quantization=quantization)

    launch = make_launch(replace(a_job(asked, Layout()), checkpoints=("a/b",)))

    options = json.loads(launch.files["llm_options.yaml"])
    assert options["quant_config"] == {"quant_algo": algorithm}
    assert launch.command[1] == "${CHECKPOINT:?}"
    assert any(f"a checkpoint with {quantization} weights" in note for note in launch.notes)


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG])
def test_int8_weights_are_a_checkpoints(engine: Engine) -> None:
    """``--quantization bitsandbytes`` would make 4 bits of 16-bit weights."""
    asked = replace(CHAT, engine=engine, quantization=Quantization.INT8)

    launch = make_launch(replace(a_job(asked, Layout()), checkpoints=("a/b",)))

    assert "quantization" not in flags_of(launch.command)
    assert "${CHECKPOINT:?}" in launch.command
    assert any("a checkpoint with int8 weights" in note for note in launch.notes)


def test_llama_server_shares_one_context_between_its_slots() -> None:
    """``--ctx-size`` is divided by ``--parallel``: 64 slots of 2048 tokens are 131072."""
    asked = replace(CHAT, engine=Engine.LLAMA_CPP, quantization=Quantization.Q4_K_M)
    flags = flags_of(make_launch(a_job(asked, Layout())).command)

    assert (flags["ctx_size"], flags["parallel"], flags["cache_type_k"]) == ("131072", "64", "bf16")
    assert flags["model"].endswith("q4_k_m.gguf")


def test_transformers_is_called_and_not_served() -> None:
    """A script's calls are keywords: how the model is loaded, and what it generates."""
    asked = replace(CHAT, engine=Engine.TRANSFORMERS, quantization=Quantization.NF4)
    objects = make_launch(a_job(asked, Layout())).objects

    assert objects["generate"] == {
        "max_new_tokens": 512,
        "num_beams": 1,
        "do_sample": False,
        "cache_implementation": "dynamic",
    }
    assert objects["from_pretrained"] == {
        "dtype": "bfloat16",
        "attn_implementation": "sdpa",
        "quantization_config": {
            "load_in_4bit": True,
            "bnb_4bit_quant_type": "nf4",
            "bnb_4bit_use_double_quant": True,
        },
    }
