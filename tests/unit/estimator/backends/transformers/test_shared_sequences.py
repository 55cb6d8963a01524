"""Sequences that ranks of the Trainer share: PyTorch's ring, and DeepSpeed's Ulysses."""

from dataclasses import replace
from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.values.device import Device
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import ContextMethod, Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.result import Detail, Estimate
from service.estimator.values.units import GIB
from service.estimator.values.workload import Attention, Checkpointing, TrainWorkload
from tests.builders import a_model

_DEGREE = "layout.context_parallel"
H100 = Device(name="H100-SXM5-80GB", capacity_bytes=80 * GIB, usable_bytes=79 * GIB)
RING = Layout(data_parallel=2, context_parallel=4, sharding=Sharding.FSDP2, zero_stage=3)
ULYSSES = replace(RING, sharding=Sharding.DEEPSPEED, context_parallel_method=ContextMethod.ULYSSES)
STEP = TrainWorkload(
    sequence_length=8192,
    precision=POLICIES["bf16"],
    activation_checkpointing=Checkpointing.FULL,
)


def answer(layout: Layout, **words: Any) -> Estimate:  # noqa: ANN401 - each field has its own type
    """Return the answer for a small llama with a large vocabulary."""
    return estimate(a_model(vocab_size=32000), replace(STEP, **words), layout=layout, device=H100)


@pytest.mark.parametrize("shared", [RING, ULYSSES])
def test_a_rank_has_a_part_of_every_sequence(shared: Layout) -> None:
    """Its logits are those of a quarter of the tokens, its states are spread over all eight."""
    alone = replace(shared, data_parallel=8, context_parallel=1)

    split, quarter = answer(shared), answer(alone, sequence_length=2048)
    logits = [
        next(part.bytes for part in each.components if part.name == "logits")
        for each in (split, quarter)
    ]

    assert logits[0] == logits[1]
    assert split.steady_bytes == quarter.steady_bytes
    assert split.num_gpus == quarter.num_gpus == 8


@pytest.mark.parametrize("shared", [RING, ULYSSES])
def test_attention_over_ranks_costs_more_than_over_one(shared: Layout) -> None:
    """Keys and values pass by, or heads are exchanged, and both take room in backward."""
    alone = replace(shared, data_parallel=8, context_parallel=1)

    model = a_model(vocab_size=256, intermediate_size=64)
    split, quarter = (
        {
            moment.name: moment.allocated_bytes
            for moment in estimate(
                model, replace(STEP, sequence_length=length), layout=layout, device=H100
            ).instants
        }
        for layout, length in ((shared, 65536), (alone, 16384))
    )

    assert split["backward"] > quarter["backward"]
    assert split["optimizer_step"] == quarter["optimizer_step"]


@pytest.mark.parametrize("shared", [RING, ULYSSES])
@pytest.mark.parametrize("detail", [Detail.NUMBERS, Detail.FULL])
def test_a_sequence_divides_once(shared: Layout, detail: Detail) -> None:
    """A rank's slices are of the whole sequence: its own part is not divided again."""
    length = 2 * shared.context_parallel

    found = estimate(
        a_model(), replace(STEP, sequence_length=length), layout=shared, device=H100, detail=detail
    )

    assert found.num_gpus == shared.num_gpus


def test_fewer_key_heads_than_ranks_are_repeated() -> None:
    """With as many ranks as query heads, each has a copy of its key's head."""
    grouped, repeated = (
        estimate(
            a_model(vocab_size=512, num_attention_heads=8, num_key_value_heads=heads),
            replace(STEP, activation_checkpointing=Checkpointing.NONE),
            layout=replace(ULYSSES, context_parallel=8),
            device=H100,
        )
        for heads in (8, 2)
    )

    saved = {
        each: next(part.bytes for part in answer_.components if part.name == "activations")
        for each, answer_ in (("all", grouped), ("few", repeated))
    }
    assert saved["few"] > saved["all"] / 2


@pytest.mark.parametrize(
    ("layout", "words", "field"),
    [
        (replace(RING, sharding=Sharding.DEEPSPEED), {}, "layout.sharding"),
        (replace(ULYSSES, sharding=Sharding.FSDP2), {}, "layout.sharding"),
        (RING, {"attention": Attention.FLASH}, "workload.attention"),
        (RING, {"sequence_length": 4100}, "workload.sequence_length"),
        (
            replace(ULYSSES, context_parallel=3),
            {"sequence_length": 8193},
            "layout.context_parallel",
        ),
    ],
)
def test_what_cannot_be_combined_is_refused(
    layout: Layout, words: dict[str, Any], field: str
) -> None:
    """Each method has its own sharding, kernel and slices."""
    with pytest.raises(InvalidInputError) as refused:
        answer(layout, **words)

    assert refused.value.field == field
