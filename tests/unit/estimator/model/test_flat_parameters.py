"""FSDP1: units of flat parameters, adapters as units of their own, and reentrant checkpoints inside
of them.
"""

from dataclasses import replace
from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.values.errors import EstimatorError, InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.losses import Loss
from service.estimator.values.result import Estimate
from service.estimator.values.workload import (
    Attention,
    Checkpointing,
    Lora,
    Method,
    Offload,
    OffloadTarget,
    TrainWorkload,
)
from tests.builders import a_device, a_model, a_sharded_layout, a_training

FSDP1 = a_sharded_layout(2, sharding=Sharding.FSDP1)
FSDP2 = a_sharded_layout(2, sharding=Sharding.FSDP2)
ADAPTED: dict[str, Any] = {
    "method": Method.LORA,
    "lora": Lora(rank=8),
    "precision": "bf16",
    "sequence_length": 512,
    "activation_checkpointing": Checkpointing.FULL,
    "attention": Attention.FLASH,
    "loss": Loss.FUSED_LINEAR,
}


def _ask(workload: TrainWorkload, layout: Layout = FSDP1, **fields: Any) -> Estimate:  # noqa: ANN401 - fields of a config
    return estimate(a_model(**fields), workload, layout=layout, device=a_device())


def _backward(workload: TrainWorkload, layout: Layout, layers: int) -> int:
    """Return the bytes of the highest moment of backward."""
    instants = {
        instant.name: instant.allocated_bytes
        for instant in _ask(workload, layout, num_hidden_layers=layers).instants
    }
    return instants["backward"]


def _growth(workload: TrainWorkload, layout: Layout) -> int:
    """Return what another layer adds to backward's highest moment, beyond its weights and
    states.
    """
    resting = [_ask(workload, FSDP2, num_hidden_layers=layers).steady_bytes for layers in (6, 7)]
    return (
        _backward(workload, layout, 7) - _backward(workload, layout, 6) - (resting[1] - resting[0])
    )


def test_frozen_units_keep_two_tensors_of_every_layer_under_reentrant_checkpoints() -> None:
    """A layer adds its input and that input's gradient, 4 bytes an element; with checkpoints of the
    other kind its input.
    """
    adapted = a_training(**ADAPTED)
    reentrant = replace(adapted, reentrant_checkpointing=True)
    elements = adapted.micro_batch_size * 512 * a_model().spec.hidden_size

    assert _growth(reentrant, FSDP1) >= 4 * elements
    assert 2 * elements <= _growth(adapted, FSDP1) < 4 * elements
    assert _growth(reentrant, FSDP2) < 4 * elements


def test_blocks_that_are_trained_whole_keep_none() -> None:
    """A flat parameter with a gradient is resharded by a hook of its own, not by one on the block's
    input.
    """
    whole = {**ADAPTED, "method": Method.FULL, "lora": None}
    workload = a_training(**whole, gradient_accumulation_steps=2, reentrant_checkpointing=True)

    assert _growth(workload, FSDP1) == _growth(
        replace(workload, reentrant_checkpointing=False), FSDP1
    )


@pytest.mark.parametrize(
    ("tokens", "reentrant", "blocks"),
    [
        (1, False, {"full": 2, "lora": 2}),
        (2048, False, {"full": 2, "lora": 1}),
        (1, True, {"full": 1, "lora": 1}),
        (2048, True, {"full": 1, "lora": 1}),
    ],
)
def test_blocks_that_are_gathered_at_once(
    tokens: int,
    reentrant: bool,  # noqa: FBT001 - a case
    blocks: dict[str, int],
) -> None:
    """Full fine-tuning holds two, adapters at the end of a block; with reentrant checkpoints there
    is never more than one.
    """
    widths: dict[str, Any] = {"intermediate_size": 4096, "num_hidden_layers": 4}
    model = a_model(**widths)
    block, root = (2 * count for count in (model.counts.largest_block, model.counts.outside_blocks))
    words = ADAPTED | {
        "sequence_length": tokens,
        "optimizer": "sgd",
        "reentrant_checkpointing": reentrant,
    }
    for method, fields in (("full", {"method": Method.FULL, "lora": None}), ("lora", {})):
        answer = _ask(a_training(**(words | fields)), **widths)
        gathered = {part.name: part.bytes for part in answer.components}["gathered_weights"]

        assert root + blocks[method] * block <= gathered < root + (blocks[method] + 0.5) * block


def test_states_are_cut_from_one_flat_parameter() -> None:
    """Every rank has its share of all elements together, where FSDP2 gives the first rank the
    larger part of each tensor.
    """
    answers = [
        _ask(a_training(precision="fp32"), layout, vocab_size=101) for layout in (FSDP1, FSDP2)
    ]
    flat, split = (
        {part.name: part.bytes for part in answer.components}["optimizer_states"]
        for answer in answers
    )

    assert flat < split


def test_gradients_rest_between_steps() -> None:
    """The flat gradient is there until its unit's next forward: 4 bytes for each element of a
    rank's adapters.
    """
    workload = a_training(**ADAPTED)
    flat, split = (_ask(workload, layout) for layout in (FSDP1, FSDP2))
    adapters = {part.name: part.bytes for part in flat.components}["adapters"]

    assert flat.steady_bytes - split.steady_bytes == adapters


def test_one_rank_is_not_wrapped() -> None:
    """A single process has nothing to gather (``ShardingStrategy.NO_SHARD``)."""
    alone = Layout(sharding=Sharding.FSDP1, zero_stage=3)

    assert _ask(a_training(), alone).allocated_bytes == _ask(a_training(), Layout()).allocated_bytes


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"method": Method.FULL, "lora": None, "frozen": ("embedding",)}, "workload.frozen"),
        (
            {"method": Method.FULL, "lora": None, "optimizer_in_backward": True},
            "workload.optimizer_in_backward",
        ),
        (
            {
                "method": Method.FULL,
                "lora": None,
                "offload": Offload(parameters=OffloadTarget.CPU, optimizer=OffloadTarget.CPU),
            },
            "workload.offload.parameters",
        ),
    ],
)
def test_what_flat_parameters_have_no_term_for_is_refused(
    fields: dict[str, Any], field: str
) -> None:
    """Under FSDP2 the same is answered."""
    workload = a_training(**(ADAPTED | fields))

    with pytest.raises(NotModelledError) as refusal:
        _ask(workload)

    assert refusal.value.field == field
    assert _ask(workload, FSDP2).allocated_bytes > 0


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"activation_checkpointing": Checkpointing.NONE}, InvalidInputError),
        ({"method": Method.FULL, "lora": None, "frozen": ("embedding",)}, NotModelledError),
        ({"offload": Offload(activations=OffloadTarget.CPU)}, NotModelledError),
    ],
)
def test_reentrant_checkpoints_that_do_nothing_or_have_no_term_are_refused(
    fields: dict[str, Any], kind: type[EstimatorError]
) -> None:
    """Neither is the word passed over in silence."""
    with pytest.raises(kind):
        _ask(a_training(**(ADAPTED | fields), reentrant_checkpointing=True), FSDP2)


def test_flat_parameters_are_all_sharded() -> None:
    """FSDP1 shards parameters, gradients and states; a stage below that is somebody else's."""
    with pytest.raises(InvalidInputError, match="fsdp1"):
        Layout(data_parallel=2, sharding=Sharding.FSDP1, zero_stage=2)
