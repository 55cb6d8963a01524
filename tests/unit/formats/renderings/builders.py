"""Jobs to render, and the way back: flags of a command as numbers and words."""

import shlex
from collections.abc import Sequence
from dataclasses import replace

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.contract.to_answer.renderings import get_gpu_names
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.units import GIB
from service.estimator.values.workload import Checkpointing, Framework, TrainWorkload, Workload
from service.formats.renderings.job import Job

TRAIN = TrainWorkload(sequence_length=4096, activation_checkpointing=Checkpointing.FULL)
BATCHED = replace(TRAIN, micro_batch_size=2, gradient_accumulation_steps=4)
MEGATRON = TrainWorkload(sequence_length=4096, framework=Framework.MEGATRON)
ZERO_3 = Layout(data_parallel=16, zero_stage=3, sharding=Sharding.DEEPSPEED)
FLAT = Layout(data_parallel=16, zero_stage=3, sharding=Sharding.FSDP1)
FULLY_SHARDED = Layout(data_parallel=16, zero_stage=3, sharding=Sharding.FSDP2)


def a_job(
    workload: Workload = TRAIN,
    layout: Layout = ZERO_3,
    *,
    model: str = "llama-2-7b",
    gpu: str = "A100-SXM4-80GB",
    nodes: tuple[str, ...] = (),
    mig_profile: str | None = None,
) -> Job:
    """Return a catalogue model's job on a catalogue GPU."""
    entry = resolve_gpu(gpu)
    return Job(
        model_name=model,
        model=load_architecture(resolve_model(model)),
        workload=workload,
        layout=layout,
        device=entry.to_device(),
        gpu=get_gpu_names(entry.to_device()),
        nodes=nodes,
        mig_profile=mig_profile,
        needed_bytes=60 * GIB,
    )


def flags_of(command: str | Sequence[str]) -> dict[str, str]:
    """Return the flags of a command by name, hyphens as underscores; a switch is ``true``."""
    words = shlex.split(command) if isinstance(command, str) else list(command)
    found: dict[str, str] = {}
    for word, following in zip(words, [*words[1:], "--"], strict=True):
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            found[name.replace("-", "_")] = value or (
                "true" if following.startswith("--") else following
            )
    return found
