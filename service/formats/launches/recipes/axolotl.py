"""Axolotl's YAML, as the arguments that axolotl makes of it.

axolotl 0.19, ``utils/schemas/*``, ``utils/config/__init__.py``, ``core/builders/*`` and
``loaders/{model,adapter}.py``.
"""

from dataclasses import replace

from service.formats.launches.recipes.axolotl_evaluation import read_evaluation
from service.formats.launches.recipes.axolotl_kernels import (
    read_attention,
    read_cut_loss,
    read_kernels,
    read_packing,
)
from service.formats.launches.recipes.axolotl_lora_kernels import put_kernels, take_kernels
from service.formats.launches.recipes.axolotl_trainers import SCORING, read_client
from service.formats.launches.recipes.axolotl_words import (
    ADAPTERS,
    OF_PREFERENCES,
    OFFLOAD,
    OFFLOADS,
    OVERRIDES,
    TRAINING,
    UNFROZEN_BESIDE_ADAPTERS,
    UNMODELLED,
    WITHOUT_EFFECT,
)
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.sources.reader import Reader
from service.formats.launches.trainers.launch_files import join_command, sort_files
from service.formats.launches.trainers.lowering import lower_trainer
from service.formats.launches.trainers.setup import PEFT, TRANSFORMERS, Client, TrainerSetup
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.launch import Launcher
from service.formats.launches.values.settings import Setting, Settings, make_default

AXOLOTL = "0.19.0"
"""Release whose keys and defaults are known."""
_SOURCE = f"axolotl {AXOLOTL}, utils/schemas"
_METHODS = {"lora": "lora", "qlora": "qlora"}


def read_axolotl(handed_in: HandedIn, draft: Draft) -> None:
    """Read an axolotl file and what its command adds."""
    config = handed_in.arguments
    for document in sort_files(handed_in).training:
        config = config.merge(document)
    config = join_command(handed_in, config)
    name = config.take("base_model")
    if name is None:
        draft.ask("model", "the file names no base_model")
    else:
        draft.put("model", name.as_text(), name)
    client = read_client(config, draft)
    training, model = Settings(), Settings()
    _read_formats(config, model)
    _read_training(config, training, draft, client)
    lora_kernels = take_kernels(config, client)
    adapters = _read_adapters(config, model, draft)
    read_attention(config, model, draft)
    read_kernels(config, training, draft)
    read_evaluation(config, training, draft)
    read_packing(config, draft)
    setup = TrainerSetup(
        client=client,
        model_name=None if name is None else name.as_text(),
        training=training,
        model=model,
        adapters=adapters,
        prepares=False,
        applies_liger=True,
        measures=False,
        uses_all_gpus=True,
    )
    lower_trainer(setup, draft, handed_in)
    checkpoint = handed_in.find_checkpoint(setup.model_name)
    put_kernels(lora_kernels, draft, "" if checkpoint is None else checkpoint.model_type)
    read_cut_loss(config, draft, checkpoint, client)
    if client in SCORING and draft.get("workload.loss") is None:
        # It installs TRL 1.8, whose trainers hold all logits (``pyproject.toml``).
        draft.put("workload.loss", "selective")
    _ignore_unmodelled(config, draft, client)
    draft.account(config, WITHOUT_EFFECT)


def _ignore_unmodelled(config: Settings, draft: Draft, client: Client) -> None:
    """Name what counts and has no word."""
    scores = client in SCORING
    for key, reason in (UNMODELLED | (OF_PREFERENCES if scores else {})).items():
        setting = config.take(key)
        if setting is not None and str(setting.value).casefold() not in {"false", "1"}:
            adapts = key == "unfrozen_parameters" and draft.get("workload.method") != "full"
            draft.ignore(setting, UNFROZEN_BESIDE_ADAPTERS if adapts else reason)
    for key, setting in config.list_left():
        beginning = key.partition(".")[0]
        if beginning in OVERRIDES:
            draft.ignore(setting, OVERRIDES[beginning])
            config.take(key)


