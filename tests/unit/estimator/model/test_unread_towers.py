"""Towers of recorded models that a text's step leaves idle."""

from dataclasses import replace

import pytest

from service.catalog.models import load_architecture, resolve_model
from service.estimator.estimate import estimate
from service.estimator.memory.trained import select_trained_parameters
from service.estimator.model.recorded.narrowing import get_unread_names
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Checkpointing, Lora, Method, TrainWorkload

STEP = TrainWorkload(sequence_length=512)


@pytest.mark.parametrize(
    ("name", "idle"),
    [
        ("glm-ocr-default", 434_120_192),
        ("qwen3.5-27b", 460_730_096),
        ("voxtral-default", 662_134_784),
        ("ernie4-5-vl-moe-default", 7_573_858_176),
        ("helium-1-preview-2b", 0),
    ],
)
def test_a_tower_that_nothing_reads_has_no_gradients(name: str, idle: int) -> None:
    """It is loaded all the same, and its parameters are counted."""
    model = load_architecture(resolve_model(name))

    trained = select_trained_parameters(model, STEP)

    assert trained.trained == model.counts.total - idle
    assert (trained.idle, trained.frozen) == (idle, idle)


def test_adapters_of_an_idle_tower_are_not_stepped() -> None:
    """PEFT puts them on its linear layers too, where nobody names others."""
    model = load_architecture(resolve_model("glm-ocr-default"))
    step = TrainWorkload(sequence_length=512, method=Method.LORA, lora=Lora(rank=8))

    trained = select_trained_parameters(model, step)

    assert trained.idle > 0
    assert not {weight.name for weight, _ in trained.weights} & get_unread_names(model)


FSDP2 = Layout(data_parallel=2, sharding=Sharding.FSDP2, zero_stage=3)
ANY = Device(name="any", capacity_bytes=2**50, usable_bytes=2**50)
TRACED = {
    Method.FULL: {
        "forward_pass": 2_223_690_012,
        "backward_pass": 3_138_361_064,
        "optimizer_step": 2_419_315_712,
    },
    Method.LORA: {
        "forward_pass": 1_348_856_092,
        "backward_pass": 1_420_040_624,
        "optimizer_step": 644_154_368,
    },
}
"""Highest bytes of GOT-OCR 2.0's own code on a rank of two, adapters with checkpoints
(``tests.accuracy.search``); 1,024 bytes are scalars that are alive for a moment.
"""


@pytest.mark.parametrize("method", TRACED)
def test_the_layers_of_an_idle_tower_are_units_that_nothing_gathers(method: Method) -> None:
    """The root has what is outside of all layers, the tower's among them."""
    step = TrainWorkload(
        sequence_length=65,
        micro_batch_size=2,
        precision=POLICIES["bf16"],
        keeps_logits=True,
        fp32_outputs=False,
    )
    if method is Method.LORA:
        step = replace(
            step,
            method=method,
            lora=Lora(rank=16),
            activation_checkpointing=Checkpointing.FULL,
        )

    answer = estimate(
        load_architecture(resolve_model("got-ocr-2.0-hf")), step, layout=FSDP2, device=ANY
    )

    phases = {phase.name: phase.allocated_bytes for phase in answer.phases}
    assert {name: phases[name] for name in TRACED[method]} == pytest.approx(
        TRACED[method], rel=0, abs=1024 + 8 * 65
    )
