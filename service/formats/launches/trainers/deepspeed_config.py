"""DeepSpeed's configuration: stage, offload, precision and batch.

deepspeed 0.19.6, ``runtime/config.py``, ``runtime/zero/config.py`` and ``runtime/engine.py``;
transformers 5.23, ``integrations/deepspeed.py``, fills in what is ``"auto"``.
"""

from dataclasses import dataclass

from service.estimator.values.optimizers import COMPRESSING
from service.formats.launches.trainers.number_formats import DTYPES
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings, make_default

DEEPSPEED = "0.19.6"
"""Release whose keys and defaults are known."""
_AUTO = "auto"
_DEVICES = {"none": "none", "cpu": "cpu", "nvme": "nvme"}
_OPTIMIZERS = {
    "adam": "adamw_torch_fused",
    "adamw": "adamw_torch_fused",
    "lion": "lion",
    "adagrad": "adagrad",
    "muon": "muon",
    "sgd": "sgd",
    **{word: name.value for name, word in COMPRESSING.items()},
}
"""DeepSpeed's names: its Adam is fused (``engine.py``, ``_configure_basic_optimizer``)."""
_FILLED = {
    "train_micro_batch_size_per_gpu": "per_device_train_batch_size",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "gradient_clipping": "max_grad_norm",
}
"""Keys that have to be what the trainer's argument is, or ``auto``."""
WITHOUT_EFFECT = (
    *("steps_per_print", "wall_clock_breakdown", "dump_state", "prescale_gradients"),
    *("scheduler.*", "optimizer.*", "fp16.*", "bf16.*", "zero_allow_untested_optimizer"),
    *("zero_force_ds_cpu_optimizer", "gradient_predivide_factor", "tensorboard.*", "wandb.*"),
    *("csv_monitor.*", "flops_profiler.*", "comms_logger.*", "aio.*", "checkpoint.*"),
    *("zero_optimization.*.pin_memory", "zero_optimization.*.nvme_path"),
    *("zero_optimization.*.buffer_count", "zero_optimization.*.fast_init"),
    *("zero_optimization.*gather_*16*_weights_on_model_save", "zero_optimization.reduce_scatter"),
    *("zero_optimization.ignore_unused_parameters", "zero_optimization.elastic_checkpoint"),
    *("zero_optimization.load_from_fp32_weights", "data_types.*", "accelerate.*"),
)
_BUCKETS = (
    *("reduce_bucket_size", "allgather_bucket_size", "stage3_prefetch_bucket_size"),
    *("stage3_param_persistence_threshold", "stage3_max_live_parameters"),
    *("stage3_max_reuse_distance", "sub_group_size", "overlap_comm", "contiguous_gradients"),
    *("allgather_partitions", "round_robin_gradients", "max_live_parameters"),
    "max_reuse_distance",
)
_SHIPPED_BF16: dict[str, bool | str] = {"bf16.enabled": True}
_SHIPPED_AUTO: dict[str, bool | str] = {"bf16.enabled": _AUTO, "fp16.enabled": _AUTO}
_OPTIMIZER_ON_CPU = {"zero_optimization.offload_optimizer.device": "cpu"}
_PARAMETERS_ON_CPU = {"zero_optimization.offload_param.device": "cpu"}
_LLAMA_FACTORY = "LLaMA-Factory 0.9.5, examples/deepspeed"
_AXOLOTL = "axolotl 0.19, deepspeed_configs"
SHIPPED: dict[str, tuple[str, dict[str, object]]] = {
    "ds_z0_config.json": (_LLAMA_FACTORY, {"zero_optimization.stage": 0, **_SHIPPED_AUTO}),
    "ds_z2_config.json": (_LLAMA_FACTORY, {"zero_optimization.stage": 2, **_SHIPPED_AUTO}),
    "ds_z2_offload_config.json": (
        _LLAMA_FACTORY,
        {"zero_optimization.stage": 2, **_OPTIMIZER_ON_CPU, **_SHIPPED_AUTO},
    ),
    "ds_z3_config.json": (_LLAMA_FACTORY, {"zero_optimization.stage": 3, **_SHIPPED_AUTO}),
    "ds_z3_offload_config.json": (
        _LLAMA_FACTORY,
        {
            "zero_optimization.stage": 3,
            **_OPTIMIZER_ON_CPU,
            **_PARAMETERS_ON_CPU,
            **_SHIPPED_AUTO,
        },
    ),
    "zero1.json": (_AXOLOTL, {"zero_optimization.stage": 1, **_SHIPPED_AUTO}),
    "zero1_torch_compile.json": (_AXOLOTL, {"zero_optimization.stage": 1, **_SHIPPED_AUTO}),
    "zero2.json": (
        _AXOLOTL,
        {"zero_optimization.stage": 2, **_OPTIMIZER_ON_CPU, **_SHIPPED_AUTO},
    ),
    "zero2_torch_compile.json": (
        _AXOLOTL,
        {"zero_optimization.stage": 2, **_OPTIMIZER_ON_CPU, **_SHIPPED_AUTO},
    ),
    "zero3.json": (_AXOLOTL, {"zero_optimization.stage": 3, **_SHIPPED_AUTO}),
    "zero3_bf16.json": (_AXOLOTL, {"zero_optimization.stage": 3, **_SHIPPED_BF16}),
    "zero3_bf16_cpuoffload_all.json": (
        _AXOLOTL,
        {
            "zero_optimization.stage": 3,
            **_OPTIMIZER_ON_CPU,
            **_PARAMETERS_ON_CPU,
            **_SHIPPED_BF16,
        },
    ),
    "zero3_bf16_cpuoffload_params.json": (
        _AXOLOTL,
        {"zero_optimization.stage": 3, **_PARAMETERS_ON_CPU, **_SHIPPED_BF16},
    ),
}
"""Configurations that come with a project, by their file's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepSpeedPlan:
    """Decisions of DeepSpeed's configuration beside the stage.

    ``filled`` are the trainer's arguments that it says too; ``total`` is the batch of all ranks.
    """

    is_replicated: bool
    """Whether ZeRO shards nothing."""

    filled: Settings
    total: Setting | None
    half: dict[str, Setting]
    accumulates: Setting | None
    pure: tuple[Setting, Setting | None] | None


def find_shipped(filename: str) -> Settings | None:
    """Return a project's own configuration by name, None without one."""
    if filename not in SHIPPED:
        return None
    source, values = SHIPPED[filename]
    return Settings([make_default(key, value, source) for key, value in values.items()])


