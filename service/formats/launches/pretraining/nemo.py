"""NeMo's launches: Megatron-Bridge and NeMo by Megatron's words, Automodel by its own.

NeMo 2.5, Megatron-Bridge 0.5, NeMo-Automodel 0.7: YAML files, and ``key=value`` over them.
"""

import re
from dataclasses import replace

from service.formats.launches.pretraining.automodel import read_automodel
from service.formats.launches.pretraining.launch_command import count_ranks
from service.formats.launches.pretraining.megatron import put_training
from service.formats.launches.pretraining.mesh import settle_degrees
from service.formats.launches.pretraining.nemo_keys import (
    AUTOMODEL,
    BRIDGE,
    NEMO,
    RENAMED,
    SAME,
    SECTIONS,
    WITHOUT_EFFECT,
)
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.sources.reader import Reader
from service.formats.launches.trainers.launch_files import join_command
from service.formats.launches.trainers.processes import Processes
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import Launcher
from service.formats.launches.values.settings import Setting, Settings, make_default

_REFERENCE = re.compile(r"\$\{(?P<dots>\.*)(?P<path>[A-Za-z_][\w.]*)\}")
_RECIPE = re.compile(
    r"^(?P<model>.{1,255}?)_(pretrain|sft|peft|lora|dora|finetune|low_precision)\w*$"
)
_SPELLINGS = (
    (re.compile(r"^llama(\d)(\d)_"), r"llama-\1.\2-"),
    (re.compile(r"^llama(\d)_"), r"llama-\1-"),
    (re.compile(r"^qwen25_"), "qwen2.5-"),
    (re.compile(r"^mistral_"), "mistral-"),
    (re.compile(r"(\d)p(\d)b"), r"\1.\2b"),
)
_NAMES = ("recipe", "factory", "model", "recipe_name")
_RECIPE_NAMES = ("recipe", "factory", "recipe_name")
_FILES = ("config", "c", "config_file", "config_path", "config_name")
_CHECKPOINTS = ("hf_path", "hf_model_path", "model.hf_path", "checkpoint.pretrained_checkpoint")
_RECIPES = "Megatron-Bridge 0.5, recipes/common.py"
_PRECISIONS = {
    **dict.fromkeys(("bf16", "bf16-mixed", "bf16_mixed", "bf16-true", "bf16_true"), "bf16"),
    **dict.fromkeys(("16", "16-mixed", "fp16", "fp16_mixed", "16-true"), "fp16"),
    **dict.fromkeys(("32", "fp32", "32-true"), "fp32"),
}
_ACTIVATIONS = {"swiglu": "swiglu", "fast-swiglu": "swiglu", "squared-relu": "squared_relu"}


def read_nemo(handed_in: HandedIn, draft: Draft) -> None:
    """Read a configuration of NeMo, Megatron-Bridge or Automodel."""
    config = handed_in.arguments
    for document in handed_in.documents.values():
        config = config.merge(document)
    config = _normalize(join_command(handed_in, config))
    if not len(config):
        message = "holds no configuration of NeMo; expected YAML, or key=value behind its program"
        raise LaunchFormatError(message)
    _note_files(config, draft, handed_in)
    if any(name.startswith(("step_scheduler.", "distributed.")) for name in config):
        read_automodel(config, draft, handed_in)
        return
    is_old = "exp_manager.name" in config or "model.mcore_gpt" in config
    _read_megatron(config, draft, handed_in, is_old=is_old)


def _note_files(config: Settings, draft: Draft, handed_in: HandedIn) -> None:
    """Account for options that name the file of the configuration."""
    for name in _FILES:
        setting = config.take(name)
        if setting is None:
            continue
        draft.note(setting, "the file of the configuration")
        is_file = str(setting.value).endswith((".yaml", ".yml"))
        if is_file and handed_in.find_document(str(setting.value)) is None:
            draft.warn(f"{setting.where}: {setting.value} was not handed in, so it is not read")


def _normalize(config: Settings) -> Settings:
    """Return settings with references to each other put in."""
    settings = config.take_all()
    resolved: dict[str, Setting] = {}
    for name, setting in settings.items():
        plain = name.lstrip("+~")
        match = _REFERENCE.fullmatch(str(setting.value))
        target = None
        if match is not None:
            section = plain.split(".")[: -len(match["dots"])] if match["dots"] else []
            target = settings.get(".".join([*section, match["path"]]))
        is_literal = target is not None and "${" not in str(target.value)
        value = target.value if target is not None and is_literal else setting.value
        resolved[plain] = replace(setting, value=value)
    return Settings(resolved)


