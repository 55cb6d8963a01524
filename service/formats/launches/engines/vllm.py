"""Arguments of vLLM.

They are those of ``vllm serve``, of its API server, of a ``--config`` file or of ``LLM()``.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from math import inf

from service.formats.launches.benchmarks.vllm_benchmarks import WITHOUT_EFFECT as BENCHMARKING
from service.formats.launches.benchmarks.vllm_benchmarks import find_benchmark, put_load
from service.formats.launches.engines.adapter_settings import has_adapters, leave_adapters
from service.formats.launches.engines.engine_environment import account_environment
from service.formats.launches.engines.engine_release import put_release
from service.formats.launches.engines.engine_settings import (
    ask_requests,
    describe_limit,
    gather_settings,
    get_arguments,
    ignore_settings,
    put_formats,
    put_fraction,
    put_int,
    put_model,
    put_state_dtype,
    put_switch,
    put_weight_dtype,
    read_object,
)
from service.formats.launches.engines.speculation import read_vllm_speculation
from service.formats.launches.engines.vllm_keys import (
    ABBREVIATED,
    FLAGS,
    GRAPHS,
    IGNORED,
    LORA,
    LORA_SLOTS,
    MANY,
    SHORT,
    WITHOUT_EFFECT,
)
from service.formats.launches.engines.vllm_layout import read_layout
from service.formats.launches.sources.argv import Grammar
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.sources.reader import Reader
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.launch import Launcher
from service.formats.launches.values.settings import Setting, Settings, make_default

VLLM = "0.33.0"
_ARGUMENTS = f"vLLM {VLLM}, vllm/engine/arg_utils.py"
_CACHE = f"vLLM {VLLM}, vllm/config/cache.py"
_LORA = f"vLLM {VLLM}, vllm/config/lora.py"
_DTYPE = f"vLLM {VLLM}, vllm/config/model.py, _resolve_auto_dtype: bf16 in place of fp32"
_GRAMMAR = Grammar(
    flags=FLAGS, short=SHORT, many=MANY, positionals=("model",), abbreviated=ABBREVIATED
)
_BENCHMARKS = replace(
    _GRAMMAR, short={name: option for name, option in SHORT.items() if name != "n"}
)
"""Benchmarks have an option of that name."""
_LIMITS = {
    "max_num_seqs": "workload.max_num_sequences",
    "max_num_batched_tokens": "workload.max_num_batched_tokens",
}
_WHOLE = "prompts are cut as the release has it by default; say max_num_batched_tokens"
_TRL = "trl vllm-serve"
_PROGRAMS = frozenset(
    {"vllm", "vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server", _TRL}
)
_COMMANDS = frozenset({"serve", "run-batch"})
QUANTIZATIONS: Mapping[str, str] = {
    **dict.fromkeys(("awq", "awq_marlin"), "awq_int4"),
    **dict.fromkeys(("gptq", "gptq_marlin"), "gptq_int4"),
    **dict.fromkeys(("fp8", "fp8_per_tensor", "ptpc_fp8", "modelopt"), "fp8"),
    **dict.fromkeys(("modelopt_fp4", "nvfp4"), "nvfp4"),
    **dict.fromkeys(("mxfp4", "gpt_oss_mxfp4"), "mxfp4"),
    "bitsandbytes": "nf4",
}
"""Words of the contract for those of ``--quantization``.

