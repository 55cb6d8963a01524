"""LitGPT's fine-tuning scripts: their command, their YAML, or both.

LitGPT 0.5.13, ``litgpt/finetune/{lora,full,adapter,adapter_v2}.py``, ``litgpt/args.py`` and
``litgpt/utils.py``. A word of the command wins over a file that is named before it, and loses to
one that is named behind it, as jsonargparse applies them.
"""

from service.estimator.values.releases.litgpt import TARGETS
from service.formats.launches.recipes.litgpt_keys import (
    LITGPT,
    MODULES,
    NO_ROOM,
    OPTIMIZERS,
    PRECISIONS,
    SCHEMES,
    SCRIPTS,
    WITHOUT_EFFECT,
)
from service.formats.launches.sources.argv import Grammar, read_argv
from service.formats.launches.sources.commands import Command
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.sources.reader import Reader
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import Launcher
from service.formats.launches.values.settings import Setting, Settings, make_default

_SOURCE = f"LitGPT {LITGPT}, litgpt/finetune"
_FOLDER = "checkpoints/"
_ADAPTERS = frozenset({"adapter", "adapter_v2"})
_METHODS = (*SCRIPTS.values(), "adapter_v2")
_GRAMMAR = Grammar(positionals=("checkpoint_dir",))
_DEFAULT_TARGETS = frozenset({"query", "value"})
_PAGED = "paged_adamw"
_OF_PRETRAINING = ("initial_checkpoint_dir", "tokenizer_dir", "model_config", "model_name")
_PACKED_MODEL = (
    "it packs the model's weights, which for LitGPT's own adapters is said by the model's config: "
    "hand in its config.json with a quantization_config (load_in_4bit, bnb_4bit_quant_type nf4)"
)


def read_litgpt(handed_in: HandedIn, draft: Draft) -> None:
    """Read the options of a fine-tuning script."""
    options, word = _read_command(handed_in, draft)
    config = _join(handed_in, options, draft)
    method = _find_method(config, word, draft)
    draft.put("workload.task", "train")
    draft.put("workload.framework", "litgpt")
    _put_model(config, draft)
    _put_layout(config, draft, method)
    _put_batch(config, draft)
    packs = _put_weights(config, draft, method)
    _put_optimizer(config, draft, packs=packs)
    if method == "lora":
        _put_adapters(config, draft)
    elif method in _ADAPTERS:
        draft.put("workload.method", "peft")
        draft.put("workload.peft.type", method)
    elif method == "full":
        draft.put("workload.method", "full")
    for name in NO_ROOM:
        setting = config.take(name)
        if setting is not None:
            raise setting.refuse("nothing: LitGPT's fine-tuning stops at it")
    if "eval.interval" in config or "eval.initial_validation" in config:
        draft.warn(
            "an evaluation between steps is not counted: it makes the logits of a micro batch whole"
        )
    draft.account(config, WITHOUT_EFFECT)


def _read_command(handed_in: HandedIn, draft: Draft) -> tuple[tuple[str, ...], str | None]:
    """Return a command's options, and its script's method if it says one.

    Raises LaunchFormatError for a command that does not fine-tune.
    """
    command = handed_in.command
    if command is None:
        return (), None
    for name, value in command.environment.items():
        draft.drop(Setting(key=name, value=value, where=command.where))
    if command.program in MODULES:
        return command.arguments, MODULES[command.program]
    word, *options = command.arguments or ("",)
    if word == "finetune" and options[:1] and options[0] in _METHODS:
        return tuple(options[1:]), options[0]  # as until 0.4.1
    if word not in SCRIPTS:
        raise _refuse_command(command, word)
    return tuple(options), SCRIPTS[word]


def _refuse_command(command: Command, word: str) -> LaunchFormatError:
    """Return the refusal of another command of LitGPT."""
    message = (
        f"litgpt {word} has no reader here; expected litgpt {', '.join(SCRIPTS)}, or ask for "
        "serving by fields: engine transformers, its batch and lengths"
    )
    return LaunchFormatError(message, where=command.where, field="command")