def _read_megatron(config: Settings, draft: Draft, handed_in: HandedIn, *, is_old: bool) -> None:
    """Set the question of a configuration whose words are Megatron's."""
    processes = _count(config, draft, handed_in)
    is_recipe = any(config.peek(name) is not None for name in _RECIPE_NAMES)
    named = _name_model(config, draft, handed_in)
    arguments = _translate(config)
    _add_formats(config, arguments, draft)
    _put_adapters(config, draft)
    _add_kinds(config, arguments)
    if named:
        arguments = _without_sizes(arguments, draft)
    distributed = make_default("use_distributed_optimizer", value=not is_old, source=_RECIPES)
    arguments.add("use_distributed_optimizer", _find_distributed(config) or distributed)
    if is_recipe:
        arguments = settle_degrees(arguments, draft, handed_in)
    put_training(arguments, Settings(), processes, draft, handed_in)
    draft.account(arguments)
    draft.account(config, WITHOUT_EFFECT)


def _translate(config: Settings) -> Settings:
    """Return settings by the names of Megatron-LM's arguments."""
    named: dict[str, Setting] = {}
    for name, setting in config.list_left():
        section, _, key = name.rpartition(".")
        plain = RENAMED.get(key, key)
        if section.rpartition(".")[2] not in SECTIONS or (plain not in SAME and key not in RENAMED):
            continue
        config.take(name)
        if "${" not in str(setting.value) and plain not in named:
            named[plain] = setting
    for name in ("use_torch_fsdp2", "fp8_format"):
        if name in named and str(named[name].value).casefold() in {"false", "none", "null"}:
            del named[name]
    if "num_query_groups" in named:
        groups = named["num_query_groups"]
        named["group_query_attention"] = replace(groups, value=groups.value is not None)
    return Settings(named)


def _count(config: Settings, draft: Draft, handed_in: HandedIn) -> Processes:
    """Return the processes, as the trainer or the command says them."""
    started = count_ranks(handed_in, draft)
    devices, nodes = config.take("trainer.devices"), config.take("trainer.num_nodes")
    settings = tuple(setting for setting in (devices, nodes) if setting is not None)
    if devices is None or started.count is not None or not str(devices.value).isdecimal():
        for setting in settings:
            draft.note(setting, "processes, which the command says")
        return started
    machines = 1 if nodes is None else nodes.as_int(minimum=1)
    count = devices.as_int(minimum=1) * machines
    return Processes(count=count, nodes=machines, settings=settings)


def _name_model(config: Settings, draft: Draft, handed_in: HandedIn) -> bool:
    """Set the model of a recipe's name; return whether it has one."""
    setting = config.take(*_NAMES)
    checkpoint = config.take(*_CHECKPOINTS)
    setting = setting if isinstance(getattr(setting, "value", None), str) else None
    named = checkpoint or setting
    if named is None:
        return False
    text = named.as_text()
    match = _RECIPE.fullmatch(text.rpartition(".")[2])
    stem = text if match is None else match["model"]
    for pattern, spelling in _SPELLINGS:
        stem = pattern.sub(spelling, stem)
    candidates = [text] if checkpoint is not None else [stem.replace("_", "-"), stem, text]
    find = handed_in.launch.find_checkpoint
    models = [candidate for candidate in candidates if find(candidate) is not None]
    if setting is not None:
        reason = "what the recipe itself sets is not read: only what stands beside it"
        draft.warn(f"{setting.where}: {setting.key} {setting.value}: {reason}")
    if not models:
        draft.note(named, "a model that is not known here")
        draft.ask("model", f"{text} names no model that is known")
        return True
    draft.put("model", models[0], named)
    return True


def _without_sizes(arguments: Settings, draft: Draft) -> Settings:
    """Return arguments without a named model's sizes, which overrides may repeat."""
    arguments_left = {}
    for name, setting in arguments.take_all().items():
        if name in {"num_layers", "hidden_size", "num_attention_heads"}:
            draft.note(setting, "a size of the model, which is named")
        else:
            arguments_left[name] = setting
    return Settings(arguments_left)


