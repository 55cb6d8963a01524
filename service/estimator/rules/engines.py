"""Lengths that requests to engines leave out."""

from service.estimator.model.architecture import Architecture
from service.estimator.rules.checks import check_sizes
from service.estimator.rules.tables.serving.own_engines import ENGINE_LENGTHS
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload

_ANY_LAYOUT = Layout()


def resolve_max_model_len(model: Architecture, workload: ServeWorkload) -> int:
    """Return ``max_model_len``.

    It is the requested one, or as many positions as the model has.
    """
    check_sizes(ENGINE_LENGTHS, model, workload, _ANY_LAYOUT)
    tokens = workload.prompt_tokens + workload.output_tokens
    return workload.max_model_len or model.spec.max_position_embeddings or tokens
