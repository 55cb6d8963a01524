"""Checkpoints that serving engines load.

They are published ones of the requested model, or those that only the user knows.
"""

import json

from service.estimator.model.positions import count_served_positions
from service.estimator.values.workload import Engine, Quantization, ServeWorkload
from service.formats.renderings.job import CHECKPOINT, DRAFT, Job
from service.formats.renderings.trainer import TORCH_NAMES

_PACKED = frozenset(
    {Quantization.GPTQ_INT4, Quantization.AWQ_INT4, Quantization.MXFP4, Quantization.NVFP4}
)
"""Formats that no engine makes at load time of published 16-bit weights."""
_PACKED_FOR = {
    **dict.fromkeys((Engine.VLLM, Engine.SGLANG), frozenset({Quantization.INT8})),
    Engine.TENSORRT_LLM: frozenset({Quantization.INT8, Quantization.FP8}),
}
"""Those that some engine does not make."""
_NO_SPECULATION = (
    (
        "the command guesses no tokens ahead: add the engine's own flags for what was evaluated "
        "with them"
    ),
)


def get_checkpoint(job: Job, workload: ServeWorkload) -> str:
    """Return the checkpoint id or the variable that names it."""
    return (
        CHECKPOINT if _needs_packing(job, workload) or not job.checkpoints else job.checkpoints[0]
    )


def get_draft(job: Job) -> str:
    """Return the draft checkpoint id or the variable that names it."""
    return job.draft_checkpoints[0] if job.draft_checkpoints else DRAFT


def render_speculative(job: Job, workload: ServeWorkload) -> str | None:
    """Return vLLM's ``--speculative-config``, None where nobody guesses."""
    speculative = workload.speculative
    if speculative is None:
        return None
    method: dict[str, str] = {"model": get_draft(job)} if speculative.has_draft else {}
    if speculative.head is not None or not speculative.has_draft:
        method["method"] = "ngram" if speculative.head is None else speculative.head.value
    return json.dumps({**method, "num_speculative_tokens": speculative.num_tokens})


def render_item_limits(workload: ServeWorkload) -> str | None:
    """Return vLLM's ``--limit-mm-per-prompt``, None where it has its default."""
    limits = {"image": workload.max_images_per_prompt, "video": workload.max_videos_per_prompt}
    bounded = {kind: limit for kind, limit in limits.items() if limit is not None}
    return json.dumps(bounded) if bounded else None


def render_state_format(workload: ServeWorkload) -> str | None:
    """Return an engine's word for the format of recurrent states."""
    return None if workload.state_dtype is None else TORCH_NAMES[workload.state_dtype]


def list_weights_notes(job: Job, workload: ServeWorkload) -> tuple[str, ...]:
    """Return notes on the weights of a command.

    The command names them, or leaves them to the environment.
    """
    packed = f"the model must be a checkpoint with {workload.quantization.value} weights"
    draft = _list_draft_notes(job, workload)
    if workload.engine is Engine.LLAMA_CPP:
        source = job.checkpoints[0] if job.checkpoints else job.model_name
        return (
            (
                f"the file is {source} as llama.cpp's convert_hf_to_gguf.py and llama-quantize "
                "write it"
            ),
            *draft,
        )
    if workload.engine is Engine.TRANSFORMERS:
        return (*((packed,) if workload.quantization in _PACKED else ()), *draft)
    if _needs_packing(job, workload):
        return (f"{packed}: set CHECKPOINT to its id or directory", *draft)
    return (*_list_model_notes(job), *draft)


def _needs_packing(job: Job, workload: ServeWorkload) -> bool:
    packed = _PACKED | _PACKED_FOR.get(workload.engine, frozenset())
    return workload.quantization in packed and job.model.quantization is None


def _list_model_notes(job: Job) -> tuple[str, ...]:
    if not job.checkpoints:
        return (
            (
                f"no checkpoint of {job.model_name} is known: set CHECKPOINT to its Hugging Face "
                "id or its directory"
            ),
        )
    first, *alternatives = job.checkpoints
    return (
        (f"{job.model_name} is loaded as {first}; of the same shape: {', '.join(alternatives)}",)
        if alternatives
        else ()
    )


def _list_draft_notes(job: Job, workload: ServeWorkload) -> tuple[str, ...]:
    speculative = workload.speculative
    if speculative is None:
        return ()
    if workload.engine is not Engine.VLLM:
        return _NO_SPECULATION
    if not speculative.has_draft or job.draft_checkpoints:
        return ()
    return (
        (
            "no checkpoint of the draft model is known: set DRAFT to its Hugging Face id or its "
            "directory"
        ),
    )


def get_longest(job: Job, workload: ServeWorkload) -> int:
    """Return the longest sequence that an engine is started for."""
    positions = count_served_positions(job.model.spec, workload.engine)
    return workload.resolve_max_model_len(positions)