def _add_formats(config: Settings, arguments: Settings, draft: Draft) -> None:
    """Add the switches of number formats, bf16 unless another is said."""
    names = ("trainer.precision", "mixed_precision", "trainer.plugins.precision", "precision")
    setting = config.take(*names)
    if setting is None or not isinstance(setting.value, str | int):
        setting = make_default("mixed_precision", "bf16_mixed", _RECIPES)
    text = str(setting.value).casefold()
    if text.startswith(("bf16_with_", "nemotron")):
        arguments.add("fp8_format", replace(setting, value="hybrid"))
        text = "bf16"
    kind = replace(setting, value=text).as_choice(_PRECISIONS)
    reduces = config.take("ddp.grad_reduce_in_fp32", "mixed_precision.grad_reduce_in_fp32")
    if reduces is not None:
        arguments.add("grad_reduce_in_bf16", replace(reduces, value=not reduces.as_bool()))
    level = config.take("model.megatron_amp_O2")
    if level is not None and level.as_bool():
        draft.note(level, "16-bit weights with fp32 masters")
    elif level is not None:
        draft.ignore(level, "weights are counted in 16 bits with fp32 masters, not under autocast")
    if kind == "fp32":
        draft.note(setting, "32 bits")
    else:
        arguments.add(kind, replace(setting, value=True))


def _put_adapters(config: Settings, draft: Draft) -> None:
    """Set the method where adapters are trained."""
    scheme = config.take("model.peft.peft_scheme", "peft._target_", "peft.peft_scheme")
    rank = config.take("peft.dim", "model.peft.lora_tuning.adapter_dim")
    if scheme is None and (rank is None or not rank.key.startswith("peft.")):
        if rank is not None:
            draft.drop(rank)
        return
    named = [setting for setting in (scheme, rank) if setting is not None]
    draft.put("workload.method", "lora", *named[:1])
    if rank is not None:
        draft.put("workload.lora.rank", rank.as_int(minimum=1), rank)


def _add_kinds(config: Settings, arguments: Settings) -> None:
    """Add what NeMo's words for norms, activations and biases are in Megatron's."""
    norm = config.take("model.normalization")
    if norm is not None:
        word = "RMSNorm" if "rms" in str(norm.value).casefold() else "LayerNorm"
        arguments.add("normalization", replace(norm, value=word))
    activation = config.take("model.activation")
    if activation is not None:
        switch = _ACTIVATIONS.get(str(activation.value).casefold())
        if switch is not None:
            arguments.add(switch, replace(activation, value=True))
        elif str(activation.value).endswith("glu"):
            arguments.add("quick_geglu", replace(activation, value=True))
        else:
            arguments.add("swiglu", replace(activation, value=False))
    bias = config.take("model.bias", "model.add_bias_linear")
    if bias is not None:
        arguments.add("disable_bias_linear", replace(bias, value=not bias.as_bool()))
    shared = config.take("model.share_embeddings_and_output_weights")
    if shared is not None:
        value = not shared.as_bool()
        arguments.add("untie_embeddings_and_output_weights", replace(shared, value=value))
    tokenizer = config.take("model.tokenizer.type")
    if tokenizer is not None:
        is_gpt2 = str(tokenizer.value) == "GPT2BPETokenizer"
        name = "tokenizer_type" if is_gpt2 else "tokenizer_model"
        arguments.add(name, tokenizer)


def _find_distributed(config: Settings) -> Setting | None:
    """Return NeMo 1's switch of the distributed optimizer, by the optimizer's name."""
    name = config.take("model.optim.name")
    if name is None:
        return None
    return replace(name, value="distributed" in str(name.value))


READERS = {
    Launcher.NEMO: Reader(
        launcher=Launcher.NEMO,
        versions={
            "nemo-automodel": AUTOMODEL,
            "megatron-bridge": BRIDGE,
            "nemo-toolkit": NEMO,
        },
        read=read_nemo,
        knows_options=False,
        programs=frozenset({"nemo", "automodel", "run_recipe.py", "megatron_gpt_pretraining.py"}),
        marks=frozenset(
            {
                *("step_scheduler.local_batch_size", "step_scheduler.global_batch_size"),
                *("model.tensor_model_parallel_size", "train.micro_batch_size"),
                *("trainer.strategy.tensor_model_parallel_size", "train.global_batch_size"),
                *("model.micro_batch_size", "exp_manager.name", "distributed.strategy"),
            }
        ),
    )
}
