"""LLaMA-Factory's files and options, as arguments of its libraries.

LLaMA-Factory 0.9.5, ``hparams/*``, ``model/adapter.py`` and ``model/model_utils/*``.
"""

from fnmatch import fnmatchcase

from service.formats.launches.recipes.llamafactory_words import UNMODELLED, WITHOUT_EFFECT
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.sources.reader import Reader
from service.formats.launches.trainers.launch_files import join_command, sort_files
from service.formats.launches.trainers.lowering import lower_trainer
from service.formats.launches.trainers.setup import PEFT, TRANSFORMERS, Client, TrainerSetup
from service.formats.launches.trainers.unmodelled_trainers import refuse_untrained
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.launch import Launcher
from service.formats.launches.values.settings import Setting, Settings, make_default

LLAMA_FACTORY = "0.9.5"
"""Release whose keys and defaults are known."""
_SOURCE = f"LLaMA-Factory {LLAMA_FACTORY}, hparams"
_NEXT = ("model_class", "dist_config.name", "kernel_config.name", "init_config.name")
_CLIENTS = {
    "sft": Client.TRAINER,
    "pt": Client.TRAINER,
    "dpo": Client.DPO,
    "kto": Client.KTO,
    "rm": Client.REWARD,
}
_METHODS = {"lora": "lora", "full": "full"}
_REFERRING = ("sigmoid", "hinge", "ipo", "kto_pair")
_PREFERENCES = {
    **dict.fromkeys(_REFERRING, "pairs, with a reference"),
    **dict.fromkeys(("orpo", "simpo"), "pairs, without a reference"),
}
_ATTENTION = {
    "auto": None,
    "disabled": "eager",
    "sdpa": "sdpa",
    "fa2": "flash_attention_2",
    "fa3": "flash_attention_3",
}
_ADAPTERS = {
    "lora_alpha": "lora_alpha",
    "lora_dropout": "lora_dropout",
    "use_dora": "use_dora",
    "use_rslora": "use_rslora",
    "additional_target": "modules_to_save",
}
_OPTIMIZERS = {"use_galore": "galore_adamw", "use_apollo": "apollo_adamw", "use_muon": "muon"}


def read_llamafactory(handed_in: HandedIn, draft: Draft) -> None:
    """Read a file of LLaMA-Factory and what its command adds."""
    config = handed_in.arguments
    for document in sort_files(handed_in).training:
        config = config.merge(document)
    config = join_command(handed_in, config)
    _refuse_next(config)
    name = config.take("model_name_or_path")
    if name is None:
        draft.ask("model", "the file names no model_name_or_path")
    else:
        draft.put("model", name.as_text(), name)
    refuse_untrained(config)
    stage = config.take("stage") or make_default("stage", "sft", f"{_SOURCE}/finetuning_args.py")
    client = _read_client(stage, config, draft)
    model = Settings()
    adapters = _read_method(config, model, draft)
    _read_training(config, draft)
    _read_packing(stage, config, draft)
    _read_kernels(config, model, draft)
    for key, reason in UNMODELLED.items():
        setting = config.take(key)
        if setting is not None and str(setting.value).casefold() != "false":
            draft.ignore(setting, reason)
    for key, setting in config.list_left():
        if any(fnmatchcase(key, pattern) for pattern in WITHOUT_EFFECT):
            draft.drop(setting)
            config.take(key)
    setup = TrainerSetup(
        client=client,
        model_name=None if name is None else name.as_text(),
        training=Settings(dict(config.list_left())),
        model=model,
        adapters=adapters,
        prepares=False,
        keeps_adapters_fp32=True,
        applies_liger=True,
        measures=False,
        uses_all_gpus=True,
        reads_nodes=True,
    )
    config.take_all()
    lower_trainer(setup, draft, handed_in)


