"""accelerate's FSDP configuration.

accelerate 1.15, ``commands/config/config_args.py`` and ``utils/dataclasses.py``.
"""

from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import Checkpointing, OffloadTarget, TrainWorkload
from service.formats.renderings.job import Job


def render_accelerate_config(job: Job, workload: TrainWorkload) -> dict[str, object]:
    """Return the configuration of ``accelerate launch``.

    Rank and address of a node come with the command.
    """
    is_fsdp1, precision = job.layout.sharding is Sharding.FSDP1, workload.precision
    casts = precision.autocast or precision.compute_dtype is not precision.param_dtype
    config: dict[str, object] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "FSDP",
        "mixed_precision": precision.compute_dtype.value if casts else "no",
        "num_machines": job.num_nodes,
        "num_processes": job.gpus,
        "rdzv_backend": "c10d" if job.num_nodes > 1 else "static",
        "main_training_function": "main",
        "fsdp_config": _render_common(workload)
        | (_render_fsdp1(job.layout) if is_fsdp1 else _render_fsdp2(job.layout, workload)),
    }
    return config if is_fsdp1 else config | {"parallelism_config": _render_degrees(job.layout)}


def _render_common(workload: TrainWorkload) -> dict[str, object]:
    """Return the settings of both FSDP versions.

    Their own checkpoints are not reentrant, so that the Trainer makes those.
    """
    recomputes = (
        workload.activation_checkpointing is Checkpointing.FULL
        and not workload.reentrant_checkpointing
    )
    return {
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_offload_params": workload.offload.parameters is OffloadTarget.CPU,
        "fsdp_activation_checkpointing": recomputes,
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        "fsdp_cpu_ram_efficient_loading": True,
    }


def _render_fsdp2(layout: Layout, workload: TrainWorkload) -> dict[str, object]:
    return {
        "fsdp_version": 2,
        "fsdp_reshard_after_forward": layout.reshard_after_forward,
        "fsdp_activation_checkpointing_offload": workload.offload.activations is OffloadTarget.CPU,
    }


def _render_fsdp1(layout: Layout) -> dict[str, object]:
    """Return FSDP1's settings.

    A strategy says whether parameters are gathered again, and whether nodes have copies.
    """
    ranks = layout.data_parallel * layout.context_parallel
    strategy = "FULL_SHARD" if layout.reshard_after_forward else "SHARD_GRAD_OP"
    if layout.shard_size not in {None, ranks}:
        strategy = "HYBRID_SHARD" if layout.reshard_after_forward else "HYBRID_SHARD_ZERO2"
    return {
        "fsdp_version": 1,
        "fsdp_sharding_strategy": strategy,
        "fsdp_use_orig_params": True,
        "fsdp_sync_module_states": True,
    }


def _render_degrees(layout: Layout) -> dict[str, object]:
    shards = layout.shard_size or layout.data_parallel
    return {
        "parallelism_config_dp_replicate_size": layout.data_parallel // shards,
        "parallelism_config_dp_shard_size": shards,
        "parallelism_config_tp_size": layout.tensor_parallel,
        "parallelism_config_cp_size": layout.context_parallel,
    }
