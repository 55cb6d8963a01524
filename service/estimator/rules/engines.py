"""Lengths that requests to engines leave out."""

from service.estimator.model.architecture import Architecture
from service.estimator.values.workload import ServeWorkload


def resolve_max_model_len(model: Architecture, workload: ServeWorkload) -> int:
    """Return ``max_model_len`` of a workload that ``ENGINE_LENGTHS`` allows.

    It is the requested one, or as many positions as the model has, or the tokens of a sequence.
    """
    tokens = workload.prompt_tokens + workload.output_tokens
    return workload.max_model_len or model.spec.max_position_embeddings or tokens
