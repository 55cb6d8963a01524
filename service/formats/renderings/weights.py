"""Which checkpoint a serving engine loads: a published one of the model that was asked for, or one that only who asks knows."""

from service.estimator.values.workload import Engine, Quantization, ServeWorkload
from service.formats.renderings.job import CHECKPOINT, DRAFT, Job

_PACKED = frozenset({Quantization.GPTQ_INT4, Quantization.AWQ_INT4, Quantization.MXFP4})
"""Formats that no engine makes at load time of published 16-bit weights."""
_UNTOLD = ("the command guesses no tokens ahead: add the engine's own flags for what was evaluated with them",)


def checkpoint_of(job: Job, workload: ServeWorkload) -> str:
    """Return the id of the checkpoint to load, or what the environment is to say in its place."""
    return CHECKPOINT if _needs_packing(job, workload) or not job.checkpoints else job.checkpoints[0]


def draft_of(job: Job) -> str:
    """Return the id of the draft model to load, or what the environment is to say in its place."""
    return job.draft_checkpoints[0] if job.draft_checkpoints else DRAFT


def weights_notes(job: Job, workload: ServeWorkload) -> tuple[str, ...]:
    """Return what there is to know of the weights that a command names, or leaves to the environment."""
    packed = f"the model must be a checkpoint with {workload.quantization.value} weights"
    draft = _draft_notes(job, workload)
    if workload.engine is Engine.LLAMA_CPP:
        source = job.checkpoints[0] if job.checkpoints else job.model_name
        return (f"the file is {source} as llama.cpp's convert_hf_to_gguf.py and llama-quantize write it", *draft)
    if workload.engine is Engine.TRANSFORMERS:
        return (*((packed,) if workload.quantization in _PACKED else ()), *draft)
    if _needs_packing(job, workload):
        return (f"{packed}: set CHECKPOINT to its id or directory", *draft)
    return (*_model_notes(job), *draft)


def _needs_packing(job: Job, workload: ServeWorkload) -> bool:
    return workload.quantization in _PACKED and job.model.quantization is None


def _model_notes(job: Job) -> tuple[str, ...]:
    if not job.checkpoints:
        return (f"no checkpoint of {job.model_name} is known: set CHECKPOINT to its Hugging Face id or its directory",)
    first, *others = job.checkpoints
    return (f"{job.model_name} is loaded as {first}; of the same shape: {', '.join(others)}",) if others else ()


def _draft_notes(job: Job, workload: ServeWorkload) -> tuple[str, ...]:
    asked = workload.speculative
    if asked is None:
        return ()
    if workload.engine is not Engine.VLLM:
        return _UNTOLD
    if asked.config is None or job.draft_checkpoints:
        return ()
    return ("no checkpoint of the draft model is known: set DRAFT to its Hugging Face id or its directory",)
