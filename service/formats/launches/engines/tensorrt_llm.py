"""Arguments of ``trtllm-serve`` and its YAML, or of TensorRT-LLM's ``LLM()``."""

from service.formats.launches.engines.engine_environment import account_environment
from service.formats.launches.engines.engine_release import put_release
from service.formats.launches.engines.engine_settings import (
    ask_requests,
    describe_limit,
    gather_settings,
    ignore_settings,
    put_fraction,
    put_int,
    put_model,
    put_weight_dtype,
    read_object,
)
from service.formats.launches.engines.speculation import read_tensorrt_speculation
from service.formats.launches.sources.argv import Grammar
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.sources.reader import Reader
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import Launcher
from service.formats.launches.values.settings import Settings, make_default

TENSORRT_LLM = "1.2"
_SERVE = f"TensorRT-LLM {TENSORRT_LLM}, tensorrt_llm/commands/serve.py"
_ARGS = f"TensorRT-LLM {TENSORRT_LLM}, tensorrt_llm/llmapi/llm_args.py"
_GRAMMAR = Grammar(
    flags=frozenset(
        {
            *("trust_remote_code", "enable_chunked_prefill"),
            "fail_fast_on_attention_window_too_large",
        }
    ),
    short={
        "tp_size": "tensor_parallel_size",
        "pp_size": "pipeline_parallel_size",
        "cp_size": "context_parallel_size",
        "ep_size": "moe_expert_parallel_size",
        "cluster_size": "moe_cluster_parallel_size",
        "kv_cache_free_gpu_memory_fraction": "free_gpu_memory_fraction",
        "extra_llm_api_options": "config",
    },
    positionals=("model",),
)
_QUANTIZATIONS = {
    **dict.fromkeys(("w4a16_awq", "w4a8_awq"), "awq_int4"),
    **dict.fromkeys(("fp8", "fp8_per_channel_per_token", "fp8_block_scales"), "fp8"),
    **dict.fromkeys(("w4a16_mxfp4", "w4a8_mxfp4_fp8", "w4a8_mxfp4_mxfp8"), "mxfp4"),
    **dict.fromkeys(("nvfp4", "w4a8_nvfp4_fp8"), "nvfp4"),
    "w4a16_gptq": "gptq_int4",
    "w8a16": "int8",
}
"""Words of the contract for ``QuantAlgo`` (``tensorrt_llm/quantization/mode.py``)."""
_CACHES = {"fp8": "fp8", "auto": "auto"}
_PROGRAMS = frozenset({"trtllm-serve", "trtllm-llmapi-launch"})
IGNORED = {
    "context_parallel_size": "prompts that are split over GPUs have no term",
    "cp_config": "prompts that are split over GPUs have no term",
    "moe_cluster_parallel_size": "clusters of experts have no term",
    "moe_tensor_parallel_size": "the ranks that experts leave split each of them",
    "enable_chunked_prefill": "a step of max_num_tokens is evaluated",
    "cuda_graph_config": "the graphs that the release captures by default are evaluated",
    "torch_compile_config": "the model is evaluated as it is, not compiled",
    "lora_config": "adapters of a server have no term",
    "peft_cache_config": "adapters of a server have no term",
    "moe_config": "experts are evaluated as the release computes them",
    "attn_backend": "the attention kernel that the release chooses is evaluated",
    "sparse_attention_config": "attention is evaluated as the model has it",
    "attention_dp_config": "groups of attention are evaluated as the release has them",
    "cache_transceiver_config": "buffers between prompts and answers have no term",
    "server_role": "prompts and answers are evaluated on one engine",
    "disagg_cluster_uri": "prompts and answers are evaluated on one engine",
    "build_config": "an engine that is built ahead has no term",
    "scheduler_config": "sequences are scheduled as the release does by default",
    "max_input_len": "workload.prompt_tokens says how long prompts are",
}
"""Arguments that may count and have no word, with why."""
_CACHE_IGNORED = {
    "max_gpu_total_bytes": "the pool is what its fraction leaves, not bytes",
    "max_attention_window": "windows are the model's own",
    "host_cache_size": "a cache on the host has no term",
    "tokens_per_block": "blocks have the tokens of the release's default",
    "enable_partial_reuse": "prompts that share a prefix are evaluated as if they did not",
    "mamba_ssm_cache_dtype": "states have the format that the release gives them",
}
WITHOUT_EFFECT = (
    *("host", "port", "tokenizer*", "custom_tokenizer", "custom_module_dirs", "log_level"),
    *("trust_remote_code", "revision", "num_postprocess_workers", "postprocess_*", "skip_*"),
    *("reasoning_parser", "tool_parser", "chat_template", "metadata_server_config_file"),
    *("otlp_*", "media_io_kwargs", "fail_fast_on_attention_window_too_large", "return_perf_*"),
    *("print_iter_log", "enable_iter_*", "iter_stats_*", "max_stats_len", "disable_overlap_*"),
    *("load_format", "checkpoint_*", "stream_interval", "orchestrator_type", "ray_*", "env_*"),
    *("allreduce_strategy", "guided_decoding_backend", "telemetry_*", "batched_logits_processor"),
    *("enable_layerwise_nvtx_marker", "garbage_collection_*", "perf_metrics_*", "mpi_session"),
    *("batch_wait_*", "sampler_type", "enable_autotuner", "free_gpu_memory_fraction"),
)
_CACHE_WITHOUT_EFFECT = ("enable_block_reuse", "event_buffer_*", "copy_on_*", "secondary_*")