What bitsandbytes makes at load time has four bits (``quantization/bitsandbytes.py``).
"""
_CACHES = {
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2"), "fp8"),
    **dict.fromkeys(("bfloat16", "bf16"), "bf16"),
    **dict.fromkeys(("float16", "half"), "fp16"),
}
_SIZE = re.compile(r"(\d+)(?:\.(\d+))?([kKmMgGtT])")
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}


def read_vllm(handed_in: HandedIn, draft: Draft) -> None:
    """Read the arguments of a server, or of ``LLM()``."""
    benchmark = find_benchmark(handed_in)
    settings = gather_settings(
        handed_in,
        draft,
        _get_arguments(handed_in, benchmark),
        _GRAMMAR if benchmark is None else _BENCHMARKS,
        config=("config",),
    )
    draft.put("workload.task", "serve")
    draft.put("workload.engine", "vllm")
    put_release(draft, handed_in, "vllm", VLLM)
    if handed_in.command is not None and handed_in.command.program == _TRL:
        _add_trl_defaults(settings)
    model = put_model(draft, settings, "model", "model_tag")
    put_weight_dtype(draft, settings, handed_in, model, source=_DTYPE)
    put_formats(draft, settings, quantizations=QUANTIZATIONS, caches=_CACHES)
    _read_states(settings, draft)
    if benchmark is not None:
        put_load(settings, draft, benchmark)
    _read_limits(settings, draft)
    read_layout(settings, draft)
    read_vllm_speculation(settings, draft)
    _read_memory(settings, draft)
    _read_items(settings, draft)
    _read_adapters(settings, draft)
    ignore_settings(draft, settings, IGNORED)
    draft.account(settings, (*WITHOUT_EFFECT, *(BENCHMARKING if benchmark else ())))
    account_environment(draft, handed_in)


def _get_arguments(handed_in: HandedIn, benchmark: str | None) -> tuple[str, ...]:
    if benchmark is not None and handed_in.command is not None:
        return handed_in.command.arguments[2:]
    return get_arguments(handed_in, "vllm", _COMMANDS, expected="vllm serve MODEL")


def _add_trl_defaults(settings: Settings) -> None:
    """Set what TRL's server says of itself.

    TRL 1.16, ``trl/scripts/vllm_serve.py``.
    """
    source = "TRL 1.16, trl/scripts/vllm_serve.py"
    settings.add("gpu_memory_utilization", make_default("gpu_memory_utilization", 0.9, source))
    model = settings.take("vllm_model_impl")
    if model is not None:
        settings.add("model_impl", model)


def parse_size(setting: Setting) -> int:
    """Return a whole number, of which ``32k`` is 32,000 and ``32K`` 32,768.

    vLLM 0.33.0, ``human_readable_int`` of ``vllm/engine/arg_utils.py``.
    """
    match = _SIZE.fullmatch(setting.value.strip()) if isinstance(setting.value, str) else None
    if match is None:
        return setting.as_int(minimum=1)
    whole_part, decimals, unit = match.groups()
    if unit.isupper() and decimals is not None:
        raise setting.refuse(f"a whole number before {unit}, or {unit.lower()} for decimals")
    base = 1024 if unit.isupper() else 1000
    number = float(f"{whole_part}.{decimals or 0}") * base ** _POWERS[unit.lower()]
    if number == inf:
        raise setting.refuse("a whole number")
    return int(number)


def _read_states(settings: Settings, draft: Draft) -> None:
    """Set the format of recurrent states, or that of all states.

    16 bits of all states are left to the release, whose states take no less (vLLM 0.33.0,
    ``layers/mamba/mamba_utils.py`` and ``models/config.py``).
    """
    put_state_dtype(draft, settings, "mamba_ssm_cache_dtype")
    cache = settings.peek("mamba_cache_dtype")
    if cache is None or draft.get("workload.state_dtype") is not None:
        return
    if str(cache.value).casefold() == "auto":
        draft.note(cache, "states have the format that the release gives them")
    elif str(cache.value).casefold() == "float32":
        draft.put("workload.state_dtype", "fp32", cache)
        draft.warn(f"{cache.key}: last inputs of convolutions are counted in the weights' format")
    else:
        return
    settings.take("mamba_cache_dtype")


def _read_limits(settings: Settings, draft: Draft) -> None:
    length = settings.take("max_model_len")
    if length is not None and str(length.value).strip().casefold() in {"-1", "auto"}:
        draft.ignore(length, "the model's own length is evaluated, not the longest that fits")
        length = None
    if length is not None:
        draft.put("workload.max_model_len", parse_size(length), length)
    _read_mode(settings, draft)
    sequences = settings.peek("max_num_seqs")
    for name, field in _LIMITS.items():
        setting = settings.take(name)
        if setting is not None:
            draft.put(field, parse_size(setting), setting)
    chunks = settings.take("enable_chunked_prefill")
    if chunks is not None and not chunks.as_bool():
        draft.ignore(chunks, _WHOLE)
    elif chunks is not None:
        draft.drop(chunks)
    ask_requests(
        draft,
        sequences=describe_limit(sequences, "at most"),
        tokens=describe_limit(length, "with its answer it has at most"),
    )


def _read_mode(settings: Settings, draft: Draft) -> None:
    """Read what doubles the limits that are not said.

    vLLM 0.33.0, ``_set_default_max_num_seqs_and_batched_tokens_args`` of ``engine/arg_utils.py``.
    """
    mode = settings.take("performance_mode")
    if mode is None:
        return
    match str(mode.value).casefold():
        case "throughput":
            for name, field in _LIMITS.items():
                if settings.peek(name) is None:
                    draft.ask(
                        field, f"{mode.key} throughput doubles the release's default of {name}"
                    )
            draft.note(mode, "twice the default of max_num_seqs and max_num_batched_tokens")
        case "balanced":
            draft.drop(mode)
        case _:
            draft.ignore(mode, GRAPHS)


def _read_memory(settings: Settings, draft: Draft) -> None:
    if not put_fraction(draft, settings, "gpu_memory_utilization", "device_memory_utilization"):
        default = make_default("gpu_memory_utilization", 0.92, _CACHE)
        draft.note(default, "the release's share of the memory: 0.92, and 0.9 before 0.20.0")
    pool = settings.take("kv_cache_memory_bytes")
    if pool is not None:
        draft.put("workload.kv_pool_bytes", parse_size(pool), pool)
    put_int(draft, settings, "workload.kv_pool_blocks", "num_gpu_blocks_override")
    offload = settings.take("cpu_offload_gb")
    if offload is not None:
        gigabytes = offload.as_float()
        if gigabytes < 0:
            raise offload.refuse("a number of GiB from 0 on")
        if gigabytes:
            draft.put("workload.cpu_offload_gb", gigabytes, offload)
        else:
            draft.drop(offload)
    put_switch(draft, settings, "workload.enforce_eager", "enforce_eager")


def _read_items(settings: Settings, draft: Draft) -> None:
    """Read the images and videos that a prompt may have."""
    option = settings.peek("limit_mm_per_prompt")
    limits = read_object(settings, "limit_mm_per_prompt")
    if limits is None:
        if option is not None:
            draft.drop(option)
        return
    for kind in ("image", "video"):
        limit = limits.take(kind, f"{kind}.count")
        if limit is not None:
            draft.put(f"workload.max_{kind}s_per_prompt", limit.as_int(), limit)
    for _, setting in limits.list_left():
        draft.ignore(setting, "images and videos are profiled at their largest size, audio is not")


def _read_adapters(settings: Settings, draft: Draft) -> None:
    """Read the slots of adapters, which are there where adapters are on."""
    reason: str | None = None
    names: tuple[str, ...] = (*LORA_SLOTS, *LORA)
    if has_adapters(settings):
        reason, names = "slots are counted for every layer, whole, in the model's format", LORA
        switch = settings.take("enable_lora")
        slots = settings.take("max_loras") or make_default("max_loras", 1, _LORA)
        draft.put("workload.max_loras", slots.as_int(minimum=1), slots)
        if not put_int(draft, settings, "workload.max_lora_rank", "max_lora_rank"):
            draft.note(make_default("max_lora_rank", 16, _LORA), "the release's rank of a slot")
        if switch is not None:
            draft.note(switch, "slots of LoRA adapters are allocated at the start")
    leave_adapters(settings, draft, names, reason=reason)


READERS = {
    Launcher.VLLM: Reader(
        launcher=Launcher.VLLM,
        versions={"vllm": VLLM},
        read=read_vllm,
        knows_options=False,
        programs=_PROGRAMS,
        marks=frozenset(
            name
            for mark in ("gpu_memory_utilization", "max_num_seqs", "enable_expert_parallel")
            for name in (mark, mark.replace("_", "-"))
        ),
        hints=frozenset(
            name
            for hint in ("tensor_parallel_size", "max_model_len", "served_model_name")
            for name in (hint, hint.replace("_", "-"))
        ),
    )
}
