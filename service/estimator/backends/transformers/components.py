"""Components of a serving peak, with their formulas in numbers."""

from service.estimator.memory.answer.explain import TRACED, sort_parts
from service.estimator.model.architecture import Architecture
from service.estimator.values.result import Basis, Component
from service.estimator.values.units import format_count
from service.estimator.values.workload import ServeWorkload


def _describe_served_weights(model: Architecture, workload: ServeWorkload, width: int) -> str:
    total, quantization = format_count(model.parameter_counts().total), workload.quantization.value
    scheme = (
        quantization
        if quantization != "none"
        else model.quantization.packing.value
        if model.quantization is not None
        else None
    )
    return (
        f"{total} params x {width} B"
        if scheme is None
        else f"{total} params, linear layers in {scheme}, others x {width} B"
    )


def build_serving_components(
    model: Architecture, workload: ServeWorkload, parts: dict[str, int]
) -> list[Component]:
    """Return the components of a serving peak."""
    width = workload.weight_dtype.bytes_per_element
    batch = f"{workload.num_sequences} sequences"
    tokens = f"{batch} x {workload.prompt_tokens} + {workload.output_tokens} tokens"
    cached = sum(block.cache_elements_per_token * count for block, count in model.blocks)
    formulas = {
        "weights": _describe_served_weights(model, workload, width),
        "kv_cache": f"{tokens} x {cached} elements x {workload.kv_cache_dtype.bytes_per_element} B",
        "logits": f"{batch} x {model.vocab_size} vocabulary",
        "recurrent_state": (
            f"{batch} x the last positions of convolutions in {width} B and the states of scans in "
            "4 B"
        ),
    }
    other = f"{batch} through one layer, {workload.attention.value} attention"
    return [
        Component(name, bytes_, Basis.EXACT, formulas.get(name, other), TRACED)
        for name, bytes_ in sort_parts(parts)
    ]
