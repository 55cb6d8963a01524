"""``generate`` of a replica: its settings, beams, and what its callers hold."""

from dataclasses import replace

from service.estimator.model.architecture import Architecture
from service.estimator.passes.config import Generation
from service.estimator.passes.serving import count_positions
from service.estimator.values.generation import Client, Sampling
from service.estimator.values.workload import ServeWorkload

INTEGER_BYTES = 8
"""Token ids, masks and positions are 64-bit integers."""


def expand_beams(workload: ServeWorkload) -> ServeWorkload:
    """Return the workload with each beam as a sequence.

    Prompts are repeated first (``_expand_inputs_for_generation``).
    """
    if workload.num_beams == 1:
        return workload
    return replace(workload, num_sequences=workload.num_sequences * workload.num_beams, num_beams=1)


def build_generation(workload: ServeWorkload) -> Generation | None:
    """Return the settings of ``generate``, None for a plain loop."""
    if workload.client is Client.LOOP:
        return None
    return Generation(samples=workload.sampling is Sampling.SAMPLE, num_beams=workload.num_beams)


def count_held_input_bytes(model: Architecture, workload: ServeWorkload) -> dict[str, int]:
    """Return the bytes of inputs that callers hold, by instant.

    The caller of ``generate`` has the prompts' ids and their attention mask, which is dropped
    inside where it has no zero; ``generate`` itself keeps their positions, for a model that takes
    them, while it decodes longer ones (generation/utils.py).
    """
    if workload.client is Client.LOOP:
        return {}
    prompts = INTEGER_BYTES * workload.num_sequences * workload.prompt_tokens
    num_positions = expand_beams(workload).num_sequences * count_positions(model)
    positions = INTEGER_BYTES * num_positions * workload.prompt_tokens
    return {"prefill": 2 * prompts, "decode": 2 * prompts + positions}


def add_held_inputs(
    model: Architecture, parts: dict[str, dict[str, int]], workload: ServeWorkload
) -> None:
    """Add the inputs that callers hold to the parts of each instant."""
    for name, held_bytes in count_held_input_bytes(model, workload).items():
        if name in parts:
            parts[name]["activations"] = parts[name].get("activations", 0) + held_bytes
