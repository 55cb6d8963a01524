"""Keyword arguments of scripts with transformers' Trainer or one of TRL's.

``arguments`` hold ``TrainingArguments``' (or ``SFTConfig``'s, …) by their names, ``LoraConfig``'s
under ``peft`` and ``from_pretrained``'s under ``model_kwargs``.
"""

import json
from dataclasses import replace
from functools import partial

from service.formats.launches.sources.argv import Grammar, read_argv
from service.formats.launches.sources.documents import flatten
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.sources.reader import Reader
from service.formats.launches.trainers.accelerate_config import ACCELERATE
from service.formats.launches.trainers.deepspeed_config import DEEPSPEED
from service.formats.launches.trainers.launch_files import sort_files
from service.formats.launches.trainers.lowering import lower_trainer
from service.formats.launches.trainers.setup import PEFT, TRANSFORMERS, TRL, Client, TrainerSetup
from service.formats.launches.trainers.trl_releases import tell_older_release
from service.formats.launches.trainers.unmodelled_trainers import ask_method, refuse_untrained
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import Launcher
from service.formats.launches.values.settings import Setting, Settings, make_default

_CLIENTS = {
    Launcher.TRAINER: Client.TRAINER,
    Launcher.TRL_SFT: Client.SFT,
    Launcher.TRL_DPO: Client.DPO,
    Launcher.TRL_KTO: Client.KTO,
    Launcher.TRL_ORPO: Client.ORPO,
    Launcher.TRL_CPO: Client.CPO,
    Launcher.TRL_REWARD: Client.REWARD,
    Launcher.DEEPSPEED: Client.TRAINER,
    Launcher.ACCELERATE: Client.TRAINER,
}
_MODEL_NAMES = ("model", "model_name_or_path", "model_id", "base_model", "model_name")
_ADAPTER_GROUPS = ("peft", "peft_config", "lora", "lora_config")
_MODEL_GROUPS = ("model_kwargs", "model_init_kwargs")
_TRL_MODEL_WORDS = (
    *("dtype", "torch_dtype", "attn_implementation", "load_in_4bit", "load_in_8bit"),
    "quantization_config",
)
_LORA_FLAGS = {
    "lora_r": "r",
    "lora_target_modules": "target_modules",
    "lora_alpha": "lora_alpha",
    "lora_dropout": "lora_dropout",
    "lora_task_type": "task_type",
    "lora_modules_to_save": "modules_to_save",
    "use_rslora": "use_rslora",
    "use_dora": "use_dora",
}
"""Names of TRL's ``ModelConfig`` (``trl/trainer/model_config.py``) for ``LoraConfig``'s."""
_OBJECTS = frozenset(
    {
        *("gradient_checkpointing_kwargs", "fsdp_config", "deepspeed", "accelerator_config"),
        *("lr_scheduler_kwargs", "model_init_kwargs", "parallelism_config", "liger_kernel_config"),
    }
)
_GRAMMAR = Grammar(
    flags=frozenset(
        {
            *("bf16", "fp16", "gradient_checkpointing", "packing", "use_peft", "load_in_4bit"),
            *("load_in_8bit", "do_train", "do_eval", "push_to_hub", "use_liger_kernel"),
            *("torch_compile", "padding_free", "activation_offloading", "use_rslora", "use_dora"),
            *("eval_on_start", "prediction_loss_only", "batch_eval_metrics", "eval_packing"),
            *("bf16_full_eval", "fp16_full_eval", "load_best_model_at_end"),
        }
    ),
    many=frozenset({"lora_target_modules", "report_to", "loss_type", "include_for_metrics"}),
)


def read_trainer(launcher: Launcher, handed_in: HandedIn, draft: Draft) -> None:
    """Read the arguments of a trainer's script."""
    training = gather_arguments(handed_in)
    training = _open_objects(training)
    note_config(training, handed_in, draft, is_required=_CLIENTS[launcher].is_trl)
    if not _CLIENTS[launcher].is_trl:
        refuse_untrained(training)
    if launcher in {Launcher.DEEPSPEED, Launcher.ACCELERATE}:
        _ask_batch(training, handed_in, draft)
    lower_trainer(gather_setup(_CLIENTS[launcher], training, draft), draft, handed_in)
    ask_method(draft)


