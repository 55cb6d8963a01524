"""torchtitan's TOML.

0.2.2, ``torchtitan/config/job_config.py``. 0.3.0 reads none (``torchtitan/config/manager.py``):
there a Python function returns the configuration, named by ``--module`` and ``--config``.
"""

from service.estimator.model.architecture import Architecture
from service.estimator.model.pipelines.chunks import Chunk
from service.estimator.model.pipelines.split import split_model
from service.estimator.model.pipelines.torchtitan import name_torchtitan_split
from service.estimator.values.layout import Layout
from service.estimator.values.losses import Loss
from service.estimator.values.pipeline import ONE_CHUNK, PipelineSchedule
from service.estimator.values.workload import Checkpointing, OffloadTarget, TrainWorkload
from service.formats.renderings.text import TomlValue

_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_SCHEDULES = {
    PipelineSchedule.GPIPE: "GPipe",
    PipelineSchedule.ONE_F_ONE_B: "1F1B",
    PipelineSchedule.INTERLEAVED: "Interleaved1F1B",
    PipelineSchedule.LOOPED_BFS: "LoopedBFS",
    PipelineSchedule.INTERLEAVED_ZERO_BUBBLE: "InterleavedZeroBubble",
    PipelineSchedule.ZBV: "ZBVZeroBubble",
    PipelineSchedule.DUAL_PIPE_V: "DualPipeV",
}
_FLOAT8 = "quantize.linear.float8"
_RELEASE = "the TOML is for torchtitan 0.2.2: 0.3.0 reads none"
_OPTIMIZERS = {
    "adamw": ("AdamW", "foreach"),
    "adamw_fused": ("AdamW", "fused"),
    "adamw_loop": ("AdamW", "for-loop"),
}


def render_torchtitan_tables(
    model: Architecture, workload: TrainWorkload, layout: Layout
) -> dict[str, dict[str, TomlValue]]:
    """Return the tables of layout, batch and recomputation."""
    shards = layout.shard_size or layout.data_parallel
    micro, steps = workload.micro_batch_size, workload.gradient_accumulation_steps
    precision = workload.precision
    training: dict[str, TomlValue] = {
        "local_batch_size": micro,
        "global_batch_size": micro * steps * layout.data_parallel,
        "seq_len": workload.sequence_length,
        "dtype": _DTYPES[precision.param_dtype.value],
        "mixed_precision_param": _DTYPES[precision.compute_dtype.value],
        "mixed_precision_reduce": _DTYPES[(precision.reduce_dtype or precision.grad_dtype).value],
    }
    parallelism: dict[str, TomlValue] = {
        "data_parallel_replicate_degree": layout.data_parallel // shards,
        "data_parallel_shard_degree": shards,
        "fsdp_reshard_after_forward": "always" if layout.reshard_after_forward else "never",
        "tensor_parallel_degree": layout.tensor_parallel,
        "context_parallel_degree": layout.context_parallel,
        "pipeline_parallel_degree": layout.pipeline_parallel,
    }
    if layout.tensor_parallel > 1:
        parallelism["disable_loss_parallel"] = False
    if layout.pipeline_parallel > 1:
        # A pipeline takes the micro-batches of a local batch one by one.
        training["local_batch_size"] = micro * steps
        parallelism |= _render_pipeline(model, layout) | {
            "pipeline_parallel_microbatch_size": micro
        }
    name, implementation = _OPTIMIZERS.get(workload.optimizer, (workload.optimizer, "foreach"))
    optimizer: dict[str, TomlValue] = {"name": name, "implementation": implementation}
    if workload.optimizer_in_backward:
        optimizer["early_step_in_backward"] = True
    if workload.offload.parameters is OffloadTarget.CPU:
        training["enable_cpu_offload"] = True
    return {
        **({"model": {"converters": [_FLOAT8]}} if workload.float8 else {}),
        "training": training,
        "parallelism": parallelism,
        "activation_checkpoint": _render_recomputation(workload),
        "compile": {"enable": workload.compile},
        "optimizer": optimizer,
        **({"debug": {"deterministic": True}} if workload.deterministic else {}),
    }


def _render_pipeline(model: Architecture, layout: Layout) -> dict[str, TomlValue]:
    """Return the schedule and the split of a pipeline.

    Layers that no number of layers a stage gives are module names.
    """
    split = name_torchtitan_split(layout).pipeline_split
    parts: dict[str, TomlValue] = {
        "pipeline_parallel_schedule": _SCHEDULES[layout.schedule],
        "fsdp_reshard_after_forward": "default" if layout.reshard_after_forward else "never",
    }
    usual = layout.virtual_pipeline_stages == (1 if layout.schedule in ONE_CHUNK else 2)
    per_stage = split.pipeline_parallel_layers_per_stage
    if split.pipeline_layers is not None or not (usual or per_stage):
        chunks = split_model(model, name_torchtitan_split(layout))
        return parts | {"module_fqns_per_model_part": [_list_modules(chunk) for chunk in chunks]}
    ends = (
        split.pipeline_parallel_first_stage_less_layers,
        split.pipeline_parallel_last_stage_less_layers,
    )
    first, last = (1 if less is None else less for less in ends)
    parts["pipeline_parallel_first_stage_less_layers"] = first
    parts["pipeline_parallel_last_stage_less_layers"] = last
    return parts | ({} if per_stage is None else {"pipeline_parallel_layers_per_stage": per_stage})


def _list_modules(chunk: Chunk) -> list[str]:
    layers = range(chunk.first_layer, chunk.first_layer + chunk.num_layers)
    return [
        *(("tok_embeddings",) if chunk.has_embedding else ()),
        *(f"layers.{index}" for index in layers),
        *(("norm", "output") if chunk.has_loss else ()),
    ]


def list_unexpressed(workload: TrainWorkload) -> tuple[str, ...]:
    """Return parts of a workload that torchtitan cannot express."""
    notes = [_RELEASE]
    if workload.optimizer not in _OPTIMIZERS:
        notes.append(
            f"torchtitan builds AdamW; {workload.optimizer} needs an optimizer of one's own"
        )
    if workload.loss is Loss.CHUNKED:
        notes.append("a chunked loss is ChunkedLossWrapper of torchtitan 0.3, which no TOML names")
    if not workload.gradient_clipping:
        notes.append("torchtitan always clips gradients by their norm")
    if workload.precision.master_dtype is not None:
        notes.append(
            f"precision {workload.precision.name}: torchtitan casts fp32 weights at gather; "
            "masters of 16-bit weights need an optimizer of one's own",
        )
    return tuple(notes)


def _render_recomputation(workload: TrainWorkload) -> dict[str, TomlValue]:
    mode = workload.activation_checkpointing
    every = (
        {}
        if mode is not Checkpointing.SELECTIVE
        else {"selective_ac_option": str(workload.selective_every or "op")}
    )
    return {"mode": mode.value, **every}
