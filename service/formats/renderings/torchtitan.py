"""torchtitan's TOML.

0.2, ``torchtitan/config/job_config.py``; later releases take the same names as arguments.
"""

from service.estimator.values.layout import Layout
from service.estimator.values.workload import Checkpointing, TrainWorkload
from service.formats.renderings.text import Scalar

_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_OPTIMIZERS = {
    "adamw": ("AdamW", "foreach"),
    "adamw_fused": ("AdamW", "fused"),
    "adamw_loop": ("AdamW", "for-loop"),
}


def render_torchtitan_tables(
    workload: TrainWorkload, layout: Layout
) -> dict[str, dict[str, Scalar]]:
    """Return the tables of layout, batch and recomputation."""
    shards = layout.shard_size or layout.data_parallel
    micro, steps = workload.micro_batch_size, workload.gradient_accumulation_steps
    precision = workload.precision
    training: dict[str, Scalar] = {
        "local_batch_size": micro,
        "global_batch_size": micro * steps * layout.data_parallel,
        "seq_len": workload.sequence_length,
        "dtype": _DTYPES[precision.param_dtype.value],
        "mixed_precision_param": _DTYPES[precision.compute_dtype.value],
        "mixed_precision_reduce": _DTYPES[(precision.reduce_dtype or precision.grad_dtype).value],
    }
    parallelism: dict[str, Scalar] = {
        "data_parallel_replicate_degree": layout.data_parallel // shards,
        "data_parallel_shard_degree": shards,
        "fsdp_reshard_after_forward": "always" if layout.reshard_after_forward else "never",
        "tensor_parallel_degree": layout.tensor_parallel,
        "context_parallel_degree": layout.context_parallel,
        "pipeline_parallel_degree": layout.pipeline_parallel,
    }
    if layout.tensor_parallel > 1:
        parallelism["disable_loss_parallel"] = False
    name, implementation = _OPTIMIZERS.get(workload.optimizer, (workload.optimizer, "foreach"))
    return {
        "training": training,
        "parallelism": parallelism,
        "activation_checkpoint": _render_recomputation(workload),
        "compile": {"enable": workload.compile},
        "optimizer": {"name": name, "implementation": implementation},
    }


def list_unexpressed(workload: TrainWorkload) -> tuple[str, ...]:
    """Return parts of a workload that torchtitan cannot express."""
    notes = []
    if workload.optimizer not in _OPTIMIZERS:
        notes.append(
            f"torchtitan builds AdamW; {workload.optimizer} needs an optimizer of one's own"
        )
    if workload.precision.master_dtype is not None:
        notes.append(
            f"precision {workload.precision.name}: torchtitan casts fp32 weights at gather; "
            "masters of 16-bit weights need an optimizer of one's own",
        )
    return tuple(notes)


def _render_recomputation(workload: TrainWorkload) -> dict[str, Scalar]:
    mode = workload.activation_checkpointing
    every = (
        {}
        if mode is not Checkpointing.SELECTIVE
        else {"selective_ac_option": str(workload.selective_every or "op")}
    )
    return {"mode": mode.value, **every}
