"""Arguments of llama.cpp's ``llama-server`` and ``llama-cli``."""

from service.estimator.backends.llama_cpp.batches import BATCH, MICRO_BATCH
from service.estimator.values.dtypes import CacheType
from service.formats.launches.engines.engine_environment import (
    account_environment,
    name_variables,
)
from service.formats.launches.engines.engine_settings import (
    ask_requests,
    describe_limit,
    gather_settings,
    ignore_settings,
    put_int,
)
from service.formats.launches.engines.llama_cpp_files import (
    cut_format,
    find_base_model,
    get_larger_format,
)
from service.formats.launches.engines.llama_cpp_keys import (
    FLAGS,
    IGNORED,
    SHORT,
    VARIABLES,
    WITHOUT_EFFECT,
)
from service.formats.launches.engines.llama_cpp_overrides import ALL_LAYERS, count_host_experts
from service.formats.launches.engines.speculation import read_llama_cpp_speculation
from service.formats.launches.sources.argv import Grammar
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.sources.reader import Reader
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.launch import Launcher
from service.formats.launches.values.settings import Setting, Settings, make_default

_SOURCE = "llama.cpp, common/arg.cpp"
_SLOTS = Setting(
    key="parallel", value=4, where="llama.cpp, tools/server/server.cpp: auto is four slots"
)
_ONE = Setting(key="parallel", value=1, where="llama.cpp, common/common.h: one sequence")
_GRAMMAR = Grammar(flags=FLAGS, short=SHORT)
_SERVERS = frozenset({"llama-server", "server"})
_PROGRAMS = _SERVERS | {"llama-cli", "llama-simple", "llama-run", "main"}
_FORMATS = {
    **{name: name for name in ("q8_0", "q6_k", "q5_k_m", "q4_k_m", "q4_0", "mxfp4")},
    "mxfp4_moe": "mxfp4",
}
_PLAIN = {"f16": "fp16", "bf16": "bf16", "f32": "fp32", "none": None}
_CACHES = {"f16": "fp16", "bf16": "bf16", "f32": "fp32"}
_BLOCKS = {kind.value: kind.value for kind in sorted(CacheType, key=lambda kind: -kind.block_bytes)}
"""Types of a cache in blocks, the largest first."""
_SPLITS = {
    "none": "",
    "layer": "layout.pipeline_parallel",
    "row": "layout.tensor_parallel",
    "tensor": "layout.tensor_parallel",
}
"""Fields of the layout for the words of ``--split-mode``."""


def read_llama_cpp(handed_in: HandedIn, draft: Draft) -> None:
    """Read the arguments of a server, or of one sequence's program."""
    tokens = () if handed_in.command is None else handed_in.command.arguments
    settings = gather_settings(handed_in, draft, tokens, _GRAMMAR, config=("config",))
    settings = settings.merge(name_variables(handed_in, VARIABLES))
    draft.put("workload.task", "serve")
    draft.put("workload.engine", "llama_cpp")
    _read_model(settings, draft, handed_in)
    checkpoint = handed_in.find_checkpoint(str(draft.get("model") or "") or None)
    is_server = handed_in.command is None or handed_in.command.program in _SERVERS
    longest = None if checkpoint is None else checkpoint.max_length
    _read_context(settings, draft, longest, serves=is_server)
    _read_cache(settings, draft)
    _read_devices(settings, draft, handed_in)
    _read_draft(settings, draft)
    ignore_settings(draft, settings, IGNORED)
    draft.account(settings, WITHOUT_EFFECT)
    account_environment(draft, handed_in, options=VARIABLES)


def _read_model(settings: Settings, draft: Draft, handed_in: HandedIn) -> None:
    """Set the model and its format.

    A file says both by its name, a repository the format by its tag. The model of a repository is
    the one that its files are made of (``ggml-org/gpt-oss-20b-GGUF``).
    """
    file, repository = settings.take("model", "model_url"), settings.take("hf_repo", "docker_repo")
    part = settings.take("hf_file")
    if repository is not None:
        name, _, tag = repository.as_text().partition(":")
        draft.put("model", find_base_model(name, handed_in), repository)
        if part is not None:
            _put_format(draft, cut_format(part.as_text())[1], part)
        elif tag:
            _put_format(draft, tag, repository)
        else:
            word = _get_default_format(str(draft.get("model")), handed_in)
            _put_format(draft, word, make_default("hf_repo", word.upper(), _SOURCE))
    elif file is not None:
        name, word = cut_format(file.as_text())
        draft.put("model", name, file)
        _put_format(draft, word, file)
    else:
        draft.ask("model", "the launch names no model")


