"""Arguments of SGLang.

They are those of ``python -m sglang.launch_server``, of ``sglang serve`` or of ``Engine()``.
"""

from collections.abc import Mapping

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
    put_weight_dtype,
)
from service.formats.launches.engines.sglang_ignored import IGNORED
from service.formats.launches.engines.sglang_keys import (
    EXPERT_BACKENDS,
    FLAGS,
    LORA,
    MANY,
    SHORT,
    WITHOUT_EFFECT,
)
from service.formats.launches.engines.speculation import read_sglang_speculation
from service.formats.launches.sources.argv import Grammar
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.sources.reader import Reader
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.launch import Launcher
from service.formats.launches.values.settings import Setting, Settings, make_default

SGLANG = "0.5.23"
_DTYPE = f"SGLang {SGLANG}, srt/configs/model_config.py, _get_and_verify_dtype"
_SCHEDULE = f"SGLang {SGLANG}, srt/arg_groups/fields/schedule.py"
_GRAMMAR = Grammar(flags=FLAGS, short=SHORT, many=MANY)
QUANTIZATIONS: Mapping[str, str] = {
    **dict.fromkeys(("awq", "awq_marlin"), "awq_int4"),
    **dict.fromkeys(("gptq", "gptq_marlin"), "gptq_int4"),
    **dict.fromkeys(("fp8", "modelopt", "modelopt_fp8"), "fp8"),
    **dict.fromkeys(("modelopt_fp4", "petit_nvfp4"), "nvfp4"),
    "mxfp4": "mxfp4",
    "bitsandbytes": "nf4",
}
"""Words of the contract for those of ``--quantization`` (``srt/arg_groups/choices.py``)."""
_CACHES = {
    **dict.fromkeys(("fp8_e4m3", "fp8_e5m2"), "fp8"),
    **dict.fromkeys(("bfloat16", "bf16"), "bf16"),
}


def read_sglang(handed_in: HandedIn, draft: Draft) -> None:
    """Read the arguments of a server."""
    settings = gather_settings(
        handed_in,
        draft,
        get_arguments(handed_in, "sglang", ("serve",), expected="sglang serve --model-path MODEL"),
        _GRAMMAR,
        config=("config",),
    )
    draft.put("workload.task", "serve")
    draft.put("workload.engine", "sglang")
    put_release(draft, handed_in, "sglang", SGLANG)
    model = put_model(draft, settings, "model_path")
    checkpoint = handed_in.find_checkpoint(model)
    is_gemma = checkpoint is not None and checkpoint.model_type.startswith("gemma")
    put_weight_dtype(
        draft,
        settings,
        handed_in,
        model,
        source=_DTYPE,
        of_fp32="bf16" if is_gemma else "fp16",
    )
    put_formats(draft, settings, quantizations=QUANTIZATIONS, caches=_CACHES)
    put_state_dtype(draft, settings, "mamba_ssm_dtype")
    _read_limits(settings, draft)
    _read_layout(settings, draft, 0 if checkpoint is None else checkpoint.num_experts)
    read_sglang_speculation(settings, draft)
    reason = "slots of adapters have no term" if has_adapters(settings) else None
    leave_adapters(settings, draft, LORA, reason=reason)
    ignore_settings(draft, settings, IGNORED)
    draft.account(settings, WITHOUT_EFFECT)
    account_environment(draft, handed_in)


def _read_limits(settings: Settings, draft: Draft) -> None:
    """Read lengths, the share of memory, and what stays on the host."""
    length = settings.peek("context_length")
    put_int(draft, settings, "workload.max_model_len", "context_length")
    chunk = settings.take("chunked_prefill_size")
    if chunk is not None and chunk.as_int(minimum=-1) < 1:
        draft.ignore(chunk, "prompts are evaluated in chunks of the release's default")
    elif chunk is not None:
        draft.put("workload.max_num_batched_tokens", chunk.as_int(), chunk)
    running = settings.take("max_running_requests")
    if running is not None:
        draft.put("workload.max_num_sequences", running.as_int(minimum=1), running)
    if not put_fraction(draft, settings, "mem_fraction_static"):
        default = make_default("mem_fraction_static", None, _SCHEDULE)
        draft.note(default, "the share that the release chooses for the GPU and the layout")
    put_int(draft, settings, "workload.kv_pool_tokens", "max_total_tokens")
    offload = settings.take("cpu_offload_gb")
    if offload is not None and offload.as_int():
        draft.put("workload.cpu_offload_gb", float(offload.as_int()), offload)
    elif offload is not None:
        draft.drop(offload)
    graphs = settings.take("disable_cuda_graph")
    if graphs is not None:
        draft.put("workload.enforce_eager", graphs.as_bool(), graphs)
    ask_requests(
        draft,
        sequences=describe_limit(running, "at most"),
        tokens=describe_limit(length, "with its answer it has at most"),
    )