def _refuse_next(config: Settings) -> None:
    """Refuse a file of LLaMA-Factory's next schema (its ``src/llamafactory/v1``)."""
    for key in _NEXT:
        setting = config.peek(key)
        if setting is not None:
            raise setting.refuse(f"keys of LLaMA-Factory {LLAMA_FACTORY}; those of v1 are not read")


def _read_client(stage: Setting, config: Settings, draft: Draft) -> Client:
    """Return the trainer of a stage.

    Raises LaunchFormatError for a stage or a loss that has no model here.
    """
    client = stage.as_choice(_CLIENTS)
    draft.note(stage, f"the trainer is {client.value}")
    loss = config.peek("pref_loss")
    if loss is not None and client is Client.DPO:
        draft.note(loss, f"a loss over {loss.as_choice(_PREFERENCES)}")
        if loss.value not in _REFERRING:
            name = "precompute_ref_log_probs"
            config.add(name, Setting(key=loss.key, value=True, where=loss.where))
        config.take("pref_loss")
    elif loss is not None:
        draft.drop(loss)
        config.take("pref_loss")
    if client in {Client.DPO, Client.KTO}:
        # Its own ``concatenated_forward`` (``train/dpo/trainer.py``, ``train/kto/trainer.py``).
        draft.put("workload.loss", "full_logits", stage)
    if client is Client.REWARD:
        draft.warn(
            "stage rm keeps the head of words beside its value head, and logits of every token in "
            "fp32, which are not counted: 6 bytes for each token and word"
        )
    return client


def _read_method(config: Settings, model: Settings, draft: Draft) -> Settings:
    """Return LoRA's arguments; the weights' format and bits are the model's.

    Trained weights are cast to fp32 but for ``pure_bf16`` (``model/adapter.py``, ``init_adapter``).
    """
    method = config.take("finetuning_type") or make_default(
        "finetuning_type", "lora", f"{_SOURCE}/finetuning_args.py"
    )
    kind = method.as_choice(_METHODS)
    draft.note(method, f"what is trained: {kind}")
    bits = config.take("quantization_bit")
    library = config.take("quantization_method")
    double = config.take("double_quantization")
    adapters = Settings()
    pure = config.take("pure_bf16")
    _put_dtype(config, model, pure, is_full=kind == "full")
    if bits is not None:
        if kind == "full":
            raise bits.refuse("no value beside finetuning_type full: adapters alone are trained")
        _put_bits(bits, library, double, model)
    rank, targets = config.take("lora_rank"), config.take("lora_target")
    if kind == "full":
        for setting in (rank, targets, *(config.take(key) for key in _ADAPTERS)):
            if setting is not None:
                draft.drop(setting)
        return adapters
    source = f"{_SOURCE}/finetuning_args.py"
    adapters.add("r", rank or make_default("lora_rank", 8, source))
    adapters.add("target_modules", targets or make_default("lora_target", "all", source))
    for key, name in _ADAPTERS.items():
        setting = config.take(key)
        if setting is not None:
            adapters.add(name, setting)
    return adapters


def _put_dtype(config: Settings, model: Settings, pure: Setting | None, *, is_full: bool) -> None:
    if pure is not None and pure.as_bool():
        model.add("dtype", Setting(key=pure.key, value="bfloat16", where=pure.where))
        return
    if is_full:
        source = f"LLaMA-Factory {LLAMA_FACTORY}, model/adapter.py"
        model.add("dtype", make_default("dtype", "float32", source))
        return
    for key, word in (("bf16", "bfloat16"), ("fp16", "float16")):
        switch = config.peek(key)
        if switch is not None and switch.as_bool():
            model.add("dtype", Setting(key=key, value=word, where=switch.where))