def gather_arguments(handed_in: HandedIn, flags: frozenset[str] = frozenset()) -> Settings:
    """Return the arguments of a trainer's script.

    Those of its command win over its files'. ``flags`` are options without a value, beside those
    that every trainer has.
    """
    training = handed_in.arguments
    for document in sort_files(handed_in).training:
        training = training.merge(document)
    command = handed_in.command
    if command is None:
        return training
    grammar = replace(_GRAMMAR, flags=_GRAMMAR.flags | flags)
    return read_argv(command.arguments, grammar, where=command.where).merge(training)


def note_config(
    training: Settings, handed_in: HandedIn, draft: Draft, *, is_required: bool
) -> None:
    """Tell of the file that ``--config`` names, whose arguments are read.

    Raises LaunchFormatError where TRL's was not handed in.
    """
    config = training.peek("config")
    if config is None or not str(config.value).endswith((".yaml", ".yml", ".json")):
        return
    if handed_in.find_document(str(config.value)) is not None:
        draft.note(config, "the file whose arguments are read")
        training.take("config")
    elif is_required:
        message = f"{config.key} names {config.value}, which was not handed in; hand it in, too"
        raise LaunchFormatError(message, where=config.where)


def _open_objects(training: Settings) -> Settings:
    """Return arguments with the keys of those that are JSON.

    transformers 5.23, ``training_args.py``, ``_VALID_DICT_FIELDS``.
    """
    opened: dict[str, Setting] = {}
    for name, setting in training.take_all().items():
        if name in _OBJECTS and str(setting.value).lstrip().startswith("{"):
            for key, leaf in parse_object(setting).take_all().items():
                opened[f"{name}.{key}"] = Setting(
                    key=f"{setting.key}.{key}", value=leaf.value, where=setting.where
                )
        else:
            opened[name] = setting
    return Settings(opened)


def parse_object(setting: Setting) -> Settings:
    """Return the keys of an option that is JSON.

    Raises LaunchFormatError for what is none.
    """
    try:
        value = json.loads(str(setting.value))
    except (ValueError, RecursionError):
        raise setting.refuse("a JSON object") from None
    return flatten(value, setting.where)


def _ask_batch(training: Settings, handed_in: HandedIn, draft: Draft) -> None:
    """Ask for the batch where neither the trainer nor DeepSpeed says it."""
    deepspeed = sort_files(handed_in).deepspeed
    micro = None if deepspeed is None else deepspeed.peek("train_micro_batch_size_per_gpu")
    is_open = micro is None or str(micro.value) == "auto"
    if "per_device_train_batch_size" not in training and is_open:
        why = "the trainer's arguments say it, which were not handed in; 8 is the Trainer's default"
        draft.ask("workload.micro_batch_size", why)


def gather_setup(client: Client, training: Settings, draft: Draft) -> TrainerSetup:
    """Return a script's arguments sorted by the library that takes them."""
    name = training.take(*_MODEL_NAMES)
    if name is not None:
        draft.put("model", name.as_text(), name)
    else:
        draft.ask("model", "the arguments name no model")
    before = tell_older_release(client, training, draft)
    model = _take_groups(training, _MODEL_GROUPS)
    for word in _TRL_MODEL_WORDS:
        _move(training, word, model, word)
    adapters = _take_groups(training, _ADAPTER_GROUPS)
    uses = training.take("use_peft")
    if uses is None or uses.as_bool():
        for flag, word in _LORA_FLAGS.items():
            _move(training, flag, adapters, word)
    if uses is not None and uses.as_bool():
        source = f"TRL {TRL}, trl/trainer/model_config.py"
        adapters.add("r", make_default("lora_r", 16, source))
        adapters.add("lora_dropout", make_default("lora_dropout", 0.05, source))
    prepares = training.take("prepare_model_for_kbit_training")
    if prepares is not None:
        draft.note(prepares, "whether norms and the head are cast to fp32")
    return TrainerSetup(
        client=client,
        model_name=None if name is None else name.as_text(),
        training=training,
        model=model,
        adapters=adapters,
        prepares=None if prepares is None else prepares.as_bool(),
        trl_before=before,
    )


