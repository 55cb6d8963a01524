"""Documents of a trainer's launch, by what they configure."""

from dataclasses import dataclass
from pathlib import PurePosixPath

from service.formats.launches.sources.argv import read_argv
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.settings import Setting, Settings

_DEEPSPEED = (
    *("train_micro_batch_size_per_gpu", "zero_allow_untested_optimizer", "wall_clock_breakdown"),
    *("bf16.enabled", "fp16.enabled", "train_batch_size", "steps_per_print"),
)
_SUFFIXES = frozenset({".yml", ".yaml", ".json"})
_TRAINERS = ("model_name_or_path", "output_dir", "base_model", "learning_rate")
_FSDP = ("auto_wrap_policy", "transformer_layer_cls_to_wrap", "reshard_after_forward")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFiles:
    """Arguments of the trainer, and configurations of what starts and shards it."""

    training: tuple[Settings, ...] = ()
    deepspeed: Settings | None = None
    accelerate: Settings | None = None
    fsdp: Settings | None = None


def sort_files(handed_in: HandedIn) -> LaunchFiles:
    """Return the documents by what they configure.

    Raises LaunchFormatError where two configure the same.
    """
    kinds: dict[str, list[tuple[str, Settings]]] = {}
    for name, settings in handed_in.documents.items():
        kinds.setdefault(_get_kind(settings), []).append((name, settings))
    return LaunchFiles(
        training=tuple(settings for _, settings in kinds.get("training", ())),
        deepspeed=_get_only(kinds.get("deepspeed", []), "DeepSpeed"),
        accelerate=_get_only(kinds.get("accelerate", []), "accelerate"),
        fsdp=_get_only(kinds.get("fsdp", []), "FSDP"),
    )


def is_deepspeed(settings: Settings) -> bool:
    """Return whether a document is DeepSpeed's configuration."""
    has_stage = any(name.startswith("zero_optimization.") for name in settings)
    return has_stage or any(name in settings for name in _DEEPSPEED)


def is_accelerate(settings: Settings) -> bool:
    """Return whether a document is accelerate's configuration."""
    return "distributed_type" in settings


def _get_kind(settings: Settings) -> str:
    if is_accelerate(settings):
        return "accelerate"
    if is_deepspeed(settings):
        return "deepspeed"
    trains = any(name in settings for name in _TRAINERS)
    if not trains and any(name in settings or f"fsdp_{name}" in settings for name in _FSDP):
        return "fsdp"
    return "training"


def _get_only(documents: list[tuple[str, Settings]], kind: str) -> Settings | None:
    if len(documents) > 1:
        names = ", ".join(name for name, _ in documents)
        message = f"{names} all configure {kind}; hand in the one that the launch uses"
        raise LaunchFormatError(message)
    return documents[0][1] if documents else None


def join_command(handed_in: HandedIn, config: Settings) -> Settings:
    """Return a file's keys under the options of its command.

    Options are ``--key value`` and ``key=value``. Raises LaunchFormatError where the command names
    a file that was not handed in.
    """
    if handed_in.command is None:
        return config
    options: dict[str, Setting] = {}
    for name, setting in (
        read_argv(handed_in.command.arguments, where=handed_in.command.where).take_all().items()
    ):
        text = str(setting.value)
        if not name.startswith("argument_"):
            options[name] = setting
        elif PurePosixPath(text).suffix in _SUFFIXES:
            if handed_in.find_document(text) is None:
                file = Setting(key="config", value=text, where=handed_in.command.where)
                raise file.refuse("a file that was handed in too")
        elif "=" in text:
            key, _, value = text.partition("=")
            options[key] = Setting(key=key, value=value, where=handed_in.command.where)
    return Settings(options).merge(config)