def read_deepspeed(config: Settings, draft: Draft) -> DeepSpeedPlan:
    """Set stage and offload; return what else is decided."""
    draft.put("layout.sharding", "deepspeed")
    stage = config.take("zero_optimization.stage") or make_default(
        "zero_optimization.stage", 0, f"DeepSpeed {DEEPSPEED}, runtime/zero/config.py"
    )
    draft.put("layout.zero_stage", stage.as_choice({str(n): n for n in range(4)}), stage)
    _read_offload(config, draft)
    for name in _BUCKETS:
        setting = config.take(f"zero_optimization.{name}")
        if setting is not None:
            draft.note(setting, "a buffer of ZeRO's, counted at DeepSpeed's default")
    plan = DeepSpeedPlan(
        is_replicated=stage.as_int() == 0,
        filled=_read_filled(config),
        total=_take_number(config, "train_batch_size"),
        half=_read_half(config),
        accumulates=config.take("data_types.grad_accum_dtype"),
        pure=_read_pure(config),
    )
    _read_unmodelled(config, draft)
    draft.account(config, WITHOUT_EFFECT)
    return plan


def _read_offload(config: Settings, draft: Draft) -> None:
    for part, field in (("optimizer", "optimizer"), ("param", "parameters")):
        device = config.take(f"zero_optimization.offload_{part}.device")
        if device is not None:
            draft.put(f"workload.offload.{field}", device.as_choice(_DEVICES), device)


def _read_filled(config: Settings) -> Settings:
    """Return the trainer's arguments that are numbers here."""
    filled = Settings()
    for key, name in _FILLED.items():
        setting = _take_number(config, key)
        if setting is not None:
            filled.add(name, setting)
    kind = config.take("optimizer.type")
    if kind is not None:
        word = kind.as_choice(_OPTIMIZERS)
        filled.add("optim", Setting(key=kind.key, value=word, where=kind.where))
    return filled


def _take_number(config: Settings, key: str) -> Setting | None:
    setting = config.take(key)
    return None if setting is None or str(setting.value) == _AUTO else setting


def _read_half(config: Settings) -> dict[str, Setting]:
    """Return the switches of 16-bit formats that are said."""
    half: dict[str, Setting] = {}
    for word, names in (("bf16", ("bf16", "bfloat16")), ("fp16", ("fp16",))):
        setting = config.take(*(f"{name}.enabled" for name in names))
        if setting is not None and str(setting.value) != _AUTO:
            half[word] = setting
    if len(half) > 1 and all(setting.as_bool() for setting in half.values()):
        raise half["fp16"].refuse(f"false beside bf16.enabled ({half['bf16'].where})")
    return half


def _read_pure(config: Settings) -> tuple[Setting, Setting | None] | None:
    switch = config.take("bf16.bf16_master_weights_and_grads")
    states = config.take("bf16.bf16_optimizer_states")
    return None if switch is None or not switch.as_bool() else (switch, states)


def _read_unmodelled(config: Settings, draft: Draft) -> None:
    for name, reason in _UNMODELLED.items():
        setting = config.take(name)
        if setting is not None and setting.value not in (False, 0, 1, -1):
            draft.ignore(setting, reason)
    for name in ("tensor_parallel.autotp_size", "sequence_parallel_size"):
        degree = config.take(name)
        if degree is not None:
            field = "tensor" if name.startswith("tensor") else "context"
            draft.put(f"layout.{field}_parallel", degree.as_int(minimum=1), degree)


_UNMODELLED = {
    "zero_optimization.zero_hpz_partition_size": "a second copy of the weights takes more",
    "zero_optimization.mics_shard_size": "states are counted as sharded over every rank",
    "zero_optimization.zero_quantized_weights": "gathered weights are counted in 16 bits",
    "zero_optimization.zero_quantized_gradients": "reduced gradients are counted in 16 bits",
    "activation_checkpointing.partition_activations": "activations are counted as not partitioned",
    "activation_checkpointing.cpu_checkpointing": "checkpoints are counted on the GPU",
    "sparse_attention.mode": "attention is counted as dense",
    "compression_training": "weights are counted as not compressed",
}


def get_accumulation(plan: DeepSpeedPlan, half: str) -> tuple[str, Setting]:
    """Return the format of accumulated gradients.

    By default it is the weights', and fp32 for bf16 without ZeRO.
    """
    optimizer = plan.filled.peek("optim")
    is_compressed = optimizer is not None and optimizer.value in COMPRESSING
    is_fp32 = plan.is_replicated and half == "bf16" and not is_compressed
    setting = plan.accumulates or make_default(
        "data_types.grad_accum_dtype",
        "fp32" if is_fp32 else half,
        f"DeepSpeed {DEEPSPEED}, runtime/engine.py, get_data_types",
    )
    return setting.as_choice(DTYPES), setting
