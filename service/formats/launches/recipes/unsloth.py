"""Unsloth's scripts: the arguments of their calls.

unsloth 2026.10.9, ``models/loader.py`` and ``models/llama.py``.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from service.formats.launches.recipes.unsloth_adapters import read_adapters
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.sources.python_calls import read_calls
from service.formats.launches.sources.reader import Reader
from service.formats.launches.trainers.lowering import lower_trainer
from service.formats.launches.trainers.setup import PEFT, TRANSFORMERS, TRL, Client, TrainerSetup
from service.formats.launches.trainers.trl_releases import tell_older_release
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import Launcher
from service.formats.launches.values.settings import Setting, Settings, is_default, make_default

UNSLOTH = "2026.10.9"
"""Release whose keys and defaults are known."""
_TRAINERS = {
    **dict.fromkeys(("SFTTrainer", "UnslothTrainer"), Client.SFT),
    "Trainer": Client.TRAINER,
    "DPOTrainer": Client.DPO,
    "KTOTrainer": Client.KTO,
    "ORPOTrainer": Client.ORPO,
    "CPOTrainer": Client.CPO,
    "RewardTrainer": Client.REWARD,
}
"""Trainers that have a model here, by their classes."""
_POLICY = "GRPOTrainer"
_POLICY_APART = (
    "Unsloth's loss of a policy in chunks, and weights that it shares with vLLM (fast_inference), "
    "have no term: launcher trl_grpo reads GRPOConfig's arguments as TRL runs them, which holds an "
    "engine's weights twice"
)
_CONFIGS = {
    Client.SFT: "SFTConfig",
    Client.DPO: "DPOConfig",
    Client.KTO: "KTOConfig",
    Client.ORPO: "ORPOConfig",
    Client.CPO: "CPOConfig",
    Client.REWARD: "RewardConfig",
}
"""Configs of one trainer each."""
_ARGUMENTS = ("TrainingArguments", "UnslothTrainingArguments")
"""Configs that every trainer takes."""
_LOADERS = ("Fast*.from_pretrained", "Fast*.get_peft_model")
_CALLEES = frozenset({*_LOADERS, *_CONFIGS.values(), *_ARGUMENTS, "*Trainer"})
_HALF = re.compile(r"(not )?[\w.]*is_bf(?:loat)?16_supported\(\)")
"""What scripts ask of the GPU in place of saying bf16 or fp16."""
_QLORA_PRECISION = "bf16_autocast"
_PATCH = "PatchDPOTrainer"
"""A function that Unsloth's scripts call before they build a trainer."""
_OF_TRAINERS = ("argument_1", "model", "args", "formatting_func", "compute_metrics")
_PACKED = "-bnb-4bit"
"""What stands behind the names of checkpoints that Unsloth has quantised as it does when it loads
(``models/mapper.py``, with ``-unsloth`` before it where some layers are left out).
"""
_SOURCE = f"unsloth {UNSLOTH}, models"
_LOADED_WITHOUT_EFFECT = (
    *("token", "device_map", "trust_remote_code", "random_state", "load_in_16bit", "revision"),
    *("return_logits", "auto_model", "use_exact_model_name", "fix_tokenizer", "tokenizer_name"),
)
"""Of ``from_pretrained``: ``load_in_4bit`` and ``load_in_8bit`` say the format."""
_WITH_LENGTH = frozenset({Client.DPO, Client.KTO, Client.ORPO, Client.CPO, Client.REWARD})
"""Trainers whose rows have the config's ``max_length``."""