def _join(handed_in: HandedIn, arguments: tuple[str, ...], draft: Draft) -> Settings:
    """Return all options, later words before earlier ones."""
    where = "command" if handed_in.command is None else handed_in.command.where
    index = next(
        (at for at, word in enumerate(arguments) if word.partition("=")[0] == "--config"),
        len(arguments),
    )
    merged = read_argv(arguments[index:], _GRAMMAR, where=where)
    earlier = read_argv(arguments[:index], _GRAMMAR, where=where)
    path = merged.take("config")
    documents = list(handed_in.documents.values())
    if path is not None:
        document = handed_in.find_document(path.as_text())
        if document is None:
            raise path.refuse("a file that was handed in too")
        draft.note(path, "the file whose options are read")
        documents = [document]
    for source in (handed_in.arguments, *documents, earlier):
        merged = merged.merge(source)
    merged.take("config")
    return merged


def _find_method(config: Settings, word: str | None, draft: Draft) -> str | None:
    """Return the method of a script, or ask for it.

    Raises LaunchFormatError for pretraining.
    """
    if word is not None:
        return word
    names = list(config)
    pretraining = [name for name in _OF_PRETRAINING if name in names]
    if pretraining:
        message = (
            f"{pretraining[0]} is of litgpt pretrain, which has no reader; fine-tuning has one"
        )
        raise LaunchFormatError(message, field="files")
    if any(name.startswith("lora_") for name in names):
        return "lora"
    if "quantize" not in names:
        return "full"
    draft.ask(
        "workload.method", "the file is of finetune_adapter or finetune_adapter_v2", ("peft",)
    )
    draft.ask(
        "workload.peft.type", "which of LitGPT's adapters it trains", tuple(sorted(_ADAPTERS))
    )
    return None


def _put_model(config: Settings, draft: Draft) -> None:
    """Set the model: a repository, or its folder."""
    name = config.take("checkpoint_dir")
    if name is None:
        draft.ask("model", "the launch names no checkpoint_dir")
        return
    text = name.as_text().rstrip("/")
    before, folder, after = text.rpartition(_FOLDER)
    is_folder = folder and (not before or before.endswith("/"))
    draft.put("model", after if is_folder and after else text, name)


def _put_layout(config: Settings, draft: Draft, method: str | None) -> None:
    """Set the GPUs; several share all weights (``setup``)."""
    devices = config.take("devices") or make_default("devices", 1, _SOURCE)
    nodes = config.take("num_nodes") or make_default("num_nodes", 1, _SOURCE)
    if str(devices.value).casefold() in {"auto", "-1"}:
        draft.note(devices, "every GPU of a node")
        draft.ask("layout.data_parallel", "devices is auto: every GPU of a node has a replica")
        return
    count = devices.as_int(minimum=1) * nodes.as_int(minimum=1)
    draft.put("layout.data_parallel", count, devices, nodes)
    if count > 1:
        is_flat = method == "full" or method in _ADAPTERS
        draft.put("layout.sharding", "fsdp1" if is_flat else "fsdp2", devices)
        draft.put("layout.zero_stage", 3)
        draft.warn("LitGPT computes every layer again on several GPUs")