def _read_formats(config: Settings, model: Settings) -> None:
    """Set the format of the loaded weights, ``utils/config/__init__.py``, ``resolve_dtype``."""
    config.add("bf16", make_default("bf16", "auto", f"{_SOURCE}/config.py"))
    bf16 = _find_format(config, "bf16", "bfloat16")
    half = _find_format(config, "fp16", "float16", "load_in_8bit")
    is_fp16 = half is not None and half.key == "fp16"
    if bf16 is not None and not (is_fp16 and str(bf16.value) == "auto"):
        model.add("dtype", Setting(key=bf16.key, value="bfloat16", where=bf16.where))
        return
    if bf16 is not None:
        config.take("bf16")
    if half is not None:
        model.add("dtype", Setting(key=half.key, value="float16", where=half.where))
        return
    model.add("dtype", make_default("dtype", "float32", f"{_SOURCE}, resolve_dtype"))


def _find_format(config: Settings, *names: str) -> Setting | None:
    """Return the first of some settings that is on."""
    settings = (config.peek(name) for name in names)
    return next((setting for setting in settings if setting and _is_on(setting)), None)


def _is_on(setting: Setting) -> bool:
    return str(setting.value).casefold() in {"auto", "full"} or setting.as_bool()


def _read_training(config: Settings, training: Settings, draft: Draft, client: Client) -> None:
    """Move what transformers' trainer has, with axolotl's defaults."""
    _read_batch_size(config, draft)
    config.add("micro_batch_size", make_default("micro_batch_size", 1, f"{_SOURCE}/training.py"))
    for key, name in TRAINING.items():
        setting = config.take(key)
        if setting is not None and not (key == "tf32" and setting.value == "auto"):
            training.add(name, setting)
    length = config.take("sequence_len") or make_default(
        "sequence_len", 512, f"{_SOURCE}/config.py"
    )
    training.add("max_length", length)
    optimizer = config.take("optimizer") or make_default(
        "optimizer", "adamw_torch_fused", f"{_SOURCE}/training.py"
    )
    training.add("optim", optimizer)
    _read_checkpointing(config, training, client)
    compiles = config.take("torch_compile")
    if compiles is not None:
        # torch_compile: auto is true from torch 2.5.1 on (utils/schemas/config.py).
        is_auto = str(compiles.value) == "auto"
        training.add("torch_compile", replace(compiles, value=True) if is_auto else compiles)
    for group in ("fsdp_config", "deepspeed"):
        setting = config.take(group)
        if setting is not None:
            training.add(group, setting)
        inner = config.take_group(group)
        for name, value in inner.take_all().items():
            training.add(OFFLOAD.get(name, f"{group}.{name}"), value)
    if any(name == "fsdp" or name.startswith("fsdp_config.") for name in training):
        _set_fsdp(training)


def _set_fsdp(training: Settings) -> None:
    """Turn FSDP on where its settings are; axolotl's version is 1."""
    source = f"{_SOURCE}/validation.py, check_fsdp_version_in_fsdp_config"
    names = ("fsdp_version", "fsdp_config.fsdp_version", "fsdp_config.version")
    if not any(name in training for name in names):
        training.add("fsdp_version", make_default("fsdp_version", 1, source))
    training.add("fsdp", make_default("fsdp", value=True, source="axolotl, core/builders/base.py"))


def _read_batch_size(config: Settings, draft: Draft) -> None:
    """Account for ``batch_size``, which accumulates no steps.

    The schema's own default of 1 comes before what ``normalize_config`` would derive of it.
    """
    batch = config.take("batch_size")
    if batch is None:
        return
    if "gradient_accumulation_steps" in config:
        raise batch.refuse("no value beside gradient_accumulation_steps: set one of them")
    draft.note(batch, "no step is accumulated for it: gradient_accumulation_steps is 1")