def _put_bits(
    bits: Setting, library: Setting | None, double: Setting | None, model: Settings
) -> None:
    """Set how weights are quantised, ``model/model_utils/quantization.py``."""
    if library is not None:
        library.as_choice({"bnb": "bnb", "bitsandbytes": "bnb"})
    word = bits.as_choice({"4": "load_in_4bit", "8": "load_in_8bit"})
    switch = Setting(key=bits.key, value=True, where=bits.where)
    model.add(f"quantization_config.{word}", switch)
    source = f"{_SOURCE}/model_args.py"
    model.add(
        "quantization_config.bnb_4bit_use_double_quant",
        double or make_default("double_quantization", value=True, source=source),
    )


def _read_training(config: Settings, draft: Draft) -> None:
    """Set the defaults that LLaMA-Factory has in place of the libraries'."""
    source = f"{_SOURCE}/data_args.py"
    if "cutoff_len" not in config:
        config.add("max_length", make_default("cutoff_len", 2048, source))
    if "bf16" not in config and "fp16" not in config:
        config.add("bf16", make_default("bf16", value=False, source="transformers"))
    disabled = config.take("disable_gradient_checkpointing")
    runs = disabled is None or not disabled.as_bool()
    switch = make_default("disable_gradient_checkpointing", value=runs, source=f"{_SOURCE}")
    if disabled is not None:
        switch = Setting(key=disabled.key, value=runs, where=disabled.where)
    config.take("gradient_checkpointing", "gradient_checkpointing_kwargs.use_reentrant")
    reentrant = config.take("use_reentrant_gc") or make_default(
        "use_reentrant_gc", value=True, source=f"{_SOURCE}/model_args.py"
    )
    fresh = {"activation_checkpointing": switch}
    if runs:
        fresh["activation_checkpointing_kwargs.use_reentrant"] = reentrant
    for name, setting in fresh.items():
        config.add(name, setting)
    for key, word in _OPTIMIZERS.items():
        chosen = config.take(key)
        if chosen is not None and chosen.as_bool():
            former = config.take("optim")
            if former is not None:
                draft.drop(former)
            draft.put("workload.optimizer", word, chosen)
            config.add("optim", Setting(key=key, value=word, where=chosen.where))


def _read_packing(stage: Setting, config: Settings, draft: Draft) -> None:
    """Set rows of several samples; those of pre-training are cut through samples."""
    packing, neat = config.take("packing"), config.take("neat_packing")
    if neat is not None and neat.as_bool():
        if stage.value != "sft":
            raise neat.refuse("false: neat_packing is of stage sft")
        draft.put("workload.packing", "packed", neat)
    elif neat is not None:
        draft.drop(neat)
    if packing is not None:
        draft.note(packing, "rows of cutoff_len tokens, whatever they hold")


def _read_kernels(config: Settings, model: Settings, draft: Draft) -> None:
    attention = config.take("flash_attn")
    if attention is not None:
        word = attention.as_choice(_ATTENTION)
        if word is None:
            draft.note(attention, "the attention that transformers chooses")
        else:
            setting = Setting(key=attention.key, value=word, where=attention.where)
            model.add("attn_implementation", setting)
    unsloth, offloads = config.take("use_unsloth"), config.take("use_unsloth_gc")
    if unsloth is not None and unsloth.as_bool():
        draft.put("workload.kernels", "unsloth", unsloth)
    liger = config.take("enable_liger_kernel")
    if liger is not None:
        config.add("use_liger_kernel", liger)
    if offloads is not None:
        target = "cpu" if offloads.as_bool() else "none"
        draft.put("workload.offload.activations", target, offloads)


READERS = {
    Launcher.LLAMAFACTORY: Reader(
        launcher=Launcher.LLAMAFACTORY,
        versions={"llamafactory": LLAMA_FACTORY, "transformers": TRANSFORMERS, "peft": PEFT},
        read=read_llamafactory,
        programs=frozenset({"llamafactory-cli", "lmf"}),
        marks=frozenset(
            {"stage", "finetuning_type", "cutoff_len", "template", "quantization_bit"}
            | {"lora_target", "enable_liger_kernel", *_NEXT}
        ),
        hints=frozenset({"flash_attn"}),
    )
}