def _put_batch(config: Settings, draft: Draft) -> None:
    """Set micro batches, and the length that bounds them."""
    batch = config.take("train.micro_batch_size") or make_default(
        "train.micro_batch_size", 1, _SOURCE
    )
    global_batch = config.take("train.global_batch_size") or make_default(
        "train.global_batch_size", 16, _SOURCE
    )
    size, ranks = batch.as_int(minimum=1), draft.get("layout.data_parallel")
    draft.put("workload.micro_batch_size", size, batch)
    rank_batch = global_batch.as_int(minimum=1) // (ranks if isinstance(ranks, int) else 1)
    if rank_batch < size:
        raise global_batch.refuse(f"a multiple of {batch.key} {size} times the devices")
    draft.put("workload.gradient_accumulation_steps", rank_batch // size, global_batch)
    length = config.take("train.max_seq_length")
    if length is None:
        why = "rows are as long as the data's: the longest sample decides (train.max_seq_length)"
        draft.ask("workload.sequence_length", why)
    else:
        draft.put("workload.sequence_length", length.as_int(minimum=1), length)


def _put_weights(config: Settings, draft: Draft, method: str | None) -> bool:
    """Set the format of the weights; return whether they are packed.

    Raises LaunchFormatError where LitGPT stops: packed weights beside autocast, or trained.
    """
    quantize = config.take("quantize")
    source = "LitGPT 0.5.13, litgpt/utils.py, get_default_supported_precision"
    precision = config.take("precision") or make_default("precision", "bf16-mixed", source)
    policy = precision.as_choice(PRECISIONS)
    draft.put("workload.precision", policy, precision)
    if quantize is None:
        return False
    if method == "full":
        raise quantize.refuse("nothing: finetune_full has no packed weights")
    if policy.startswith("amp_"):
        raise precision.refuse(
            f"bf16-true, 16-true or 32-true beside quantize {quantize.value}, as LitGPT needs"
        )
    bits, doubles = quantize.as_choice(SCHEMES)
    if method == "lora":
        draft.put("workload.method", "qlora", quantize)
        draft.put("workload.quantization_bits", bits, quantize)
        draft.put("workload.double_quantization", doubles, quantize)
        # Nothing is cast to fp32: load_checkpoint keeps the weights' format.
        draft.put("workload.fp32_norms_and_head", value=False)
    else:
        draft.note(quantize, "the weights are packed")
        draft.ask("model", _PACKED_MODEL)
    return True


def _put_optimizer(config: Settings, draft: Draft, *, packs: bool) -> None:
    """Set the optimizer.

    That of packed weights is bitsandbytes' paged AdamW, whatever AdamW is named (LitGPT 0.5.13,
    ``litgpt/utils.py``, ``instantiate_bnb_optimizer``).
    """
    chosen = config.take("optimizer.class_path", "optimizer") or make_default(
        "optimizer", "AdamW", _SOURCE
    )
    if packs:
        if "AdamW" not in chosen.as_text():
            raise chosen.refuse("AdamW, the only optimizer that LitGPT has beside quantize")
        draft.put("workload.optimizer", _PAGED, chosen)
        for name in ("fused", "foreach"):
            config.take(f"optimizer.init_args.{name}", f"optimizer.{name}")
        return
    optimizer = chosen.as_choice(OPTIMIZERS)
    settings = [chosen]
    for name, on, becomes in (("fused", True, "adamw_fused"), ("foreach", False, "adamw_loop")):
        switch = config.take(f"optimizer.init_args.{name}", f"optimizer.{name}")
        if switch is None:
            continue
        settings.append(switch)
        if optimizer == "adamw" and switch.as_bool() is on:
            optimizer = becomes
    momentum = config.take("optimizer.init_args.momentum", "optimizer.momentum")
    if optimizer == "sgd" and momentum is not None and momentum.as_float():
        optimizer = "sgd_momentum"
        settings.append(momentum)
    draft.put("workload.optimizer", optimizer, *settings)


def _put_adapters(config: Settings, draft: Draft) -> None:
    """Set adapters: of query and value unless others are said."""
    if draft.get("workload.method") is None:
        draft.put("workload.method", "lora")
    rank = config.take("lora_r") or make_default("lora_r", 8, _SOURCE)
    draft.put("workload.lora.rank", rank.as_int(minimum=1), rank)
    dropout = config.take("lora_dropout") or make_default("lora_dropout", 0.05, _SOURCE)
    draft.put("workload.lora.dropout", dropout.as_float(), dropout)
    switches = {
        word: config.take(f"lora_{word}")
        or make_default(f"lora_{word}", word in _DEFAULT_TARGETS, _SOURCE)
        for word in TARGETS
    }
    targets = [word for word, switch in switches.items() if switch.as_bool()]
    if not targets:
        message = "no layer has an adapter: turn one of lora_query, lora_value, … on"
        raise LaunchFormatError(message, field="workload.lora.target_modules")
    draft.put("workload.lora.target_modules", targets, *switches.values())


READERS = {
    Launcher.LITGPT: Reader(
        launcher=Launcher.LITGPT,
        versions={"litgpt": LITGPT},
        knows_options=False,
        read=read_litgpt,
        programs=frozenset({"litgpt", "litgpt.__main__", *MODULES}),
        marks=frozenset(
            {
                *("checkpoint_dir", "train.micro_batch_size", "train.global_batch_size"),
                *("train.max_seq_length", "lora_projection", "initial_checkpoint_dir"),
            }
        ),
    )
}
