"""The launcher that TRL's commands bring along.

``trl sft`` starts its script by accelerate, with the options that the script does not know, and
with a configuration of TRL's own where one is named (TRL 1.16, ``trl/cli/commands/training.py``,
``trl/cli/accelerate_config.py`` and ``trl/accelerate_configs``).
"""

from collections.abc import Mapping

from service.formats.launches.values.settings import Settings, make_default

_SOURCE = "TRL 1.16, trl/accelerate_configs"
_COMMON = {"num_processes": 8, "num_machines": 1, "mixed_precision": "bf16"}
_FSDP = {
    "distributed_type": "FSDP",
    "fsdp_config.fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
    "fsdp_config.fsdp_offload_params": False,
    "fsdp_config.fsdp_activation_checkpointing": False,
}
_CONFIGS: Mapping[str, Mapping[str, object]] = {
    "single_gpu": {"distributed_type": "NO"},
    "multi_gpu": {"distributed_type": "MULTI_GPU"},
    "fsdp1": {
        **_FSDP,
        "fsdp_config.fsdp_version": 1,
        "fsdp_config.fsdp_reshard_after_forward": "FULL_SHARD",
    },
    "fsdp2": {
        **_FSDP,
        "fsdp_config.fsdp_version": 2,
        "fsdp_config.fsdp_reshard_after_forward": True,
    },
    **{
        f"zero{stage}": {"distributed_type": "DEEPSPEED", "deepspeed_config.zero_stage": stage}
        for stage in (1, 2, 3)
    },
}
"""What decides memory in each, by its name."""


def find_accelerate_config(name: str) -> Settings | None:
    """Return the configuration of accelerate that TRL has by this name."""
    config = _CONFIGS.get(name)
    if config is None:
        return None
    values = {**_COMMON, **config}
    return Settings({key: make_default(key, value, _SOURCE) for key, value in values.items()})
