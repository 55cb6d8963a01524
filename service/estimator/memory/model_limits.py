"""Kernels that a model does not run, whatever is asked."""

from service.estimator.model.architecture import Architecture
from service.estimator.values.workload import Attention


def list_attention_warnings(model: Architecture, attention: Attention) -> tuple[str, ...]:
    """Return warnings about a kernel that a model does not run."""
    if attention is Attention.EAGER or not (model.writes_out_attention or model.only_eager):
        return ()
    return (
        (
            f"attention {attention.value} has no effect: {model.family} runs the attention that "
            "its own code writes out"
        ),
    )
