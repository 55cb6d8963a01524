"""Components of a serving peak, with their formulas in numbers."""

from service.estimator.memory.answer.explain import TRACED, sort_parts
from service.estimator.memory.kv_cache import recurrent_state_bytes
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


def _describe_cache(model: Architecture, workload: ServeWorkload, num_bytes: int) -> str:
    """Return the formula of the cache's bytes.

    Prompts alone have been read at the prefill, the last token that is sampled is never written,
    and at the peak of a step some layers have yet to write theirs. Layers with windows hold fewer
    tokens than others.
    """
    prompt, output = workload.prompt_tokens, workload.output_tokens
    width = workload.kv_cache_dtype.bytes_per_element
    elements = sum(block.cache_elements_per_token * count for block, count in model.blocks)
    batch, of_each = (
        f"{workload.num_sequences} sequences",
        f"tokens x {elements} elements x {width} B",
    )
    one_token = workload.num_sequences * elements * width
    for number, tokens in (
        (prompt, f"{prompt}"),
        (prompt + output - 1, f"({prompt} + {output} - 1)"),
        (prompt + output, f"({prompt} + {output})"),
    ):
        missing = number * one_token - num_bytes
        if 0 <= missing < one_token:
            less = f" - {missing} B that are not written yet" if missing else ""
            return f"{batch} x {tokens} {of_each}{less}"
    return f"{batch} x up to ({prompt} + {output}) {of_each}"


def _describe_states(model: Architecture, workload: ServeWorkload, num_bytes: int) -> str:
    """Return the formula of the recurrent states' bytes.

    At the peak of a prefill the last layer has yet to write its own.
    """
    width, batch = workload.weight_dtype.bytes_per_element, workload.num_sequences
    total = recurrent_state_bytes(model, workload)
    missing = total - num_bytes
    less = f" - {missing} B that are not written yet" if missing > 0 else ""
    return (
        f"{batch} sequences x {total // batch} B: the last positions of convolutions in {width} B "
        f"and the states of scans in 4 B{less}"
    )


def build_serving_components(
    model: Architecture, workload: ServeWorkload, parts: dict[str, int]
) -> list[Component]:
    """Return the components of a serving peak."""
    width = workload.weight_dtype.bytes_per_element
    batch = f"{workload.num_sequences} sequences"
    formulas = {
        "weights": _describe_served_weights(model, workload, width),
        "kv_cache": _describe_cache(model, workload, parts.get("kv_cache", 0)),
        "logits": f"{batch} x {model.vocab_size} vocabulary",
        "recurrent_state": _describe_states(model, workload, parts.get("recurrent_state", 0)),
    }
    other = f"{batch} through one layer, {workload.attention.value} attention"
    return [
        Component(name, bytes_, Basis.EXACT, formulas.get(name, other), TRACED)
        for name, bytes_ in sort_parts(parts)
    ]
