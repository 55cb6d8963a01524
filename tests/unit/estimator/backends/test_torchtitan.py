"""torchtitan: its own blocks, operations that a selective checkpoint keeps, the pools of FSDP2's
streams.
"""

from typing import Any

import pytest

from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.rules.tables.training.torchtitan import FAMILIES
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.losses import Loss
from service.estimator.values.precision import Precision
from service.estimator.values.result import Estimate
from service.estimator.values.workload import (
    Attention,
    Checkpointing,
    Framework,
    Lora,
    Method,
    TrainWorkload,
)
from tests.builders import a_config, a_device, a_gpt2, a_model

_MODEL = a_model(num_hidden_layers=8)
_TOKENS = 2 * 512
_CAST_AT_GATHER = Precision(
    name="custom",
    param_dtype=DType.FP32,
    compute_dtype=DType.BF16,
    grad_dtype=DType.FP32,
    optimizer_dtype=DType.FP32,
)


def _qwen3(**changes: object) -> Architecture:
    return architecture_from_config(a_config(model_type="qwen3", head_dim=16, **changes))


def _ask(model: Architecture = _MODEL, layout: Layout | None = None, **changes: Any) -> Estimate:  # noqa: ANN401 - each its own type
    given: dict[str, Any] = {
        "sequence_length": 512,
        "micro_batch_size": 2,
        "framework": Framework.TORCHTITAN,
        "precision": _CAST_AT_GATHER,
        "optimizer": "adamw_fused",
    }
    ranks = Layout(data_parallel=8, zero_stage=3, sharding=Sharding.FSDP2)
    return estimate(
        model, TrainWorkload(**(given | changes)), layout=layout or ranks, device=a_device()
    )


def _at(answer: Estimate, instant: str) -> int:
    return next(each.allocated_bytes for each in answer.instants if each.name == instant)


def test_a_selective_checkpoint_keeps_attention_and_every_second_product() -> None:
    """Beside the block's input: query, value, gate and down projections, attention's output and its
    fp32 statistics.
    """
    full = _ask(activation_checkpointing=Checkpointing.FULL)
    selective = _ask(activation_checkpointing=Checkpointing.SELECTIVE)

    per_token = 2 * (64 + 32 + 160 + 64) + 2 * 64 + 4 * 4
    assert _at(selective, "loss") - _at(full, "loss") == 8 * _TOKENS * per_token


def test_more_recomputation_needs_less() -> None:
    """From no checkpointing over every second layer and single operations to all layers."""
    none = _ask().allocated_bytes
    second = _ask(
        activation_checkpointing=Checkpointing.SELECTIVE, selective_every=2
    ).allocated_bytes
    full = _ask(activation_checkpointing=Checkpointing.FULL).allocated_bytes

    assert none > second > full


def test_a_compiled_loss_never_holds_fp32_logits() -> None:
    """One kernel reads 16-bit logits and writes their gradient: 12 bytes per logit become 4, in
    releases that compile it.
    """
    changes: dict[str, Any] = {"activation_checkpointing": Checkpointing.FULL, "compile": True}
    before, since = (
        _ask(framework_version="2024-12-26", **changes),
        _ask(framework_version="2025-08", **changes),
    )

    assert _at(before, "loss") - _at(since, "loss") == pytest.approx(8 * _TOKENS * 512, rel=0.05)


def test_streams_have_pools_of_their_own() -> None:
    """Sharded gradients and all-gather outputs are reserved beside the peak of the stream that
    computes.
    """
    answer = _ask(activation_checkpointing=Checkpointing.FULL)
    slack = next(
        component for component in answer.components if component.name == "allocator_slack"
    )

    assert answer.peak_instant == "loss"
    assert "FSDP2's communication streams" in slack.formula
    assert slack.bytes > 4 * _MODEL.parameter_counts().total // 8


def test_separate_units_drop_the_embedding_before_the_loss() -> None:
    """The embedding's unit gives way to the first block, and the last block is gathered once the
    logits' gradient is there.
    """
    joint = Layout(data_parallel=8, zero_stage=3, sharding=Sharding.FSDP2)
    separate = Layout(
        data_parallel=8, zero_stage=3, sharding=Sharding.FSDP2, shard_embeddings_separately=True
    )

    saved = _at(_ask(layout=joint), "loss") - _at(_ask(layout=separate), "loss")

    assert saved == 2 * (512 * 64 + _MODEL.counts.largest_block)


def test_a_copy_of_the_states_per_group_of_ranks_is_that_of_fewer_ranks() -> None:
    """Hybrid sharding reduces shards in place over the copies (torch ``foreach_reduce``): only the
    shards are larger.
    """
    hybrid = Layout(data_parallel=16, zero_stage=3, sharding=Sharding.FSDP2, shard_size=8)

    assert _ask(layout=hybrid).allocated_bytes == _ask().allocated_bytes
    assert _ask(layout=hybrid).num_gpus == 16


def test_a_cache_of_recordings_gives_the_same_answer() -> None:
    """A model, its pass and what is compiled are the key."""
    plans, layout = PlanCache(), Layout()
    workload = TrainWorkload(
        sequence_length=512,
        framework=Framework.TORCHTITAN,
        activation_checkpointing=Checkpointing.FULL,
    )
    asked = [
        estimate(_MODEL, workload, layout=layout, device=a_device(), plans=cache)
        for cache in (None, plans, plans)
    ]

    assert asked[0] == asked[1] == asked[2]


