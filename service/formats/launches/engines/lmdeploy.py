"""Arguments of LMDeploy's server.

LMDeploy 0.16.0, ``lmdeploy/cli/serve.py`` and ``lmdeploy/cli/utils.py``.
"""

import re

from service.formats.launches.engines.engine_release import put_release
from service.formats.launches.engines.engine_settings import (
    ask_requests,
    describe_limit,
    gather_settings,
    get_arguments,
    ignore_settings,
    put_fraction,
    put_model,
    put_weight_dtype,
)
from service.formats.launches.sources.argv import Grammar
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.sources.reader import Reader
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.launch import Launcher
from service.formats.launches.values.settings import Settings

LMDEPLOY = "0.16.0"
_SOURCE = f"LMDeploy {LMDEPLOY}, lmdeploy/messages.py"
_GRAMMAR = Grammar(
    flags=frozenset(
        {
            *("enable_prefix_caching", "eager_mode", "trust_remote_code", "disable_metrics"),
            *("disable_fastapi_docs", "allow_credentials", "allow_terminate_by_client", "ssl"),
            *("enable_abort_handling", "enable_microbatch", "enable_eplb"),
            *("language_model_only", "enable_return_routed_experts"),
        }
    ),
    many=frozenset({"adapters", "api_keys", "allow_origins", "allow_methods", "allow_headers"}),
)
_COMMANDS = ("serve",)
_SERVERS = frozenset({"api_server"})
_FORMATS = {"awq": "awq_int4", "gptq": "gptq_int4", "fp8": "fp8", "mxfp4": "mxfp4"}
_NO_CODES = frozenset({"0", "none"})
_IGNORED = {
    "adapters": "adapters that are loaded at the start have no term",
    "speculative_algorithm": "tokens that a draft guesses have no term",
    "speculative_draft_model": "tokens that a draft guesses have no term",
    "rope_scaling_factor": "the model's own positions are counted; say max_model_len",
    "hf_overrides": "the model's own config is counted",
    "ep": "experts are counted as tensor ranks share them",
    "cp": "each rank is counted with the whole cache of its heads",
    "nnodes": "one node is counted",
    "enable_microbatch": "one batch at a time is counted",
    "role": "a server of both phases is counted",
}
_WITHOUT_EFFECT = (
    *("server_name", "server_port", "allow_*", "proxy_url", "max_concurrent_requests", "log_level"),
    *("api_keys", "ssl", "model_name", "max_log_len", "disable_*", "enable_abort_handling"),
    *("trust_remote_code", "chat_template", "tool_call_parser", "reasoning_parser", "revision"),
    *("download_dir", "generation_config", "device", "logprobs_mode", "dllm_*", "node_rank"),
    *("enable_prefix_caching", "prefix_cache_*", "num_tokens_per_iter", "max_prefill_iters"),
    *("async", "communicator", "dist_init_addr", "distributed_executor_backend", "migration_*"),
    *("allowed_media_domains", "speculative_num_draft_tokens", "vision_max_batch_size"),
    *("kernel_block_size", "enable_eplb", "enable_return_routed_experts"),
    *("eager_mode", "language_model_only", "cudagraph_capture_batch_sizes"),
)


def read_lmdeploy(handed_in: HandedIn, draft: Draft) -> None:
    """Read the arguments of a server."""
    tokens = get_arguments(
        handed_in, "lmdeploy", _COMMANDS, expected="lmdeploy serve api_server MODEL"
    )
    settings = gather_settings(handed_in, draft, _name_model(tokens), _GRAMMAR, config=())
    draft.put("workload.task", "serve")
    draft.put("workload.engine", "lmdeploy")
    put_release(draft, handed_in, "lmdeploy", LMDEPLOY)
    model = put_model(draft, settings, "model_path")
    put_weight_dtype(draft, settings, handed_in, model, source=_SOURCE, of_fp32="fp16")
    _read_formats(settings, draft)
    _read_limits(settings, draft)
    ignore_settings(draft, settings, _IGNORED)
    draft.account(settings, _WITHOUT_EFFECT)


def _name_model(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command's words, the model's option before its name."""
    arguments = tokens[1:] if tokens[:1] and tokens[0] in _SERVERS else tokens
    is_named = bool(arguments) and not arguments[0].startswith("-")
    return ("--model-path", *arguments) if is_named else arguments


def _read_formats(settings: Settings, draft: Draft) -> None:
    """Set the formats of weights, and of keys and values."""
    packed = settings.take("model_format")
    if packed is not None:
        word = str(packed.value).casefold()
        if word in _FORMATS:
            draft.put("workload.quantization", _FORMATS[word], packed)
        else:
            draft.note(packed, "the format that the checkpoint's own config says")
    policy = settings.take("quant_policy")
    if policy is not None and str(policy.value).casefold() in _NO_CODES:
        draft.note(policy, "keys and values have the format of the weights")
    elif policy is not None:
        draft.ignore(policy, "keys and values are counted in 16 bits: more than its codes take")
    backend = settings.take("backend")
    if backend is not None and backend.as_text() == "pytorch":
        draft.ignore(backend, "TurboMind's pool and step are counted")
    elif backend is not None:
        draft.note(backend, "the engine that is counted")


def _read_limits(settings: Settings, draft: Draft) -> None:
    """Read lengths, the step, the share of free memory and the ranks."""
    longest, requests = settings.take("session_len"), settings.take("max_batch_size")
    if longest is not None:
        draft.put("workload.max_model_len", longest.as_int(minimum=1), longest)
    if requests is not None:
        draft.note(requests, "the most requests of a batch")
    step, block = settings.take("max_prefill_token_num"), settings.take("cache_block_seq_len")
    if step is not None:
        draft.put("workload.max_num_batched_tokens", step.as_int(minimum=1), step)
    if block is not None and str(block.value) == "64":
        draft.note(block, "tokens of a block of the pool")
    elif block is not None:
        draft.ignore(block, "blocks of 64 tokens are counted")
    share = settings.peek("cache_max_entry_count")
    if share is not None and re.fullmatch(r"[1-9]\d*", str(share.value)):
        raise share.refuse("a share of free memory below 1: a number of blocks has no term")
    put_fraction(draft, settings, "cache_max_entry_count")
    for name, field in (("tp", "tensor_parallel"), ("dp", "data_parallel")):
        ranks = settings.take(name)
        if ranks is not None:
            draft.put(f"layout.{field}", ranks.as_int(minimum=1), ranks)
    ask_requests(
        draft,
        sequences=describe_limit(requests, "at most"),
        tokens=describe_limit(longest, "with its answer it has at most"),
    )


READERS = {
    Launcher.LMDEPLOY: Reader(
        launcher=Launcher.LMDEPLOY,
        versions={"lmdeploy": LMDEPLOY},
        read=read_lmdeploy,
        knows_options=False,
        programs=frozenset({"lmdeploy"}),
        marks=frozenset({"cache_max_entry_count", "cache-max-entry-count"}),
        hints=frozenset({"session_len", "session-len", "quant_policy", "quant-policy"}),
    )
}
