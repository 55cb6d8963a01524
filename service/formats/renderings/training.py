"""How a training job is started: torchrun or accelerate, with the files that fix the layout."""

from collections.abc import Sequence

from service.estimator.values.layout import FULLY_SHARDED, Sharding
from service.estimator.values.workload import Framework, TrainWorkload
from service.formats.renderings import deepspeed, torchtitan
from service.formats.renderings.fsdp import accelerate_config
from service.formats.renderings.job import HEAD_ADDRESS, NODE_RANK, Job, Launch
from service.formats.renderings.megatron import megatron_arguments
from service.formats.renderings.text import Scalar, as_json, as_toml, flags
from service.formats.renderings.trainer import (
    adapter_keywords,
    model_keywords,
    said_by_the_script,
    training_arguments,
)

PORT = 29500
"""torchrun's own default for rendezvous."""
_DEEPSPEED, _ACCELERATE, _TORCHTITAN = "deepspeed_config.json", "accelerate_config.yaml", "torchtitan.toml"


def launch_training(job: Job, workload: TrainWorkload) -> Launch:
    """Return how a training job is started on each of its nodes."""
    allocator = _environment(workload)
    if workload.framework is Framework.MEGATRON:
        arguments = megatron_arguments(job.model.spec, workload, job.layout)
        return Launch(command=torchrun(job, ("pretrain_gpt.py", *arguments)), environment=allocator)
    if workload.framework is Framework.TORCHTITAN:
        tables = as_toml(torchtitan.torchtitan_tables(workload, job.layout))
        command = torchrun(job, ("-m", "torchtitan.train", "--job.config_file", _TORCHTITAN))
        named = job.checkpoints[0] if job.checkpoints else job.model_name
        notes = (f"add [model] of {named} to {_TORCHTITAN}", *torchtitan.unsaid(workload))
        return Launch(command=command, files={_TORCHTITAN: tables}, environment=allocator, notes=notes)
    return _with_trainer(job, workload, allocator)


def torchrun(job: Job, script: Sequence[str]) -> tuple[str, ...]:
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


def _with_trainer(job: Job, workload: TrainWorkload, environment: dict[str, str]) -> Launch:
    fsdp, deeply = job.layout.sharding in FULLY_SHARDED, job.layout.sharding is Sharding.DEEPSPEED
    arguments = training_arguments(workload, checkpoints=not fsdp or workload.reentrant_checkpointing)
    files: dict[str, str] = {}
    notes = said_by_the_script(workload)
    if deeply:
        files[_DEEPSPEED] = as_json(deepspeed.deepspeed_config(workload, job.layout))
        notes += deepspeed.unsaid(workload.precision)
    script = ("train.py", *flags({**arguments, "deepspeed": _DEEPSPEED if deeply else None}))
    command = torchrun(job, script)
    if fsdp:
        files[_ACCELERATE] = as_json(accelerate_config(job, workload))
        command = (*_accelerate(job), *script)
    objects: dict[str, object] = {"from_pretrained": model_keywords(workload)}
    if workload.lora is not None:
        objects["LoraConfig"] = adapter_keywords(workload.lora)
    return Launch(command=command, files=files, environment=environment, objects=objects, notes=notes)


def _accelerate(job: Job) -> tuple[str, ...]:
    """Return accelerate's command of one node; its configuration is JSON, which is YAML as well."""
    place: dict[str, Scalar | None] = {}
    if job.num_nodes > 1:
        place = {"machine_rank": NODE_RANK, "main_process_ip": HEAD_ADDRESS, "main_process_port": PORT}
    return ("accelerate", "launch", *flags({"config_file": _ACCELERATE, **place}))


def _environment(workload: TrainWorkload) -> dict[str, str]:
    """Return the allocator's settings (torch 2.13, ``docs/source/notes/cuda.rst``)."""
    expandable = workload.allocator.value == "expandable_segments"
    return {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"} if expandable else {}