@pytest.mark.parametrize(
    ("model", "changes", "layout"),
    [
        (a_gpt2(), {}, None),
        (_MODEL, {"loss": Loss.FUSED_LINEAR}, None),
        (_MODEL, {"compile": True}, None),
        (_MODEL, {"float8": True, "activation_checkpointing": Checkpointing.FULL}, None),
        (_MODEL, {"attention": Attention.EAGER}, None),
        (_MODEL, {"method": Method.LORA, "lora": Lora()}, None),
        (_MODEL, {}, Layout(data_parallel=8, zero_stage=3, sharding=Sharding.DEEPSPEED)),
        (a_model(mlp_bias=True), {}, None),
        (_qwen3(attention_bias=True), {}, None),
    ],
)
def test_what_has_no_term_in_torchtitan_is_refused(
    model: Architecture, changes: dict[str, Any], layout: Layout | None
) -> None:
    """Models, losses, kernels and shardings that it has not, and what a compiler decides on its
    own.
    """
    with pytest.raises(NotModelledError):
        _ask(model, layout, **changes)


@pytest.mark.parametrize("changes", [{"padding_mask": True}, {"framework_version": "0.1.0"}])
def test_what_torchtitan_cannot_run_is_refused(changes: dict[str, Any]) -> None:
    """It trains on packed sequences, and its versions are dates."""
    with pytest.raises(InvalidInputError):
        _ask(**changes)


def test_context_ranks_share_the_tokens_and_the_states() -> None:
    """A rank of four runs a quarter of each sequence; states are spread over data and context ranks
    together.
    """
    whole = Layout(data_parallel=8, zero_stage=3, sharding=Sharding.FSDP2)
    split = Layout(data_parallel=2, context_parallel=4, zero_stage=3, sharding=Sharding.FSDP2)

    alone, shared = _ask(layout=whole), _ask(layout=split, sequence_length=4 * 512)

    assert shared.num_gpus == 8
    assert shared.steady_bytes == alone.steady_bytes
    assert _at(shared, "loss") == _at(alone, "loss")


def test_a_ring_needs_room_for_what_comes_by() -> None:
    """Keys and values of all ranks are gathered at once, and outputs merged in fp32: more ranks,
    more of them.
    """
    model, added = a_model(num_hidden_layers=2, vocab_size=64), []
    for ranks in (8, 16, 32):
        layout = Layout(
            data_parallel=1, context_parallel=ranks, zero_stage=3, sharding=Sharding.FSDP2
        )
        answer = _ask(model, layout, sequence_length=ranks * 512)
        added.append(_at(answer, "forward") - answer.steady_bytes)

    passing = 2 * _TOKENS * 64 * 2
    assert added[1] - added[0] == 8 * passing
    assert added[2] - added[1] == 16 * passing


def test_a_sequence_that_ranks_cannot_halve_is_refused() -> None:
    """Load balancing gives each rank an early and a late part."""
    layout = Layout(data_parallel=1, context_parallel=4, zero_stage=3, sharding=Sharding.FSDP2)

    with pytest.raises(InvalidInputError) as refusal:
        _ask(layout=layout, sequence_length=516)

    assert refusal.value.field == "workload.sequence_length"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("compiled", [False, True])
def test_every_family_of_torchtitan_is_answered(family: str, *, compiled: bool) -> None:
    """Each name that a refusal offers has a model, compiled or not."""
    model = architecture_from_config(a_config(model_type=family))

    answer = _ask(model, activation_checkpointing=Checkpointing.FULL, compile=compiled)

    assert answer.allocated_bytes > answer.steady_bytes > 0


def test_qwen3_keeps_tables_of_its_own_in_every_layer() -> None:
    """Cosine and sine are cast to 16 bits in each layer, where the products of query and key keep
    them for backward.
    """
    kept = [
        _at(answer, "loss") - answer.steady_bytes
        for answer in (_ask(_qwen3(num_hidden_layers=n)) for n in (1, 3))
    ]

    normalised_heads = (4 + 2) * (64 + 32)
    statistics = 4 * (4 + 2)
    llama = [
        _at(answer, "loss") - answer.steady_bytes
        for answer in (_ask(a_model(num_hidden_layers=n)) for n in (1, 3))
    ]
    more_per_layer = (kept[1] - kept[0] - (llama[1] - llama[0])) // 2
    tables = 2 * 2 * 16 * 512
    assert more_per_layer == tables + _TOKENS * (normalised_heads + statistics)


@pytest.mark.parametrize("name", ["virtual_pipeline_stages", "expert_parallel"])
def test_degrees_without_a_term_are_refused_by_torchtitan_itself(name: str) -> None:
    """No degree is dropped in silence, and none is said to be one of another framework."""
    degrees: dict[str, Any] = {name: 2}
    layout = Layout(data_parallel=4, zero_stage=3, sharding=Sharding.FSDP2, **degrees)

    with pytest.raises(NotModelledError, match="torchtitan") as refusal:
        _ask(layout=layout)

    assert refusal.value.field == f"layout.{name}"
