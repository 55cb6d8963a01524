"""accelerate's configuration for FSDP2 (accelerate 1.15, ``commands/config/config_args.py`` and ``utils/dataclasses.py``)."""

from service.estimator.workload import Checkpointing, OffloadTarget, TrainWorkload
from service.formats.renderings.job import Job


def accelerate_config(job: Job, workload: TrainWorkload) -> dict[str, object]:
    """Return the configuration of ``accelerate launch``; rank and address of a node come with the command."""
    layout, precision = job.layout, workload.precision
    casts = precision.autocast or precision.compute_dtype is not precision.param_dtype
    shards = layout.shard_size or layout.data_parallel
    return {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "FSDP",
        "mixed_precision": precision.compute_dtype.value if casts else "no",
        "num_machines": job.num_nodes,
        "num_processes": job.gpus,
        "rdzv_backend": "c10d" if job.num_nodes > 1 else "static",
        "main_training_function": "main",
        "fsdp_config": {
            "fsdp_version": 2,
            "fsdp_reshard_after_forward": layout.reshard_after_forward,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_offload_params": workload.offload.parameters is OffloadTarget.CPU,
            "fsdp_activation_checkpointing": workload.activation_checkpointing is Checkpointing.FULL,
            "fsdp_activation_checkpointing_offload": workload.offload.activations is OffloadTarget.CPU,
            "fsdp_state_dict_type": "SHARDED_STATE_DICT",
            "fsdp_cpu_ram_efficient_loading": True,
        },
        "parallelism_config": {
            "parallelism_config_dp_replicate_size": layout.data_parallel // shards,
            "parallelism_config_dp_shard_size": shards,
            "parallelism_config_tp_size": layout.tensor_parallel,
            "parallelism_config_cp_size": layout.context_parallel,
        },
    }
