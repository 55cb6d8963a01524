"""Work of recorded models, counted by what their operators move."""

from dataclasses import replace

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.model.recorded.architecture import RecordedArchitecture, build_recorded
from service.estimator.model.recorded.kinds import EXPERTS
from service.estimator.model.recorded.recorded_model import RecordedLayer
from service.estimator.model.weights.tensors import Weight
from service.estimator.speed.recordings import find_uncounted_part
from service.estimator.speed.throughput import find_untimed_reason
from service.estimator.speed.work import count_forward_work
from service.estimator.tape.ledger import Section
from service.estimator.tape.programs.program import Instruction, Operation
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Attention, TrainWorkload
from tests.recordings import make_recorded

MODEL = make_recorded()
LAYER = MODEL.recorded.layers[0]
A100 = resolve_gpu("A100-SXM4-80GB").to_device()
STEP = TrainWorkload(sequence_length=128)


def forget_bytes(instructions: tuple[Instruction, ...]) -> tuple[Instruction, ...]:
    """Return instructions as a release that counted no bytes wrote them."""
    return tuple(
        replace(part, moved=None) if isinstance(part, Operation) else part for part in instructions
    )


def change_layer(layer: RecordedLayer) -> RecordedArchitecture:
    """Return the model with another layer."""
    return build_recorded(replace(MODEL.recorded, layers=(layer,)))


def test_a_prompt_has_the_kernels_of_its_operators() -> None:
    """Seven linear layers and one attention a layer, and what norms and rotations launch."""
    work = count_forward_work(MODEL, dtype=DType.BF16, attention=Attention.SDPA)

    counts = work.sections[Section.FORWARD]
    assert (counts.products, counts.attentions) == (7 * 9, 9)
    assert 35 * 9 < counts.kernels < 60 * 9
    assert counts.moved[3] > 0
    assert work.has_fused_attention
    assert find_untimed_reason(MODEL, STEP, A100) is None


def test_recorded_experts_have_the_work_of_written_ones() -> None:
    """Of Qwen3-VL 30B, whose language model is Qwen3 30B: a token meets 8 of 128 experts."""
    recorded, written = (
        load_architecture(resolve_model(name)) for name in ("qwen3-vl-30b-a3b", "qwen3-30b-a3b")
    )
    works = [
        count_forward_work(model, dtype=DType.BF16, attention=Attention.SDPA)
        for model in (recorded, written)
    ]

    assert len({(work.block_weights, work.head_weights, work.windows) for work in works}) == 1
    assert len({(work.idle_weights, work.routed_weights, work.met_share) for work in works}) == 1
    products = [work.sections[Section.FORWARD].products for work in works]
    moved = [work.sections[Section.FORWARD].moved[3] for work in works]
    assert products[0] == products[1]
    assert moved[0] == pytest.approx(moved[1], rel=0.01)
    tower = recorded.parameter_counts().total - written.parameter_counts().total
    assert recorded.parameter_counts().active == written.parameter_counts().active + tower
    assert find_untimed_reason(recorded, STEP, A100) is None


def test_a_recording_without_bytes_has_no_time() -> None:
    """A release that did not count them wrote it."""
    recorded = MODEL.recorded
    passes = {
        name: replace(
            part,
            blocks=tuple(
                replace(block, instructions=forget_bytes(block.instructions))
                for block in part.blocks
            ),
        )
        for name, part in recorded.passes.items()
    }

    reason = find_untimed_reason(build_recorded(replace(recorded, passes=passes)), STEP, A100)

    assert "an earlier release" in (reason or "")


@pytest.mark.parametrize(
    ("layer", "part"),
    [
        (replace(LAYER, cache_elements=0), "no keys and values"),
        (replace(LAYER, weights=(Weight("mlp.experts.up", EXPERTS, (8, 64, 64)),)), "experts"),
        (replace(LAYER, weights=(Weight("conv.weight", "other", (8, 1, 4)),)), "no matrices"),
    ],
)
def test_work_that_is_not_counted_is_named(layer: RecordedLayer, part: str) -> None:
    """States, convolutions, and experts of which nobody says how many a token meets."""
    assert part in (find_uncounted_part(change_layer(layer)) or "")
