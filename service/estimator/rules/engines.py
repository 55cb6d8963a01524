"""Lengths that requests to engines leave out."""

from service.estimator.model.architecture import Architecture


def resolve_max_model_len(model: Architecture, requested: int | None, num_tokens: int) -> int:
    """Return ``max_model_len`` of a workload that ``ENGINE_LENGTHS`` allows.

    It is the requested one, or as many positions as the model has, or the tokens of a sequence.
    """
    return requested or model.spec.max_position_embeddings or num_tokens
