"""Pipelines of torchtitan beside FSDP2."""

from dataclasses import replace
from typing import Any

import pytest

from service.catalog.models import load_architecture, resolve_model
from service.estimator.estimate import estimate
from service.estimator.values.device import Device
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.pipeline import PipelineSchedule, PipelineSplit
from service.estimator.values.precision import POLICIES
from service.estimator.values.result import Estimate
from service.estimator.values.units import GIB
from service.estimator.values.workload import Checkpointing, Framework, TrainWorkload

H100 = Device(name="H100-SXM5-80GB", capacity_bytes=80 * GIB, usable_bytes=79 * GIB)
STEP = TrainWorkload(
    sequence_length=2048,
    framework=Framework.TORCHTITAN,
    precision=POLICIES["bf16_mixed"],
    activation_checkpointing=Checkpointing.FULL,
    gradient_accumulation_steps=8,
)
LAYOUT = Layout(data_parallel=8, pipeline_parallel=4, sharding=Sharding.FSDP2, zero_stage=3)


def answer(*, layout: dict[str, Any] | None = None, **words: Any) -> Estimate:  # noqa: ANN401 - fields by name
    """Return the answer for llama-3-8b on four stages, with changes."""
    model = load_architecture(resolve_model("llama-3-8b"))
    placed = replace(LAYOUT, **(layout or {}))
    return estimate(model, replace(STEP, **words), layout=placed, device=H100)


def part(estimated: Estimate, name: str) -> int:
    """Return the bytes of a component."""
    return next(each.bytes for each in estimated.components if each.name == name)


def test_its_default_split_has_less_on_both_ends() -> None:
    """32 layers with embedding and head as one each: 8, 9, 8 and 7."""
    stages = answer().stages

    assert [stage.layers for stage in stages] == [(8,), (9,), (8,), (7,)]
    assert [stage.micro_batches_in_flight for stage in stages] == [(4,), (3,), (2,), (1,)]


def test_weights_and_gradients_of_a_stage_are_whole_during_a_step() -> None:
    """Two bytes and four for each parameter of the stage, however many ranks shard it."""
    few = answer(layout={"data_parallel": 8})
    many = answer(layout={"data_parallel": 64})

    last = 7 * 218_112_000 + 4096 + 128256 * 4096
    assert part(few, "gathered_weights") == part(many, "gathered_weights") == 2 * last
    assert part(many, "optimizer_states") < part(few, "optimizer_states") / 7


def test_buffers_are_there_for_every_micro_batch() -> None:
    """A middle stage has one for each, forward and backward, between steps too."""
    few, many = (answer(gradient_accumulation_steps=steps).stages[1] for steps in (8, 32))

    hidden = 2 * 2048 * 4096
    assert many.steady_bytes - few.steady_bytes == 2 * (32 - 8) * hidden
    assert few.micro_batches_in_flight == many.micro_batches_in_flight


def test_all_forwards_first_keep_every_micro_batch() -> None:
    """GPipe holds eight on the first stage, where 1F1B holds four."""
    usual, all_first = (
        answer(layout={"pipeline_schedule": schedule}).stages[0]
        for schedule in (PipelineSchedule.ONE_F_ONE_B, PipelineSchedule.GPIPE)
    )

    inputs = 8 * 2 * 2048 * 4096
    assert all_first.micro_batches_in_flight == (8,)
    assert all_first.allocated_bytes - usual.allocated_bytes >= 4 * inputs


def test_gradients_of_weights_that_wait_cost_memory() -> None:
    """A schedule that splits backward keeps more than one that does not, of as many chunks."""
    layout = {"virtual_pipeline_stages": 2}
    whole_backward, split_backward = (
        answer(
            layout=layout | {"pipeline_schedule": schedule},
            activation_checkpointing=Checkpointing.NONE,
            gradient_accumulation_steps=8,
        ).stages[3]
        for schedule in (PipelineSchedule.INTERLEAVED, PipelineSchedule.INTERLEAVED_ZERO_BUBBLE)
    )

    assert split_backward.allocated_bytes > whole_backward.allocated_bytes


@pytest.mark.parametrize(
    ("layout", "words", "message"),
    [
        (
            {"pipeline_split": PipelineSplit(partition_method="uniform")},
            {},
            "no word of torchtitan",
        ),
        ({"pipeline_split": PipelineSplit(pipeline_layers=(0, 16, 8, 8))}, {}, "without layers"),
        ({"data_parallel": 1}, {}, "on one data rank"),
        (
            {
                "virtual_pipeline_stages": 2,
                "pipeline_schedule": PipelineSchedule.ZBV,
            },
            {},
            "checkpoints beside pipeline_schedule",
        ),
    ],
)
def test_what_its_pipeline_cannot_is_refused(
    layout: dict[str, Any], words: dict[str, Any], message: str
) -> None:
    """In the words of the question."""
    with pytest.raises(EstimatorError, match=message):
        answer(layout=layout, **words)