def read_tensorrt_llm(handed_in: HandedIn, draft: Draft) -> None:
    """Read the arguments of a server; its YAML wins over them.

    So has it ``update_llm_args_with_extra_dict`` of 1.2; in later sources the command wins.
    """
    settings = gather_settings(
        handed_in, draft, _get_words(handed_in), _GRAMMAR, config=("config",), file_wins=True
    )
    draft.put("workload.task", "serve")
    draft.put("workload.engine", "tensorrt_llm")
    put_release(draft, handed_in, "tensorrt_llm", TENSORRT_LLM)
    model = put_model(draft, settings, "model")
    put_weight_dtype(draft, settings, handed_in, model, source=_ARGS, of_fp32=None)
    _read_quantization(settings, draft)
    _read_cache(settings, draft)
    _read_limits(settings, draft)
    _read_layout(settings, draft)
    read_tensorrt_speculation(settings, draft)
    backend = settings.take("backend")
    if backend is not None and backend.value == "pytorch":
        draft.drop(backend)
    elif backend is not None:
        draft.ignore(backend, "the PyTorch backend is evaluated")
    ignore_settings(draft, settings, IGNORED)
    draft.account(settings, WITHOUT_EFFECT)
    account_environment(draft, handed_in)


def _get_words(handed_in: HandedIn) -> tuple[str, ...]:
    """Return the words after the program; refuse a command that serves nothing."""
    command = handed_in.command
    if command is None:
        return ()
    tokens = command.arguments
    if command.program == "trtllm-llmapi-launch":
        if tokens[:1] != ("trtllm-serve",):
            message = "trtllm-llmapi-launch starts no server; expected trtllm-serve MODEL after it"
            raise LaunchFormatError(message, where="command", field="command")
        tokens = tokens[1:]
    return tokens[1:] if tokens[:1] == ("serve",) else tokens


def _read_quantization(settings: Settings, draft: Draft) -> None:
    """Set the format of the weights, as checkpoints say too."""
    config = read_object(settings, "quant_config") or Settings()
    algorithm = config.take("quant_algo")
    word = "" if algorithm is None else str(algorithm.value).casefold()
    if algorithm is not None and word in _QUANTIZATIONS:
        draft.put("workload.quantization", _QUANTIZATIONS[word], algorithm)
    elif algorithm is not None:
        draft.ignore(algorithm, "the format that the checkpoint's own config says is evaluated")
    ignore_settings(draft, config, {name: _PARTS for name in list(config) if name != "quant_algo"})


