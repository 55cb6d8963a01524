"""Launch of training jobs by torchrun or accelerate.

Files fix the layout.
"""

from collections.abc import Sequence

from service.estimator.model.quantization.loading import as_loaded
from service.estimator.values.layout import FULLY_SHARDED, ContextMethod, Sharding
from service.estimator.values.workload import Framework, TrainWorkload
from service.formats.renderings import deepspeed, torchtitan, torchtitan_python
from service.formats.renderings.fsdp import render_accelerate_config
from service.formats.renderings.heads import (
    get_task_type,
    leave_head_unpacked,
    list_head_notes,
    render_head_keywords,
    render_head_training,
)
from service.formats.renderings.job import HEAD_ADDRESS, NODE_RANK, Job, Launch
from service.formats.renderings.megatron import render_megatron_arguments
from service.formats.renderings.scripts import litgpt
from service.formats.renderings.text import Scalar, as_json, as_toml, render_flags
from service.formats.renderings.trainer import (
    list_script_notes,
    render_adapter_keywords,
    render_model_keywords,
    render_training_arguments,
)

PORT = 29500
"""torchrun's own default for rendezvous."""
_DEEPSPEED, _ACCELERATE, _TORCHTITAN = (
    "deepspeed_config.json",
    "accelerate_config.yaml",
    "torchtitan.toml",
)


def launch_training(job: Job, workload: TrainWorkload) -> Launch:
    """Return the launch of a training job on each of its nodes."""
    allocator = _render_environment(workload)
    if workload.framework is Framework.MEGATRON:
        arguments = render_megatron_arguments(job.model, workload, job.layout)
        return Launch(
            command=render_torchrun(job, ("pretrain_gpt.py", *arguments)), environment=allocator
        )
    if workload.framework is Framework.TORCHTITAN:
        tables = as_toml(torchtitan.render_torchtitan_tables(job.model, workload, job.layout))
        command = render_torchrun(job, ("-m", "torchtitan.train", "--job.config_file", _TORCHTITAN))
        named = job.checkpoints[0] if job.checkpoints else job.model_name
        added = "name and flavor in [model]" if workload.float8 else "[model]"
        module = torchtitan_python.render_torchtitan_module(job.model, workload, job.layout)
        return Launch(
            command=command,
            files={
                _TORCHTITAN: tables,
                **({} if module is None else {f"{torchtitan_python.MODULE}.py": module}),
            },
            environment=allocator,
            notes=(
                f"add {added} of {named} to {_TORCHTITAN}",
                *torchtitan.list_unexpressed(workload),
                torchtitan_python.explain_torchtitan_module(workload),
            ),
        )
    if workload.framework is Framework.LITGPT:
        named = job.checkpoints[0] if job.checkpoints else job.model_name
        return Launch(
            command=litgpt.render_litgpt_command(named, job.model, workload),
            environment=allocator,
            notes=litgpt.list_unexpressed(job.model, workload),
        )
    return _launch_trainer(job, workload, allocator)


def render_torchrun(job: Job, script: Sequence[str]) -> tuple[str, ...]:
    """Return torchrun's command of one node (torch 2.13, ``distributed/run.py``)."""
    if job.num_nodes == 1:
        return ("torchrun", "--standalone", f"--nproc-per-node={job.gpus_per_node}", *script)
    return (
        "torchrun",
        f"--nnodes={job.num_nodes}",
        f"--nproc-per-node={job.gpus_per_node}",
        f"--node-rank={NODE_RANK}",
        "--rdzv-backend=c10d",
        f"--rdzv-id={job.name}",
        f"--rdzv-endpoint={HEAD_ADDRESS}:{PORT}",
        *script,
    )


def _launch_trainer(job: Job, workload: TrainWorkload, environment: dict[str, str]) -> Launch:
    fsdp, is_deepspeed = (
        job.layout.sharding in FULLY_SHARDED,
        job.layout.sharding is Sharding.DEEPSPEED,
    )
    arguments = render_training_arguments(
        workload, checkpoints=not fsdp or workload.reentrant_checkpointing
    )
    files: dict[str, str] = {}
    notes = (*list_head_notes(job.model, trains=True), *list_script_notes(workload))
    if is_deepspeed:
        files[_DEEPSPEED] = as_json(deepspeed.render_deepspeed_config(workload, job.layout))
        notes += deepspeed.list_unexpressed(workload.precision)
    script = (
        "train.py",
        *render_flags({**arguments, "deepspeed": _DEEPSPEED if is_deepspeed else None}),
    )
    command = render_torchrun(job, script)
    if fsdp:
        files[_ACCELERATE] = as_json(render_accelerate_config(job, workload))
        command = (*_render_accelerate_command(job), *script)
    if job.layout.context_parallel_method is ContextMethod.ULYSSES:
        environment = environment | {
            "ACCELERATE_USE_PARALLELISM_CONFIG": "true",
            "PARALLELISM_CONFIG_SP_SIZE": str(job.layout.context_parallel),
        }
    model = as_loaded(job.model, workload)
    keywords = leave_head_unpacked(model, render_model_keywords(workload))
    objects: dict[str, object] = {"from_pretrained": keywords | render_head_keywords(job.model)}
    if workload.lora is not None:
        adapters = render_adapter_keywords(workload.lora, get_task_type(model))
        objects["LoraConfig"] = adapters | render_head_training(model, workload)
    return Launch(
        command=command, files=files, environment=environment, objects=objects, notes=notes
    )


def _render_accelerate_command(job: Job) -> tuple[str, ...]:
    """Return accelerate's command of one node.

    Its configuration is JSON, which is YAML as well.
    """
    rendezvous: dict[str, Scalar | None] = {}
    if job.num_nodes > 1:
        rendezvous = {
            "machine_rank": NODE_RANK,
            "main_process_ip": HEAD_ADDRESS,
            "main_process_port": PORT,
        }
    return ("accelerate", "launch", *render_flags({"config_file": _ACCELERATE, **rendezvous}))


def _render_environment(workload: TrainWorkload) -> dict[str, str]:
    """Return the allocator's settings (torch 2.13, ``docs/source/notes/cuda.rst``)."""
    expandable = workload.allocator.value == "expandable_segments"
    return {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"} if expandable else {}
