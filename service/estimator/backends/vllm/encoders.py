"""Encoders on vLLM, which have no pool and no profiling run.

0.33.0, ``v1/engine/core.py`` (``_initialize_kv_caches``): without a layer that caches nothing is
profiled; ``v1/worker/gpu_worker.py`` (``compile_or_warm_up_model``) runs the longest step once.
Prompts are read in one piece (``config/model.py``, ``is_chunked_prefill_supported``). The same in
0.14.0 and 0.20.0.
"""

from service.estimator.backends.paged_pool.encoders import count_positions
from service.estimator.backends.paged_pool.step_pool import StepPool
from service.estimator.model.architecture import Architecture
from service.estimator.values.engine_versions import Version
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.workload import ServeWorkload

_OLDEST = Version(0, 14)
FRACTION_NOTE = (
    "an encoder has no pool: gpu_memory_fraction reserves nothing, vLLM asks only that this share "
    "of the GPU be free when it starts"
)


def check_encoder_release(version: Version) -> None:
    """Refuse a release whose encoders were not read."""
    if version < _OLDEST:
        raise NotModelledError(
            f"vllm {version} with an encoder",
            field="workload.engine_version",
            modelled=[f"{_OLDEST} and later"],
        )


def resolve_encoder_length(model: Architecture, workload: ServeWorkload) -> int:
    """Return the longest prompt."""
    return workload.resolve_max_model_len(count_positions(model))


def resolve_step_tokens(workload: ServeWorkload, default: int, longest: int) -> int:
    """Return the tokens of a step, which reads prompts in one piece."""
    requested = workload.max_num_batched_tokens
    if requested is None:
        return max(default, longest)
    if requested < longest:
        message = (
            f"max_num_batched_tokens is {requested}, but a step reads prompts of max_model_len "
            f"{longest} in one piece: say {longest} or more, or a lower max_model_len"
        )
        raise InvalidInputError(message, field="workload.max_num_batched_tokens")
    return requested


def build_step_pool(batched_tokens: int, most_sequences: int) -> StepPool:
    """Return the room of a step."""
    return StepPool(batched_tokens=batched_tokens, most_sequences=most_sequences)
