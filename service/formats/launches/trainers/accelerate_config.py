"""accelerate's file: who shards, in which format, and over which mesh.

accelerate 1.15, ``commands/config/config_args.py`` and ``commands/launch.py``.
"""

from dataclasses import dataclass

from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.trainers.fsdp_config import normalize_names
from service.formats.launches.trainers.trl_launcher import find_accelerate_config
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings, make_default

ACCELERATE = "1.15.0"
"""Release whose keys and defaults are known."""
_KINDS = {
    **dict.fromkeys(("NO", "MULTI_GPU", "false"), "ddp"),
    "FSDP": "fsdp",
    "DEEPSPEED": "deepspeed",
}
"""Kinds of processes; YAML's own NO is false."""
_FLAGS = {"multi_gpu": "MULTI_GPU", "use_fsdp": "FSDP", "use_deepspeed": "DEEPSPEED"}
_HALVES = {"no": None, "bf16": "bf16", "fp16": "fp16"}
_LAUNCH = "accelerate 1.15, commands/launch.py"
_DEEPSPEED_NAMES = {
    "zero_stage": "zero_optimization.stage",
    "offload_optimizer_device": "zero_optimization.offload_optimizer.device",
    "offload_param_device": "zero_optimization.offload_param.device",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "gradient_clipping": "gradient_clipping",
}
WITHOUT_EFFECT = (
    *("compute_environment", "debug", "downcast_bf16", "machine_rank", "main_process_*"),
    *("main_training_function", "rdzv_*", "same_network", "tpu_*", "use_cpu", "gpu_ids"),
    *("enable_cpu_affinity", "command_file", "commands", "deepspeed_config.zero3_*"),
    *("deepspeed_config.deepspeed_*", "deepspeed_config.offload_*_nvme_path"),
    *("dynamo_config.dynamo_backend", "parallelism_config.parallelism_config_cp_comm_strategy"),
    *("num_machines", "num_processes", "deepspeed_hostfile", "env.*"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccelerateConfig:
    """DeepSpeed's or FSDP's settings in accelerate's file, and its mesh."""

    deepspeed: Settings | None
    fsdp: Settings | None
    degrees: Settings


def join_starter(handed_in: HandedIn, file: Settings | None, draft: Draft) -> Settings | None:
    """Return accelerate's file under the options of its command.

    None where the launch has neither.
    """
    command = handed_in.command
    starter = None if command is None else command.starters.get("accelerate")
    if starter is None:
        return file
    path = starter.take("config_file", "accelerate_config")
    packaged = None if path is None else find_accelerate_config(str(path.value))
    if path is not None and file is None and packaged is not None:
        draft.note(path, "accelerate's configuration that TRL has by this name")
        file = packaged
    elif path is not None and file is not None:
        draft.note(path, "accelerate's configuration, which was handed in")
    elif path is not None:
        draft.note(path, "accelerate's configuration, which was not handed in")
        why = f"{path.value} was not handed in"
        draft.ask("layout.sharding", why, ("ddp", "fsdp1", "fsdp2", "deepspeed"))
        draft.ask("layout.zero_stage", why, (0, 1, 2, 3))
    joined: dict[str, Setting] = {}
    for name in starter:
        target = _find_place(name)
        setting = None if target is None else starter.take(name)
        if target is not None and setting is not None:
            joined[target] = setting
    for flag, kind in _FLAGS.items():
        switch = starter.take(flag)
        if switch is not None and switch.as_bool():
            joined["distributed_type"] = Setting(key=switch.key, value=kind, where=switch.where)
    starter.take("use_parallelism_config")
    return Settings(joined).merge(file or Settings())


def _find_place(option: str) -> str | None:
    """Return the key of accelerate's file for an option of its command."""
    if option.startswith("fsdp_"):
        return f"fsdp_config.{option}"
    if option.startswith("parallelism_config_"):
        return f"parallelism_config.{option}"
    if option in _DEEPSPEED_NAMES or option == "deepspeed_config_file":
        return f"deepspeed_config.{option}"
    if option == "dynamo_backend":
        return "dynamo_config.dynamo_backend"
    direct = {"mixed_precision", "num_processes", "num_machines", "gpu_ids"}
    return option if option in direct else None


def read_accelerate(file: Settings, training: Settings, draft: Draft) -> AccelerateConfig:
    """Return what accelerate's file configures; fill in the trainer's precision."""
    kind = file.take("distributed_type")
    word = "ddp" if kind is None else kind.as_choice(_KINDS)
    if kind is not None:
        draft.note(kind, f"who shards the states: {word}")
    _fill_precision(file, training, draft)
    dynamo = file.take("dynamo_config.dynamo_backend")
    if dynamo is not None and str(dynamo.value).upper() not in {"NO", "EAGER"}:
        training.add("torch_compile", Setting(key=dynamo.key, value=True, where=dynamo.where))
    prefix = "parallelism_config_"
    mesh = {
        name.removeprefix(prefix): setting
        for name, setting in file.take_group("parallelism_config").take_all().items()
    }
    result = AccelerateConfig(
        deepspeed=_read_deepspeed(file) if word == "deepspeed" else None,
        fsdp=_read_fsdp(file, draft) if word == "fsdp" else None,
        degrees=Settings(mesh),
    )
    draft.account(file, WITHOUT_EFFECT)
    return result


def _fill_precision(file: Settings, training: Settings, draft: Draft) -> None:
    """Fill in the format of autocast where the trainer has none."""
    mixed = file.take("mixed_precision")
    if mixed is None:
        return
    word = mixed.as_choice(_HALVES)
    if "bf16" in training or "fp16" in training or word is None:
        draft.note(mixed, "the trainer's own bf16 and fp16 decide")
        return
    training.add(word, Setting(key=mixed.key, value=True, where=mixed.where))


def _read_deepspeed(file: Settings) -> Settings:
    """Return accelerate's few words for DeepSpeed in DeepSpeed's own."""
    group = file.take_group("deepspeed_config")
    config = Settings()
    for name, key in _DEEPSPEED_NAMES.items():
        setting = group.take(name)
        if setting is not None:
            config.add(key, setting)
    path = group.take("deepspeed_config_file")
    if path is not None:
        config.add("deepspeed_config_file", path)
    config.add("zero_optimization.stage", make_default("zero_stage", 2, _LAUNCH))
    for name, setting in group.list_left():
        config.add(f"accelerate.{name}", setting)
    return config


def _read_fsdp(file: Settings, draft: Draft) -> Settings:
    settings = normalize_names(file.take_group("fsdp_config"), draft, offload="offload_params")
    settings.add("version", make_default("fsdp_version", 1, _LAUNCH))
    return settings