def read_unsloth(handed_in: HandedIn, draft: Draft) -> None:
    """Read the calls that load, adapt and train a model."""
    calls: dict[str, Settings] = {}
    for file, text in handed_in.scripts.items():
        for callee, settings in read_calls(file, text, _CALLEES).items():
            calls[callee] = calls.get(callee, Settings()).merge(settings)
    trainer = _find_trainer(calls)
    loader = calls.get("from_pretrained")
    if loader is None:
        message = f"builds {trainer} with a model that no Fast*.from_pretrained of it loads"
        raise LaunchFormatError(message, field="launcher")
    client = _TRAINERS[trainer]
    training = _decide_halves(_gather_training(calls, trainer, handed_in.arguments, draft), draft)
    model_name = _read_name(loader, draft)
    _read_length(client, loader, training, draft)
    draft.put("workload.kernels", "unsloth")
    adapters = read_adapters(calls.get("get_peft_model"), loader, training, draft, _SOURCE)
    training = Settings(dict(training.list_left()))
    setup = TrainerSetup(
        client=client,
        model_name=model_name,
        training=training,
        model=_read_model(loader),
        adapters=adapters,
        prepares=False,
        has_own_loss=True,
        keeps_adapters_fp32=True,
        trl_before=tell_older_release(client, training, draft),
    )
    lower_trainer(setup, draft, handed_in, _OF_TRAINERS)
    if (
        draft.get("workload.precision") == _QLORA_PRECISION
        and draft.get("workload.method") == "qlora"
    ):
        # It is this method's own on a GPU with bf16, and fp16 on others, as Unsloth has it.
        draft.drop_default("workload.precision")
    draft.account(loader, _LOADED_WITHOUT_EFFECT)


def _gather_training(
    calls: Mapping[str, Settings], trainer: str, arguments: Settings, draft: Draft
) -> Settings:
    """Return the arguments of a trainer and its configs.

    Those of another trainer's config are named.
    """
    training = arguments
    config = _CONFIGS.get(_TRAINERS[trainer])
    for callee in (*_CONFIGS.values(), *_ARGUMENTS, trainer):
        settings = calls.get(callee, Settings())
        if callee in _CONFIGS.values() and callee != config:
            draft.account(settings)
        else:
            training = training.merge(settings)
    return training


def _read_name(loader: Settings, draft: Draft) -> str | None:
    """Set the model; ask for one that the script does not spell."""
    name = loader.take("model_name") or loader.take("argument_1")
    if name is None:
        draft.ask("model", "the script names no model as a text")
    elif name.is_source:
        draft.ask("model", f"{name.where}: the script takes it from {name.value}")
    else:
        model = name.as_text().removesuffix(_PACKED).removesuffix("-unsloth")
        draft.put("model", model, name)
        return model
    return None


def _read_length(client: Client, loader: Settings, training: Settings, draft: Draft) -> None:
    """Set the tokens of a row.

    Unsloth cuts ``max_seq_length`` of the trainer to the loader's, and sets SFT's ``max_length`` to
    it alone (``models/rl.py``).
    """
    length = loader.take("max_seq_length") or make_default("max_seq_length", 2048, _SOURCE)
    cut = training.take("max_seq_length")
    if client in _WITH_LENGTH:
        for setting in (length, cut):
            if setting is not None and not is_default(setting):
                draft.note(setting, "the trainer's max_length says how long rows are")
        return
    replaced = training.take("max_length")
    if replaced is not None:
        draft.note(replaced, "Unsloth sets it to max_seq_length")
    if cut is not None and cut.as_int(minimum=1) < length.as_int(minimum=1):
        length, cut = cut, length
    if cut is not None and not is_default(cut):
        draft.note(cut, "the smaller max_seq_length counts")
    training.add("sequence_length", length)


def _find_trainer(calls: Mapping[str, Settings]) -> str:
    """Return the class of the one trainer that a script builds.

    Raises LaunchFormatError where it builds none, or one without a model here.
    """
    built = [callee for callee in calls if callee.endswith("Trainer") and callee != _PATCH]
    others = [callee for callee in built if callee not in _TRAINERS]
    if others:
        message = f"trains by {others[0]}, which has no model here; {', '.join(_TRAINERS)} have"
        if others[0] == _POLICY:
            message = f"{message}. {_POLICY_APART}"
        raise LaunchFormatError(message, field="launcher")
    if len(built) > 1:
        message = f"trains by {' and '.join(built)}; hand in one training at a time"
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
            where = f"default: {setting.where}, of a GPU that has bf16"
            decided[name] = replace(setting, value=match[1] is None, where=where, is_source=False)
            draft.warn("the script asks whether the GPU has bf16: it has, where none is named")
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
