"""Recorded passes on weights of another format than they were recorded with."""

from dataclasses import replace

import pytest

from service.catalog.models import load_architecture, resolve_model
from service.estimator.estimate import estimate
from service.estimator.model.recorded.architecture import RecordedArchitecture, build_recorded
from service.estimator.values.device import Device
from service.estimator.values.errors import NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Lora, Method, TrainWorkload

HOST = Device(name="host", capacity_bytes=2**40, usable_bytes=2**40)
STEP = TrainWorkload(
    sequence_length=64,
    micro_batch_size=2,
    precision=POLICIES["bf16_autocast"],
    keeps_logits=True,
    fp32_outputs=False,
)
ADAPTED = replace(STEP, method=Method.LORA, lora=Lora(rank=16))


def _cut(name: str) -> RecordedArchitecture:
    model = load_architecture(resolve_model(name)).with_layers(2)
    assert isinstance(model, RecordedArchitecture)
    return model


@pytest.mark.parametrize(
    ("name", "workload", "traced"),
    [
        ("ernie-default", STEP, 410_671_064),
        ("mistral4-default", STEP, 61_024_163_080),
        ("hyperclovax-default", ADAPTED, 1_486_214_712),
        ("hyperclovax-default", replace(ADAPTED, precision=POLICIES["bf16"]), 1_499_887_160),
    ],
)
def test_weights_in_16_bits_have_a_pass_under_autocast(
    name: str, workload: TrainWorkload, traced: int
) -> None:
    """Its highest bytes before the optimizer are those of a traced step of two layers.

    (``python -m tests.accuracy.search`` asks the type's own class on fake tensors: 2 x 64 tokens,
    all logits kept.) A head whose logits the model changes carries no adapter.
    """
    answer = estimate(_cut(name), workload, layout=Layout(), device=HOST)

    backward = next(phase for phase in answer.phases if phase.name == "backward_pass")
    assert backward.allocated_bytes == pytest.approx(traced, rel=1e-6, abs=1024)


def test_a_recording_from_before_refuses_16_bits_under_autocast() -> None:
    """What was recorded over weights in fp32 is no answer for them."""
    recorded = _cut("ernie-default").recorded
    passes = {name: part for name, part in recorded.passes.items() if "half_auto" not in name}
    model = build_recorded(replace(recorded, passes=passes))

    with pytest.raises(NotModelledError, match="weights in 16 bits under autocast"):
        estimate(model, STEP, layout=Layout(), device=HOST)
