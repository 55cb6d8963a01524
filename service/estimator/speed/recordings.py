"""Recordings whose work is counted."""

from collections.abc import Iterator

from service.estimator.model.recorded.architecture import RecordedArchitecture
from service.estimator.model.recorded.recorded_model import RecordedLayer
from service.estimator.tape.programs.kernels import ATTENTIONS
from service.estimator.tape.programs.program import Operation, flatten
from service.estimator.tape.programs.recorded_pass import RecordedPass

_MATRIX = 2
_LATENT = "kv_b_proj"
"""Layer that makes heads of a cached latent vector (arXiv:2405.04434)."""


def find_uncounted_part(model: RecordedArchitecture) -> str | None:
    """Return the part of a recording's work that is not counted."""
    recorded = model.recorded
    reasons = (reason for layer in recorded.layers if (reason := _find_in_layer(layer)))
    reason = next(reasons, None)
    if reason is not None:
        return reason
    if not recorded.layers:
        return "layers that are no stack"
    prompts = {name for name in recorded.passes if name.endswith("/prefill")}
    if any(name.replace("/generate", "") not in prompts for name in prompts):
        return "prompts outside of generate"
    operations = [next(_iterate_operations(part), None) for part in recorded.passes.values()]
    if any(operation is not None and operation.moved is None for operation in operations):
        return "operations, in a recording that an earlier release made,"
    some_pass = next(iter(recorded.passes.values()))
    if all(operation.operator not in ATTENTIONS for operation in _iterate_operations(some_pass)):
        return "attention, which is no kernel of its own,"
    return None


def _find_in_layer(layer: RecordedLayer) -> str | None:
    targets = {part.target for part in layer.linears}
    if any("expert" in weight.name for weight in layer.weights):
        return "experts"
    if any(len(weight.shape) > _MATRIX for weight in layer.weights):
        return "weights that are no matrices"
    if _LATENT in targets:
        return "latent attention"
    return None if layer.cache_elements else "layers that cache no keys and values"


def _iterate_operations(part: RecordedPass) -> Iterator[Operation]:
    """Yield the operators of a pass, those of the layers first."""
    blocks = (block.instructions for block in part.blocks)
    for instructions in (*blocks, part.prologue, part.epilogue, part.tail):
        yield from (part for part in flatten(instructions) if isinstance(part, Operation))
