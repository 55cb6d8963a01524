"""Recordings whose work is counted."""

from collections.abc import Iterator

from service.estimator.model.recorded.architecture import RecordedArchitecture
from service.estimator.model.recorded.kinds import EXPERTS, count_idle_parameters
from service.estimator.model.recorded.recorded_model import RecordedLayer, RecordedSpec
from service.estimator.tape.programs.kernels import ATTENTIONS
from service.estimator.tape.programs.program import Operation, flatten
from service.estimator.tape.programs.recorded_pass import RecordedPass

_MATRIX = 2
_LATENT = "kv_b_proj"
"""Layer that makes heads of a cached latent vector (arXiv:2405.04434)."""


def find_uncounted_part(model: RecordedArchitecture) -> str | None:
    """Return the part of a recording's work that is not counted."""
    recorded = model.recorded
    reasons = (
        reason for layer in recorded.layers if (reason := _find_in_layer(layer, recorded.spec))
    )
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


def _find_in_layer(layer: RecordedLayer, spec: RecordedSpec) -> str | None:
    targets = {part.target for part in layer.linears}
    experts = [weight for weight in layer.weights if weight.kind == EXPERTS]
    # A grouped product of stacks, of which a token meets as many as the config says.
    are_stacks = all(weight.shape[:1] == (spec.num_experts,) for weight in experts)
    if experts and not (are_stacks and count_idle_parameters(layer, spec)):
        return "experts"
    if any(len(part.shape) > _MATRIX for part in layer.weights if part.kind != EXPERTS):
        return "weights that are no matrices"
    if _LATENT in targets:
        return "latent attention"
    return None if layer.cache_elements else "layers that cache no keys and values"


def _iterate_operations(part: RecordedPass) -> Iterator[Operation]:
    """Yield the operators of a pass, those of the layers first."""
    blocks = (block.instructions for block in part.blocks)
    for instructions in (*blocks, part.prologue, part.epilogue, part.tail):
        yield from (part for part in flatten(instructions) if isinstance(part, Operation))