def _read_layout(settings: Settings, draft: Draft, num_experts: int) -> None:
    """Read the degrees.

    Tensor ranks are all of a server's; those that attend by data are groups of them. Experts that
    are not spread are cut over all of them (``srt/models/deepseek_v2.py``).
    """
    tensor, data = settings.take("tp_size"), settings.take("dp_size")
    ranks = 1 if tensor is None else tensor.as_int(minimum=1)
    pipeline = put_int(draft, settings, "layout.pipeline_parallel", "pp_size") or 1
    groups = _take_groups(settings, draft, data)
    width = 1 if groups is None else groups.as_int(minimum=1)
    if ranks % width and groups is not None:
        raise groups.refuse(f"a number that divides the {ranks} tensor ranks")
    spreads = _put_experts(settings, draft, ranks) > 1
    replicas = 1 if data is None or data is groups else data.as_int(minimum=1)
    if groups is not None and width > 1 and not spreads and num_experts and not num_experts % ranks:
        draft.put("layout.expert_parallel", ranks)
        draft.warn(
            "experts that are cut over all ranks are counted as spread: as many bytes of them, and "
            "shared ones and dense layers whole, which takes no less"
        )
        spreads = True
    if groups is not None and width > 1 and not spreads:
        draft.ignore(groups, "attention by groups has a term where experts are spread (--ep-size)")
        width = 1
    elif groups is not None:
        draft.put("layout.data_parallel", width, groups)
    if data is not None and data is not groups:
        _put_replicas(draft, data, spreads=spreads)
    if tensor is not None:
        draft.put("layout.tensor_parallel", ranks // width, tensor)
    _read_nodes(settings, draft, ranks * pipeline * replicas)


def _take_groups(settings: Settings, draft: Draft, data: Setting | None) -> Setting | None:
    """Return how many groups attend for themselves.

    The older switch makes them of ``dp_size``.
    """
    groups, switch = settings.take("attn_dp_size"), settings.take("enable_dp_attention")
    if switch is not None:
        draft.note(switch, "data-parallel ranks share the tensor ranks")
    if groups is not None:
        return groups
    return data if switch is not None and switch.as_bool() else None


def _put_experts(settings: Settings, draft: Draft, ranks: int) -> int:
    """Set over how many ranks experts are spread; return it."""
    experts, exchange = settings.take("ep_size"), settings.take("moe_a2a_backend")
    if exchange is not None and str(exchange.value).casefold() in EXPERT_BACKENDS:
        draft.put("layout.expert_parallel", ranks, exchange)
        if experts is not None:
            draft.note(experts, "the exchange of experts spreads them over all tensor ranks")
        return ranks
    if exchange is not None:
        draft.drop(exchange)
    if experts is None:
        return 1
    draft.put("layout.expert_parallel", experts.as_int(minimum=1), experts)
    return experts.as_int(minimum=1)


def _put_replicas(draft: Draft, data: Setting, *, spreads: bool) -> None:
    """Set the replicas that share nothing, where experts are not spread."""
    if spreads and data.as_int(minimum=1) > 1:
        draft.ignore(data, "one of the replicas is evaluated: each has its own experts")
    elif not spreads:
        draft.put("layout.data_parallel", data.as_int(minimum=1), data)
    else:
        draft.drop(data)


def _read_nodes(settings: Settings, draft: Draft, gpus: int) -> None:
    nodes = settings.take("nnodes")
    if nodes is None:
        return
    count = nodes.as_int(minimum=1)
    if gpus % count:
        raise nodes.refuse(f"a number of nodes that divides {gpus} GPUs")
    draft.put("layout.gpus_per_node", gpus // count, nodes)


READERS = {
    Launcher.SGLANG: Reader(
        launcher=Launcher.SGLANG,
        versions={"sglang": SGLANG},
        read=read_sglang,
        knows_options=False,
        programs=frozenset({"sglang", "sglang.launch_server", "launch_server.py"}),
        marks=frozenset({"mem_fraction_static", "mem-fraction-static", "chunked_prefill_size"}),
        hints=frozenset({"model_path", "model-path", "tp_size", "tp-size", "context_length"}),
    )
}
