"""Weights in 4 bits are replayed tensor by tensor, with the hole that casts leave."""

from dataclasses import replace

import pytest

from service.estimator.memory.allocator.packed_weights import place_packed_weights
from service.estimator.memory.allocator.replay import JobTensors
from service.estimator.memory.allocator.tensors import list_training_tensors
from service.estimator.memory.setup import resolve_setup
from service.estimator.memory.static import build_static_memory
from service.estimator.model.architecture import Architecture
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Lora, Method, TrainWorkload
from tests.builders import a_model, a_training

QLORA = a_training(precision="bf16_autocast", method=Method.QLORA, lora=Lora(rank=4))
MODEL = a_model()


def placed(workload: TrainWorkload, model: Architecture = MODEL) -> tuple[JobTensors, JobTensors]:
    """Return a job's tensors as they are divided by elements, and as they are loaded."""
    layout = Layout()
    static = build_static_memory(resolve_setup(model, workload, layout))
    divided = list_training_tensors(
        model, workload, layout, static.trained, static.states, static.buckets
    )
    base = static.setup.base_weights
    return divided, place_packed_weights(divided, model, base, static.states.weights)


@pytest.mark.parametrize("double", [True, False])
def test_codes_and_scales_are_tensors_of_their_own(double: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """They add up to the bytes of the base model, and adapters stay what they were."""
    divided, loaded = placed(replace(QLORA, double_quantization=double))

    assert sum(loaded.loaded) == pytest.approx(sum(divided.loaded), abs=len(divided.loaded))
    assert len(loaded.loaded) > len(divided.loaded)


def test_a_cast_head_leaves_its_sixteen_bits_as_a_hole() -> None:
    """Embedding, head and norms are in fp32 beside a hole of half their bytes."""
    _, prepared = placed(replace(QLORA, fp32_norms_and_head=True))
    _, plain = placed(replace(QLORA, fp32_norms_and_head=False))

    (hole,) = prepared.dropped
    assert plain.dropped == ()
    assert sum(plain.loaded) + hole == sum(prepared.loaded)


def test_other_weights_are_left_alone() -> None:
    """Weights of 16 bits are divided by their elements."""
    divided, loaded = placed(replace(QLORA, method=Method.LORA))

    assert loaded is divided