def _take_groups(settings: Settings, prefixes: tuple[str, ...]) -> Settings:
    group = Settings()
    for prefix in prefixes:
        group = group.merge(settings.take_group(prefix))
    return group


def _move(source: Settings, name: str, target: Settings, other: str) -> None:
    """Hand a setting, and those below it, to another library's."""
    setting: Setting | None = source.take(name)
    if setting is not None:
        target.add(other, setting)
    below = source.take_group(name)
    for inner in below:
        nested = below.peek(inner)
        if nested is not None:
            target.add(f"{other}.{inner}", nested)


def _name_scripts(trainer: str) -> tuple[str, ...]:
    """Return TRL's command of a trainer, and usual names of scripts."""
    scripts = (f"{prefix}{trainer}.py" for prefix in ("", "run_", "train_", "finetune_"))
    return (*scripts, f"trl {trainer}")


def _make_reader(
    launcher: Launcher,
    programs: tuple[str, ...],
    *,
    marks: tuple[str, ...] = (),
    hints: tuple[str, ...] = (),
) -> Reader:
    versions = {"transformers": TRANSFORMERS, "peft": PEFT}
    return Reader(
        launcher=launcher,
        versions=versions if launcher is Launcher.TRAINER else {**versions, "trl": TRL},
        read=partial(read_trainer, launcher),
        programs=frozenset(programs),
        marks=frozenset(marks),
        hints=frozenset(hints),
    )


READERS = {
    Launcher.TRAINER: _make_reader(
        Launcher.TRAINER,
        ("run_clm.py", "run_mlm.py", "run_glue.py", "run_summarization.py"),
        hints=(
            *("per_device_train_batch_size", "output_dir", "learning_rate", "num_train_epochs"),
            *("model_name_or_path", "gradient_checkpointing", "lr_scheduler_type"),
        ),
    ),
    Launcher.DEEPSPEED: replace(
        _make_reader(
            Launcher.DEEPSPEED,
            (),
            hints=(
                *("zero_optimization.stage", "train_batch_size", "steps_per_print"),
                *("train_micro_batch_size_per_gpu", "fp16.enabled", "bf16.enabled"),
            ),
        ),
        versions={"deepspeed": DEEPSPEED, "transformers": TRANSFORMERS},
        hint_limit=1,
    ),
    Launcher.ACCELERATE: replace(
        _make_reader(Launcher.ACCELERATE, (), hints=("distributed_type", "compute_environment")),
        hint_limit=1,
        versions={"accelerate": ACCELERATE, "transformers": TRANSFORMERS},
    ),
    Launcher.TRL_SFT: _make_reader(
        Launcher.TRL_SFT,
        ("sft_*.py", *_name_scripts("sft")),
        marks=("packing", "completion_only_loss", "assistant_only_loss", "dataset_text_field"),
    ),
    Launcher.TRL_DPO: _make_reader(
        Launcher.TRL_DPO,
        ("dpo_*.py", *_name_scripts("dpo")),
        marks=("precompute_ref_log_probs", "sync_ref_model", "f_divergence_type", "loss_weights"),
    ),
    Launcher.TRL_KTO: _make_reader(
        Launcher.TRL_KTO,
        ("kto_*.py", *_name_scripts("kto")),
        marks=("desirable_weight", "undesirable_weight"),
    ),
    Launcher.TRL_ORPO: _make_reader(Launcher.TRL_ORPO, ("orpo_*.py", *_name_scripts("orpo"))),
    Launcher.TRL_CPO: _make_reader(
        Launcher.TRL_CPO,
        ("cpo_*.py", "simpo_*.py", *_name_scripts("cpo"), *_name_scripts("simpo")),
        marks=("cpo_alpha", "simpo_gamma"),
    ),
    Launcher.TRL_REWARD: _make_reader(
        Launcher.TRL_REWARD,
        ("reward_modeling.py", *_name_scripts("reward")),
        marks=("center_rewards_coefficient",),
    ),
}