def _get_default_format(model: str, handed_in: HandedIn) -> str:
    """Return the format of a repository without a tag.

    It is Q4_K_M, or the first file's where there is none (``common/arg.cpp``, ``--hf-repo``), as in
    those of gpt-oss, whose experts stay in MXFP4.
    """
    checkpoint = handed_in.find_checkpoint(model)
    return "mxfp4" if checkpoint is not None and checkpoint.model_type == "gpt_oss" else "q4_k_m"


def _read_draft(settings: Settings, draft: Draft) -> None:
    """Set the model that guesses tokens ahead, in the model's format."""
    file = read_llama_cpp_speculation(settings, draft)
    if file is not None:
        name, word = cut_format(file.partition(":")[0])
        draft.put("workload.speculative.draft", name)
        draft.warn(
            f"the draft model {name}{f' ({word})' if word else ''} is counted in the format of the "
            "weights: bring its GGUF file along as the draft where it has another"
        )


def _put_format(draft: Draft, word: str, setting: Setting) -> None:
    """Set the format of the weights to that of a file."""
    folded = word.casefold()
    if folded in _FORMATS:
        draft.put("workload.quantization", _FORMATS[folded], setting)
    elif folded == "int8":
        draft.put("workload.quantization", "int8", setting)
    elif folded in _PLAIN:
        if _PLAIN[folded] is not None:
            draft.put("workload.weight_dtype", _PLAIN[folded], setting)
    else:
        _ask_format(draft, folded, word)


def _ask_format(draft: Draft, folded: str, word: str) -> None:
    """Ask for the format of weights; a larger one is assumed."""
    if not word:
        why = "the format of the weights: the file's name does not tell"
        draft.ask("workload.quantization", why, tuple(dict.fromkeys(_FORMATS.values())))
        return
    nearest = get_larger_format(folded)
    why = f"the format of the weights: there is no term for {word}, and a larger one is evaluated"
    choices = (nearest, *(name for name in _FORMATS.values() if name != nearest))
    draft.ask("workload.quantization", why, tuple(dict.fromkeys(choices)), is_assumed=True)
    draft.put("workload.quantization", nearest)