_PARTS = "the format is evaluated as its name says"


def _read_cache(settings: Settings, draft: Draft) -> None:
    """Read the pool of keys and values."""
    cache = read_object(settings, "kv_cache_config") or Settings()
    flag = settings.take("free_gpu_memory_fraction")
    if flag is not None:
        cache.add("free_gpu_memory_fraction", flag)
    if not put_fraction(draft, cache, "free_gpu_memory_fraction"):
        default = make_default("free_gpu_memory_fraction", 0.9, _SERVE)
        draft.note(default, "the pool's share of the memory that weights and activations leave")
    put_int(draft, cache, "workload.kv_pool_tokens", "max_tokens")
    dtype = cache.take("dtype")
    word = "auto" if dtype is None else str(dtype.value).casefold()
    if dtype is not None and word == "auto":
        draft.note(dtype, "the cache has the format of the weights, or the checkpoint's own")
    elif dtype is not None and word in _CACHES:
        draft.put("workload.kv_cache_dtype", _CACHES[word], dtype)
    elif dtype is not None:
        draft.ignore(dtype, f"such a cache has no term; {', '.join(_CACHES)} have")
    ignore_settings(draft, cache, _CACHE_IGNORED)
    draft.account(cache, _CACHE_WITHOUT_EFFECT)


def _read_limits(settings: Settings, draft: Draft) -> None:
    sequences, length = settings.peek("max_batch_size"), settings.peek("max_seq_len")
    put_int(draft, settings, "workload.max_num_sequences", "max_batch_size")
    put_int(draft, settings, "workload.max_num_batched_tokens", "max_num_tokens")
    put_int(draft, settings, "workload.max_model_len", "max_seq_len")
    put_int(draft, settings, "workload.num_beams", "max_beam_width")
    ask_requests(
        draft,
        sequences=describe_limit(sequences, "at most"),
        tokens=describe_limit(length, "with its answer it has at most"),
    )


def _read_layout(settings: Settings, draft: Draft) -> None:
    """Read the degrees.

    Attention is split over all tensor ranks, or over none.
    """
    tensor = settings.take("tensor_parallel_size")
    ranks = 1 if tensor is None else tensor.as_int(minimum=1)
    experts = put_int(draft, settings, "layout.expert_parallel", "moe_expert_parallel_size") or 1
    put_int(draft, settings, "layout.pipeline_parallel", "pipeline_parallel_size")
    attention = settings.take("enable_attention_dp")
    by_data = attention is not None and attention.as_bool()
    if attention is not None and by_data and experts == 1 and ranks > 1:
        draft.ignore(attention, "attention by data has a term where experts are spread")
        by_data = False
    elif attention is not None and by_data:
        draft.put("layout.data_parallel", ranks, attention)
    elif attention is not None:
        draft.drop(attention)
    if tensor is not None:
        draft.put("layout.tensor_parallel", 1 if by_data else ranks, tensor)
    put_int(draft, settings, "layout.gpus_per_node", "gpus_per_node")


READERS = {
    Launcher.TENSORRT_LLM: Reader(
        launcher=Launcher.TENSORRT_LLM,
        versions={"tensorrt_llm": TENSORRT_LLM},
        read=read_tensorrt_llm,
        knows_options=False,
        programs=_PROGRAMS,
        marks=frozenset(
            {
                *("kv_cache_config.free_gpu_memory_fraction", "moe_expert_parallel_size"),
                *("kv_cache_config.enable_block_reuse", "enable_attention_dp", "cuda_graph_config"),
                *("kv_cache_config.dtype", "max_num_tokens"),
            }
        ),
        hints=frozenset({"tensor_parallel_size", "max_seq_len", "max_batch_size"}),
    )
}