def _read_checkpointing(config: Settings, training: Settings, client: Client) -> None:
    """Set what is recomputed: reentrant, but for preferences.

    ``utils/config/__init__.py``, ``normalize_config``.
    """
    switch = config.take("gradient_checkpointing") or make_default(
        "gradient_checkpointing", value=False, source=f"{_SOURCE}/config.py"
    )
    offload = config.take("activation_offloading")
    if str(switch.value) in OFFLOADS:
        offload = Setting(key=switch.key, value=True, where=switch.where)
        switch = Setting(key=switch.key, value=True, where=switch.where)
    training.add("gradient_checkpointing", switch)
    name = "gradient_checkpointing_kwargs.use_reentrant"
    reentrant = config.take(name)
    if reentrant is None and switch.as_bool():
        source = "axolotl, utils/config/__init__.py, normalize_config"
        is_supervised = client in {Client.TRAINER, Client.REWARD}
        reentrant = make_default("use_reentrant", is_supervised, source)
    if reentrant is not None:
        training.add(name, reentrant)
    if offload is None or str(offload.value).casefold() == "false":
        return
    if not switch.as_bool():
        raise offload.refuse("false without gradient_checkpointing, which axolotl needs for it")
    training.add("activation_offloading", Setting(key=offload.key, value=True, where=offload.where))


def _read_adapters(config: Settings, model: Settings, draft: Draft) -> Settings:
    """Return LoRA's arguments; quantised weights are those of the model.

    Raises LaunchFormatError for quantised weights that nothing adapts, as axolotl does.
    """
    adapters = Settings()
    method = config.take("adapter")
    four, eight = config.take("load_in_4bit"), config.take("load_in_8bit")
    quantised = next((s for s in (four, eight) if s is not None and s.as_bool()), None)
    if method is None:
        if quantised is not None:
            raise quantised.refuse("false without an adapter: quantised weights are not trained")
        for key in ("lora_target_modules", "lora_target_linear", *ADAPTERS):
            idle = config.take(key)
            if idle is not None:
                draft.drop(idle)
        return adapters
    kind = method.as_choice(_METHODS)
    if kind == "qlora" and (four is None or not four.as_bool()):
        raise method.refuse("lora, or load_in_4bit: true beside it")
    _read_quantised(kind, four, eight, model, draft)
    if kind == "qlora":
        name = "bnb_4bit_use_double_quant"
        double = config.take(f"bnb_config_kwargs.{name}") or make_default(
            name, value=True, source="axolotl, loaders/model.py"
        )
        model.add(f"quantization_config.{name}", double)
    draft.note(method, f"the weights stay, adapters are trained ({kind})")
    for key, name in ADAPTERS.items():
        setting = config.take(key)
        if setting is not None:
            adapters.add(name, setting)
    _read_targets(config, adapters)
    return adapters


def _read_quantised(
    kind: str, four: Setting | None, eight: Setting | None, model: Settings, draft: Draft
) -> None:
    """Set how weights are quantised, ``loaders/model.py``, ``_set_quantization_config``."""
    for word, setting in (("qlora", four), ("lora", eight)):
        bits = "load_in_4bit" if word == "qlora" else "load_in_8bit"
        if setting is None:
            continue
        if kind == word and setting.as_bool():
            model.add(f"quantization_config.{bits}", setting)
        elif setting.as_bool():
            draft.ignore(setting, f"axolotl quantises so for adapter {word} alone")
        else:
            draft.drop(setting)


def _read_targets(config: Settings, adapters: Settings) -> None:
    targets, linear = config.take("lora_target_modules"), config.take("lora_target_linear")
    if linear is not None and linear.as_bool():
        adapters.add("target_modules", replace(linear, value="all-linear"))
    elif targets is not None:
        adapters.add("target_modules", targets)


READERS = {
    Launcher.AXOLOTL: Reader(
        launcher=Launcher.AXOLOTL,
        versions={"axolotl": AXOLOTL, "transformers": TRANSFORMERS, "peft": PEFT},
        knows_options=False,
        read=read_axolotl,
        programs=frozenset({"axolotl", "axolotl.cli.train"}),
        marks=frozenset(
            {
                *("base_model", "sequence_len", "micro_batch_size", "sample_packing"),
                *("val_set_size", "num_epochs", "datasets", "lora_target_linear"),
            }
        ),
    )
}
