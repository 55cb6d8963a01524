"""Lower bounds hold against the estimator: what they rule out would never have fitted."""

from dataclasses import replace
from typing import Any

import pytest

from service.catalog.gpus import resolve_device
from service.catalog.models import load_architecture, resolve_model
from service.estimator.estimate import estimate
from service.estimator.values.batches import SequencePacking
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import Attention, Framework, TrainWorkload
from service.planner.search.bounds import compute_saved_activations, compute_state_bytes

WAYS = {
    Framework.TRANSFORMERS: Layout(),
    Framework.TORCHTITAN: Layout(data_parallel=1, sharding=Sharding.FSDP2, zero_stage=3),
    Framework.MEGATRON: Layout(sharding=Sharding.MEGATRON),
}


@pytest.mark.parametrize(
    ("name", "framework"),
    [
        ("llama-3.1-70b", Framework.TRANSFORMERS),
        ("llama-3.1-70b", Framework.TORCHTITAN),
        ("llama-3.1-70b", Framework.MEGATRON),
        ("falcon-7b", Framework.TRANSFORMERS),
        ("opt-1.3b", Framework.TRANSFORMERS),
        ("gemma-7b", Framework.TRANSFORMERS),
        ("starcoder2-7b", Framework.TRANSFORMERS),
    ],
)
def test_what_backward_reads_is_less_than_what_is_allocated(
    name: str, framework: Framework
) -> None:
    """Weights, states and what products read stay below the peak, and are most of it where
    activations fill the GPU.
    """
    model, layout = load_architecture(resolve_model(name)), WAYS[framework]
    workload = TrainWorkload(sequence_length=2048, micro_batch_size=128, framework=framework)
    states = replace(compute_state_bytes(model, workload), gradients=0).total
    kept = compute_saved_activations(model, workload).everything

    found = estimate(model, workload, layout=layout, device=resolve_device("H100-SXM5-80GB"))

    assert (
        found.allocated_bytes / 4
        < states + kept * workload.micro_batch_size
        < found.allocated_bytes
    )


def test_compilers_choose_what_they_keep() -> None:
    """Nothing but the layers' inputs is held against a compiled step."""
    model = load_architecture(resolve_model("llama-3.1-8b"))
    workload = TrainWorkload(sequence_length=4096, compile=True)

    kept = compute_saved_activations(model, workload)

    assert kept.everything == kept.inputs == 2 * 4096 * 4096 * 32


@pytest.mark.parametrize(
    ("changes", "tokens"),
    [
        ({}, 4096),
        ({"sequence_lengths": ((70, 9), (5, 3))}, 70),
        ({"packing": SequencePacking.PACKED, "sequence_lengths": ((70, 9),)}, 4096),
        (
            {"packing": SequencePacking.PADDING_FREE, "sequence_lengths": ((300, 64), (100, 64))},
            200,
        ),
        ({"packing": SequencePacking.PADDING_FREE, "sequence_lengths": ((300, 1),)}, 2),
        ({"frozen": ("mlp",)}, 0),
    ],
)
def test_a_sequence_saves_what_its_worst_batch_has_of_it(
    changes: dict[str, Any], tokens: int
) -> None:
    """Data that is shorter than sequence_length, or weights that are frozen, rule out nothing."""
    model = load_architecture(resolve_model("llama-3.1-8b"))
    workload = TrainWorkload(sequence_length=4096, attention=Attention.FLASH, **changes)

    assert compute_saved_activations(model, workload).inputs == 2 * tokens * 4096 * 32
