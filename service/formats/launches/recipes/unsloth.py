"""Unsloth's scripts: the arguments of their calls.

unsloth 2026.10.9, ``models/loader.py`` and ``models/llama.py``.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.sources.python_calls import read_calls
from service.formats.launches.sources.reader import Reader
from service.formats.launches.trainers.lowering import lower_trainer
from service.formats.launches.trainers.setup import PEFT, TRANSFORMERS, TRL, Client, TrainerSetup
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import Launcher
from service.formats.launches.values.settings import Setting, Settings, make_default

UNSLOTH = "2026.10.9"
"""Release whose keys and defaults are known."""
_TRAINERS = {
    **dict.fromkeys(("SFTTrainer", "UnslothTrainer"), Client.SFT),
    "Trainer": Client.TRAINER,
    "DPOTrainer": Client.DPO,
    "KTOTrainer": Client.KTO,
    "RewardTrainer": Client.REWARD,
}
"""Trainers that have a model here, by their classes."""
_CONFIGS = (
    *("SFTConfig", "DPOConfig", "KTOConfig", "RewardConfig"),
    *("TrainingArguments", "UnslothTrainingArguments"),
)
_LOADERS = ("Fast*.from_pretrained", "Fast*.get_peft_model")
_CALLEES = frozenset({*_LOADERS, *_CONFIGS, "*Trainer"})
_HALF = re.compile(r"(not )?[\w.]*is_bf(?:loat)?16_supported\(\)")
"""What scripts ask of the GPU in place of saying bf16 or fp16."""
_PATCH = "PatchDPOTrainer"
"""A function that Unsloth's scripts call before they build a trainer."""
_OF_TRAINERS = ("argument_1", "model", "args", "formatting_func", "compute_metrics")
_SOURCE = f"unsloth {UNSLOTH}, models"
_TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
_LOADED_WITHOUT_EFFECT = (
    *("token", "device_map", "trust_remote_code", "random_state", "load_in_16bit", "revision"),
    *("return_logits", "auto_model", "use_exact_model_name", "fix_tokenizer", "tokenizer_name"),
)
"""Of ``from_pretrained``: ``load_in_4bit`` and ``load_in_8bit`` say the format."""
_ADAPTED_WITHOUT_EFFECT = (
    *("argument_1", "model", "bias", "random_state", "loftq_config", "max_seq_length"),
    "task_type",
)
_LORA = ("r", "target_modules", "lora_alpha", "lora_dropout", "use_rslora", "modules_to_save")


def read_unsloth(handed_in: HandedIn, draft: Draft) -> None:
    """Read the calls that load, adapt and train a model."""
    calls: dict[str, Settings] = {}
    for file, text in handed_in.scripts.items():
        for callee, settings in read_calls(file, text, _CALLEES).items():
            calls[callee] = calls.get(callee, Settings()).merge(settings)
    loader = calls.get("from_pretrained", Settings())
    trainer = _find_trainer(calls)
    training = handed_in.arguments
    for callee in (*_CONFIGS, trainer):
        training = training.merge(calls.get(callee, Settings()))
    training = _decide_halves(training, draft)
    name = loader.take("model_name") or loader.take("argument_1")
    if name is None:
        draft.ask("model", "the script names no model as a text")
    else:
        draft.put("model", name.as_text(), name)
    length = loader.take("max_seq_length") or make_default("max_seq_length", 2048, _SOURCE)
    training.take("max_seq_length", "max_length")
    training.add("sequence_length", length)
    draft.put("workload.kernels", "unsloth")
    adapters = _read_adapters(calls.get("get_peft_model"), training, draft)
    setup = TrainerSetup(
        client=_TRAINERS[trainer],
        model_name=None if name is None else name.as_text(),
        training=Settings(dict(training.list_left())),
        model=_read_model(loader),
        adapters=adapters,
        prepares=False,
        keeps_adapters_fp32=True,
    )
    lower_trainer(setup, draft, handed_in, _OF_TRAINERS)
    draft.account(loader, _LOADED_WITHOUT_EFFECT)


def _find_trainer(calls: Mapping[str, Settings]) -> str:
    """Return the class of the one trainer that a script builds.

    Raises LaunchFormatError where it builds none, or one without a model here.
    """
    built = [callee for callee in calls if callee.endswith("Trainer") and callee != _PATCH]
    others = [callee for callee in built if callee not in _TRAINERS]
    if others:
        message = f"trains by {others[0]}, which has no model here; {', '.join(_TRAINERS)} have"
        raise LaunchFormatError(message, field="launcher")
    if not built:
        message = f"builds no trainer, one of {', '.join(_TRAINERS)}: it trains nothing"
        raise LaunchFormatError(message, field="launcher")
    return built[0]


def _decide_halves(training: Settings, draft: Draft) -> Settings:
    """Return arguments with the GPU's answer: it has bf16."""
    decided: dict[str, Setting] = {}
    for name, setting in training.take_all().items():
        match = _HALF.fullmatch(setting.value) if isinstance(setting.value, str) else None
        decided[name] = setting
        if match is not None:
            decided[name] = replace(setting, value=match[1] is None)
            draft.warn("the script asks whether the GPU has bf16: one that has is evaluated")
    return Settings(decided)


def _read_model(loader: Settings) -> Settings:
    """Return the model's arguments: 4 bits unless it is said."""
    model = Settings()
    full = loader.take("full_finetuning")
    four, eight = loader.take("load_in_4bit"), loader.take("load_in_8bit")
    is_full = full is not None and full.as_bool()
    is_eight = eight is not None and eight.as_bool()
    if eight is not None and is_eight:
        model.add("quantization_config.load_in_8bit", eight)
    elif not is_full:
        switch = four or make_default("load_in_4bit", value=True, source=_SOURCE)
        model.add("quantization_config.load_in_4bit", switch)
        if switch.as_bool():
            double = make_default("bnb_4bit_use_double_quant", value=True, source=_SOURCE)
            model.add("quantization_config.bnb_4bit_use_double_quant", double)
    dtype = loader.take("dtype")
    model.add("dtype", dtype or make_default("dtype", "bfloat16", _SOURCE))
    return model


def _read_adapters(call: Settings | None, training: Settings, draft: Draft) -> Settings:
    adapters = Settings()
    if call is None:
        return adapters
    for name in _LORA:
        setting = call.take(name)
        if setting is not None:
            adapters.add(name, setting)
    adapters.add("r", make_default("r", 16, _SOURCE))
    adapters.add("target_modules", make_default("target_modules", _TARGETS, _SOURCE))
    switch = call.take("use_gradient_checkpointing")
    offloads = switch is None or str(switch.value) == "unsloth"
    replaced = training.take("gradient_checkpointing")
    if replaced is not None:
        draft.note(replaced, "get_peft_model's use_gradient_checkpointing decides")
    if switch is None or offloads:
        where = f"default: {_SOURCE}" if switch is None else switch.where
        switch = Setting(key="use_gradient_checkpointing", value=True, where=where)
        draft.put("workload.offload.activations", "cpu", switch)
    training.add("activation_checkpointing", switch)
    draft.account(call, _ADAPTED_WITHOUT_EFFECT)
    return adapters


READERS = {
    Launcher.UNSLOTH: Reader(
        launcher=Launcher.UNSLOTH,
        versions={
            "unsloth": UNSLOTH,
            "transformers": TRANSFORMERS,
            "trl": TRL,
            "peft": PEFT,
        },
        read=read_unsloth,
        packages=frozenset({"unsloth"}),
    )
}
