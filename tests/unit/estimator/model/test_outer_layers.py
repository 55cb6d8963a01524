"""Layers of an encoder beside a recorded decoder: units and checkpoints of their own."""

from dataclasses import replace

import pytest

from service.catalog.models import load_architecture, load_config, resolve_model
from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.recorded.architecture import RecordedArchitecture
from service.estimator.model.recorded.outer_layers import divide_prologue
from service.estimator.tape.programs.program import Release
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Checkpointing, Lora, Method, TrainWorkload

ANY = Device(name="any", capacity_bytes=2**50, usable_bytes=2**50)
FSDP2 = Layout(data_parallel=2, sharding=Sharding.FSDP2, zero_stage=3)
STEP = TrainWorkload(
    sequence_length=96,
    micro_batch_size=3,
    precision=POLICIES["bf16"],
    keeps_logits=True,
    fp32_outputs=False,
)
IDS = 8
"""Bytes of a token's id: a recording holds those of the decoder a moment longer."""
LAYOUTS = {
    "one GPU": Layout(),
    "fsdp2": FSDP2,
    "fsdp2 of 3": replace(FSDP2, data_parallel=3),
    "fsdp2 gathered": replace(FSDP2, reshard_after_forward=False),
    "fsdp1": replace(FSDP2, sharding=Sharding.FSDP1),
    "deepspeed": replace(FSDP2, sharding=Sharding.DEEPSPEED),
}
SETTINGS = {
    "plain": STEP,
    "checkpoints": replace(STEP, activation_checkpointing=Checkpointing.FULL),
    "adapters": replace(
        STEP,
        method=Method.LORA,
        lora=Lora(rank=16),
        activation_checkpointing=Checkpointing.FULL,
    ),
    "autocast": replace(STEP, precision=POLICIES["amp_bf16"]),
}


def load(name: str) -> RecordedArchitecture:
    """Return a shipped recording."""
    model = load_architecture(resolve_model(name))
    assert isinstance(model, RecordedArchitecture)
    return model


def compute_phases(model: Architecture, step: TrainWorkload, layout: Layout) -> dict[str, int]:
    """Return the highest bytes of each phase."""
    answer = estimate(model, step, layout=layout, device=ANY)
    return {phase.name: phase.allocated_bytes for phase in answer.phases}


@pytest.mark.parametrize("step", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_a_recorded_plbart_is_the_written_bart(layout: Layout, step: TrainWorkload) -> None:
    """Both run the same operations, and BART's module is held against traces of its own."""
    config = load_config(resolve_model("plbart-default"))
    bart = {"model_type": "bart", "architectures": ["BartForConditionalGeneration"]}
    written = architecture_from_config({**config, **bart})

    recorded = compute_phases(load("plbart-default"), step, layout)

    tokens = step.micro_batch_size * step.sequence_length
    expected = compute_phases(written, step, layout)
    assert recorded == pytest.approx(expected, rel=0, abs=IDS * tokens)


@pytest.mark.parametrize(
    ("name", "step", "traced"),
    [
        (
            "plbart-default",
            replace(STEP, sequence_length=33, precision=POLICIES["amp_bf16"]),
            (1_396_688_244, 1_610_662_728, 1_392_415_060),
        ),
        (
            "marian-default",
            replace(STEP, sequence_length=97),
            (1_755_501_082, 2_136_516_708, 2_063_269_354),
        ),
    ],
)
def test_a_rank_of_two_takes_what_was_traced(
    name: str, step: TrainWorkload, traced: tuple[int, ...]
) -> None:
    """Traces of transformers' own code on a rank of FSDP2 (``tests.accuracy.search``)."""
    phases = compute_phases(load(name), step, FSDP2)

    found = [phases[name] for name in ("forward_pass", "backward_pass", "optimizer_step")]
    tokens = step.micro_batch_size * step.sequence_length
    assert found == pytest.approx(traced, rel=0, abs=1024 + IDS * tokens)


@pytest.mark.parametrize("name", ["marian-default", "pegasus-default", "umt5-default"])
def test_every_operation_belongs_to_one_stretch(name: str) -> None:
    """Layers run as many operations each, and what they release is theirs."""
    model = load(name)

    for variant in ("half", "fp32", "autocast"):
        (part, *_) = model.recorded.list_pieces(variant)
        stretches = divide_prologue(part, model.outer_layers)

        assert stretches is not None
        divided = [item for stretch in stretches for item in stretch.instructions]
        assert sorted(map(repr, divided)) == sorted(map(repr, part.prologue))
        counts = [
            sum(not isinstance(item, Release) for item in stretch.instructions)
            for stretch in stretches
            if stretch.layer is not None
        ]
        assert len(counts) == len(model.outer_layers) > 1
        assert len(set(counts)) == 1


def test_layers_that_are_not_told_apart_stay_in_the_root() -> None:
    """A lone layer does not say where it ends, and one out of order where it begins."""
    model = load("marian-default")
    (part,) = model.recorded.list_pieces("half")

    for layers in (model.outer_layers[:1], model.outer_layers[::-1]):
        assert divide_prologue(part, layers) is None
