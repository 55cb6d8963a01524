"""Arguments of Text Generation Inference's launcher, and variables that stand for them."""

from service.formats.launches.engines.engine_environment import (
    account_environment,
    name_variables,
)
from service.formats.launches.engines.engine_release import put_release
from service.formats.launches.engines.engine_settings import (
    ask_requests,
    describe_limit,
    gather_settings,
    ignore_settings,
    put_fraction,
    put_model,
)
from service.formats.launches.engines.tgi_keys import (
    FLAGS,
    IGNORED,
    OPTIONS,
    SHORT,
    VARIABLES_WITHOUT_EFFECT,
    WITHOUT_EFFECT,
)
from service.formats.launches.sources.argv import Grammar
from service.formats.launches.sources.commands import CONTAINERS
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.sources.reader import Reader
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.launch import Launcher
from service.formats.launches.values.settings import Setting, Settings, make_default

TGI = "3.3.5"
_MODELS = f"TGI {TGI}, server/text_generation_server/models/__init__.py"
_GRAMMAR = Grammar(flags=FLAGS, short=SHORT)
_QUANTIZATIONS = {
    "bitsandbytes": "int8",
    **dict.fromkeys(("bitsandbytes-nf4", "bitsandbytes-fp4"), "nf4"),
    **dict.fromkeys(("gptq", "marlin"), "gptq_int4"),
    "awq": "awq_int4",
    "fp8": "fp8",
}
"""Words of the contract for those of ``--quantize``; Marlin's kernel runs GPTQ's weights."""
_DTYPES = {"float16": "fp16", "bfloat16": "bf16"}
_CACHES = dict.fromkeys(("fp8_e4m3fn", "fp8_e5m2"), "fp8")
_OF_HALF = frozenset({"awq", "exl2", "gptq", "marlin"})
"""Formats whose other weights are in fp16 where nothing else is said."""
_BF16_FAMILIES = (
    *("gemma", "deepseek", "dbrx", "qwen2_vl", "qwen2_5_vl", "mllama", "idefics3", "paligemma"),
    "llama4",
)
"""Beginnings of families whose ``default_dtype`` is bf16; that of the others is fp16."""
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
_ALL = frozenset({"all", "void"})
_WIDTHS = (1, 2, 4, 8)
_POOL = "models with flash attention have the pool that fills their share"


def read_tgi(handed_in: HandedIn, draft: Draft) -> None:
    """Read the arguments of a launcher."""
    tokens = () if handed_in.command is None else handed_in.command.arguments
    typed = gather_settings(handed_in, draft, tokens, _GRAMMAR, config=())
    settings = typed.merge(name_variables(handed_in, OPTIONS))
    draft.put("workload.task", "serve")
    draft.put("workload.engine", "tgi")
    put_release(draft, handed_in, "tgi", TGI)
    put_model(draft, settings, "model_id")
    _read_formats(settings, draft, handed_in)
    _read_limits(settings, draft)
    _read_shards(settings, draft, handed_in)
    ignore_settings(draft, settings, IGNORED)
    draft.account(settings, WITHOUT_EFFECT)
    account_environment(draft, handed_in, options=OPTIONS, without_effect=VARIABLES_WITHOUT_EFFECT)


def _read_formats(settings: Settings, draft: Draft, handed_in: HandedIn) -> None:
    """Set the formats of weights, and of keys and values.

    Where none is said, a family has the launcher's own, whatever the checkpoint's config says.
    """
    quantize, dtype = settings.take("quantize"), settings.take("dtype")
    word = "" if quantize is None else str(quantize.value).casefold()
    if dtype is not None:
        draft.put("workload.weight_dtype", dtype.as_choice(_DTYPES), dtype)
    else:
        _put_default_dtype(draft, handed_in, is_half=word in _OF_HALF)
    if word == "compressed-tensors" and quantize is not None:
        draft.note(quantize, "the format that the checkpoint's own config says")
    elif quantize is not None:
        chosen = quantize.as_choice(_QUANTIZATIONS)
        draft.put("workload.quantization", chosen, quantize)
    cache = settings.take("kv_cache_dtype")
    if cache is not None:
        draft.put("workload.kv_cache_dtype", cache.as_choice(_CACHES), cache)