def _read_context(settings: Settings, draft: Draft, longest: int | None, *, serves: bool) -> None:
    """Set the slots, and the length of each: all share the context.

    ``longest`` is the model's own, which holds where none is said.
    """
    slots = settings.take("parallel")
    if slots is None or str(slots.value) in {"-1", "auto"} or not serves:
        slots = _SLOTS if serves else _ONE
    count = slots.as_int(minimum=1)
    draft.put("workload.num_sequences", count, slots)
    context, of_each = settings.take("ctx_size"), settings.take("kv_unified_per_slot")
    cells = 0 if context is None else context.as_int()
    if context is not None and cells:
        if cells < count:
            raise context.refuse(f"a token for each of {count} slots at least")
        draft.put("workload.max_model_len", cells // count, context)
        if of_each is not None:
            draft.note(of_each, "what one slot may have of the context that all share")
    elif of_each is not None:
        draft.put("workload.max_model_len", of_each.as_int(minimum=1), of_each)
    elif longest is not None and longest >= count:
        source = "llama.cpp, common/common.h: n_ctx 0 is the model's own"
        default = make_default("ctx_size", longest, source)
        draft.put("workload.max_model_len", longest // count, default)
        draft.warn("without --ctx-size llama.cpp may take less than the model's context, to fit it")
    else:
        why = "without --ctx-size the context is the model's own, less what does not fit"
        draft.ask("workload.max_model_len", why)
    answer = settings.take("n_predict")
    if answer is not None and answer.as_int(minimum=None) > 0:
        draft.put("workload.output_tokens", answer.as_int(), answer)
    elif answer is not None:
        draft.drop(answer)
    ask_requests(draft, sequences="", tokens=describe_limit(context, "all slots have at most"))


def _read_cache(settings: Settings, draft: Draft) -> None:
    """Set the format of keys and values, and the attention."""
    keys, values = settings.take("cache_type_k"), settings.take("cache_type_v")
    default = make_default("cache_type_k", "f16", _SOURCE)
    both = [keys or default, values or default]
    types = [setting.as_choice(_CACHES | _BLOCKS) for setting in both]
    if all(word in _BLOCKS for word in types):
        _put_blocks(draft, both, types)
    else:
        for setting, word in zip(both, types, strict=True):
            if word in _BLOCKS:
                draft.ignore(setting, "keys and values are counted in the larger of their types")
            else:
                draft.put("workload.kv_cache_dtype", word, setting)
    attention = settings.take("flash_attn")
    if attention is not None and str(attention.value).casefold() in {"off", "false", "0"}:
        draft.put("workload.attention", "eager", attention)
    elif attention is not None:
        draft.note(attention, "attention without a matrix of scores, as evaluated")
    micro, batch = settings.take("ubatch_size"), settings.take("batch_size")
    size = MICRO_BATCH if micro is None else micro.as_int(minimum=1)
    limit = BATCH if batch is None else batch.as_int(minimum=1)
    cut = [setting for setting in (micro, batch) if setting is not None]
    if min(size, limit) != MICRO_BATCH:
        # A micro batch is no larger than a batch (src/llama-context.cpp).
        draft.put("workload.max_num_batched_tokens", min(size, limit), *cut)
    elif micro is not None:
        draft.note(micro, "tokens that one graph computes")
    if batch is not None and min(size, limit) == MICRO_BATCH:
        draft.drop(batch)


def _put_blocks(draft: Draft, both: list[Setting], types: list[str]) -> None:
    """Set a cache in blocks; of unlike ones the larger counts."""
    larger = min(types, key=list(_BLOCKS).index)
    draft.put("workload.cache_type", larger, both[types.index(larger)])
    for setting, word in zip(both, types, strict=True):
        if word == larger:
            draft.note(setting, "the type of keys and values")
        else:
            draft.ignore(setting, "keys and values are counted in the larger of their types")


def _read_devices(settings: Settings, draft: Draft, handed_in: HandedIn) -> None:
    """Set what the GPUs hold, and how several share it."""
    layers = settings.take("n_gpu_layers")
    if layers is None or str(layers.value).casefold() in {"auto", "all", "-1"}:
        layers = layers or make_default("n_gpu_layers", "auto", _SOURCE)
        draft.note(layers, "all layers are on GPUs; auto leaves on the host what does not fit")
    elif layers.as_int() >= ALL_LAYERS:
        draft.note(layers, "all layers are on GPUs")
    else:
        draft.put("workload.gpu_layers", layers.as_int(), layers)
    put_int(draft, settings, "workload.cpu_moe_layers", "n_cpu_moe", minimum=0)
    experts, override = settings.take("cpu_moe"), settings.peek("override_tensor")
    if experts is not None and experts.as_bool():
        draft.put("workload.cpu_moe_layers", ALL_LAYERS, experts)
    moved = None if override is None else count_host_experts(str(override.value))
    if moved is not None and override is not None:
        draft.put("workload.cpu_moe_layers", moved, override)
        settings.take("override_tensor")
    _read_split(settings, draft, handed_in)


def _read_split(settings: Settings, draft: Draft, handed_in: HandedIn) -> None:
    """Set how many GPUs share the layers, and how."""
    allocation = handed_in.allocation
    mode, split = settings.take("split_mode"), settings.take("tensor_split")
    word = "layer" if mode is None else mode.as_choice({name: name for name in _SPLITS})
    if mode is not None and word == "tensor":
        draft.ignore(mode, "a cache that is split has no term; rows are evaluated")
    elif mode is not None:
        draft.note(mode, "how several GPUs share the layers")
    if word == "none":
        if split is not None:
            draft.drop(split)
    elif split is not None:
        _put_shares(draft, _SPLITS[word], split)
    elif allocation is not None and allocation.per_node is not None:
        # Without a word of it, layers are shared by all GPUs that there are.
        draft.put(_SPLITS[word], allocation.per_node, *allocation.counts)
    elif mode is not None:
        draft.ask(_SPLITS[word], "how many GPUs share the layers is the machine's")


def _put_shares(draft: Draft, field: str, split: Setting) -> None:
    shares = [
        Setting(key=split.key, value=share, where=split.where).as_float()
        for share in str(split.value).replace("/", ",").split(",")
    ]
    used = [share for share in shares if share > 0]
    draft.put(field, max(1, len(used)), split)
    if len(set(used)) > 1:
        draft.put("workload.tensor_split", used, split)


READERS = {
    Launcher.LLAMA_CPP: Reader(
        launcher=Launcher.LLAMA_CPP,
        versions={"llama.cpp": "00dc8057"},
        read=read_llama_cpp,
        knows_options=False,
        programs=_PROGRAMS,
        marks=frozenset({"n_gpu_layers", "ctx_size", "n_cpu_moe", "n-gpu-layers", "ctx-size"}),
    )
}