def _put_default_dtype(draft: Draft, handed_in: HandedIn, *, is_half: bool) -> None:
    """Set the format of weights that the launcher gives a family."""
    model = draft.get("model")
    checkpoint = handed_in.find_checkpoint(None if model is None else str(model))
    if checkpoint is None and not is_half:
        why = "the launcher chooses the format of weights by the family, which is not known"
        draft.ask("workload.weight_dtype", why, ("fp16", "bf16"))
        return
    is_bf16 = checkpoint is not None and checkpoint.model_type.startswith(_BF16_FAMILIES)
    dtype = "bf16" if is_bf16 and not is_half else "fp16"
    draft.put("workload.weight_dtype", dtype, make_default("dtype", dtype, _MODELS))


def _read_limits(settings: Settings, draft: Draft) -> None:
    """Read lengths, the step and the share of memory."""
    longest, prompt = settings.take("max_total_tokens"), settings.take("max_input_tokens")
    if longest is not None:
        draft.put("workload.max_model_len", longest.as_int(minimum=1), longest)
    if prompt is not None:
        draft.note(prompt, "the longest prompt that is taken")
    step, pool = settings.take("max_batch_prefill_tokens"), settings.take("max_batch_total_tokens")
    if step is not None:
        draft.put("workload.max_num_batched_tokens", step.as_int(minimum=1), step)
    if pool is not None:
        draft.drop(pool)
        draft.warn(f"{pool.where}: {pool.key} decides nothing: {_POOL}")
    requests = settings.take("max_batch_size")
    if requests is not None:
        draft.note(requests, "the most requests of a batch")
    put_fraction(draft, settings, "cuda_memory_fraction")
    ask_requests(
        draft,
        sequences=describe_limit(requests, "at most"),
        tokens=describe_limit(prompt, "it has at most")
        or describe_limit(longest, "with its answer it has at most"),
    )


def _read_shards(settings: Settings, draft: Draft, handed_in: HandedIn) -> None:
    """Set the ranks, which by default are all visible GPUs.

    ``find_num_shards`` and ``num_cuda_devices`` of the launcher.
    """
    sharded, count = settings.take("sharded"), settings.take("num_shard")
    if count is not None:
        draft.put("layout.tensor_parallel", count.as_int(minimum=1), count)
        if sharded is not None:
            draft.drop(sharded)
        return
    if sharded is not None and not sharded.as_bool():
        draft.put("layout.tensor_parallel", 1, sharded)
        return
    number, places = _count_visible(handed_in)
    if number is not None:
        draft.put("layout.tensor_parallel", number, *places)
    elif places or handed_in.allocation is not None or _is_contained(handed_in):
        why = "without num_shard the launcher takes all GPUs that it sees"
        draft.ask("layout.tensor_parallel", why, _WIDTHS, is_assumed=True)
    if sharded is not None:
        draft.note(sharded, "ranks on all GPUs that are visible")


def _count_visible(handed_in: HandedIn) -> tuple[int | None, tuple[Setting, ...]]:
    """Return the number of visible GPUs, and what tells it."""
    command, allocation = handed_in.command, handed_in.allocation
    environment = {} if command is None else command.environment
    for name in _VISIBLE:
        value = environment.get(name, "").strip()
        if value and command is not None:
            setting = Setting(key=name, value=value, where=command.where)
            is_open = value in _ALL or "$" in value
            listed = [device for device in value.split(",") if device.strip()]
            return None if is_open else len(listed), (setting,)
    if allocation is not None and allocation.per_node is not None:
        return allocation.per_node, allocation.counts
    return None, ()


def _is_contained(handed_in: HandedIn) -> bool:
    """Return whether a launcher runs in its image."""
    command = handed_in.command
    return command is not None and (
        bool(command.version) or not CONTAINERS.isdisjoint(command.starters)
    )


READERS = {
    Launcher.TGI: Reader(
        launcher=Launcher.TGI,
        versions={"tgi": TGI},
        read=read_tgi,
        knows_options=False,
        programs=frozenset({"text-generation-launcher"}),
        marks=frozenset({"max_batch_prefill_tokens", "max-batch-prefill-tokens"}),
        hints=frozenset({"num_shard", "num-shard", "model_id", "model-id"}),
    )
}
