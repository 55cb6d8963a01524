"""Qwen3-Next: the order of its layers, its parameters by hand, and small steps against traces of
them.
"""

from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.model.families.registry import (
    architecture_from_config,
    architecture_from_spec,
)
from service.estimator.model.modules.layers.block import Block
from service.estimator.model.modules.ssm.delta_net import DeltaNet
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Attention, Checkpointing
from tests.builders import a_device, a_serving, a_training
from tests.tiny_models import tiny_config
from tests.unit.estimator.model.families.recorded_peaks import a_family
from tests.unit.estimator.model.families.small_steps import SmallStep

_CONFIG: dict[str, object] = {
    "model_type": "qwen3_next",
    "vocab_size": 512,
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "moe_intermediate_size": 48,
    "shared_expert_intermediate_size": 48,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
}


def _step(name: str, forward: int, backward: int, **changes: object) -> SmallStep:
    given: dict[str, object] = {"batch": 2, "sequence": 100}
    return SmallStep(
        name=name,
        config=_CONFIG,
        forward=forward,
        backward=backward,
        **(given | changes),  # type: ignore[arg-type]  # each change has the type of its field
    )


_STEPS = (
    _step("one sequence", 6_004_256, 6_208_248, batch=1),
    _step("two sequences", 11_991_832, 12_398_216),
    _step("three chunks", 19_055_896, 19_706_120, sequence=160),
    _step("one chunk", 2_543_120, 2_624_712, batch=1, sequence=40),
    _step("padded", 11_991_832, 12_398_216, padded=True),
    _step("checkpointed", 1_843_168, 4_282_664, checkpointed=True),
    _step("fp32", 14_255_640, 15_071_624, precision="fp32"),
    _step("autocast", 12_839_320, 13_194_504, precision="amp_bf16"),
    _step("adapters", 12_612_040, 12_992_824, lora=4),
)


@pytest.mark.parametrize("step", _STEPS, ids=lambda step: step.name)
def test_a_small_step_is_what_was_traced(step: SmallStep) -> None:
    """Both passes peak within a hundredth of the trace, whatever part of its last chunk the
    sequence fills.
    """
    assert step.estimated() == pytest.approx((step.forward, step.backward), rel=0.01)


def test_every_fourth_layer_has_attention() -> None:
    """``full_attention_interval`` is four unless told."""
    model = a_family(**_CONFIG)
    layers = [
        block
        for block in (model.blocks[kind][0] for kind in model.order)
        if isinstance(block, Block)
    ]

    assert [isinstance(layer.attention, DeltaNet) for layer in layers] == [True, True, True, False]


def test_listed_layers_have_attention() -> None:
    """``layer_types`` says it layer by layer."""
    model = a_family(**_CONFIG | {"layer_types": ["full_attention"] + ["linear_attention"] * 3})

    assert model.order == (0, 1, 1, 1)


def test_parameters_are_counted() -> None:
    """Three delta nets, one attention whose query comes with a gate, and in every layer experts
    with a gated shared one.
    """
    hidden, keys, values, heads = 64, 2 * 16, 4 * 16, 4
    net = (
        hidden * (2 * keys + 2 * values + 2 * heads)
        + 4 * (2 * keys + values)
        + 2 * heads
        + values * hidden
    )
    attention = hidden * (2 * 128 + 2 * 64) + 128 * hidden

    counts = a_family(**_CONFIG).parameter_counts().by_module

    assert counts["ssm"] == 3 * net
    assert counts["attention"] == attention
    assert counts["mlp_experts"] == 4 * 8 * 3 * 48 * hidden
    assert counts["mlp_shared_expert"] == 4 * 3 * 48 * hidden
    assert counts["router"] == 4 * (8 + 1) * hidden


def test_what_a_sequence_keeps_was_traced() -> None:
    """Convolutions, states of four heads of 16 x 16 in three layers, and keys and values of one
    layer.
    """
    workload = a_serving(
        num_sequences=1, prompt_tokens=100, output_tokens=2, attention=Attention.EAGER
    )

    answer = estimate(a_family(**_CONFIG), workload, layout=Layout(), device=a_device())

    instants = {instant.name: instant.allocated_bytes for instant in answer.instants}
    assert answer.serving is not None
    assert answer.serving.kv_cache_bytes == 41_472
    assert instants["prefill"] - instants["load"] == pytest.approx(934_624, rel=0.02)
    assert instants["decode"] - instants["load"] == pytest.approx(100_556, rel=0.02)


_WIDE = {"linear_key_head_dim": 128, "linear_value_head_dim": 32}
_EVEN = {"linear_num_key_heads": 4}
_CHECKPOINTED: dict[str, object] = {"activation_checkpointing": Checkpointing.FULL}


@pytest.mark.parametrize(
    ("changes", "asked", "prefill", "decode"),
    [
        ({}, (2, 300), 6_547_376, 2_106_728),
        ({}, (2, 64), 2_907_216, 1_935_640),
        (_WIDE, (2, 300), 16_308_080, 3_336_056),
        (_WIDE, (3, 64), 7_480_512, 3_651_032),
        (_EVEN, (2, 300), 6_668_336, 2_160_488),
        (_EVEN, (3, 64), 3_514_464, 2_039_240),
    ],
)
def test_a_replica_is_what_was_traced(
    changes: dict[str, object], asked: tuple[int, int], prefill: int, decode: int
) -> None:
    """Both passes are equal to the byte: chunks are joined by a copy while all that the scan made
    has names, its first state and outputs are there before the queries decay, a step names what it
    reads of the state, and heads of their own keys are not copied.
    """
    workload = a_serving(num_sequences=asked[0], prompt_tokens=asked[1], output_tokens=4)
    model = architecture_from_config(tiny_config("qwen3_next") | changes)

    answer = estimate(model, workload, layout=Layout(), device=a_device())

    instants = {instant.name: instant.allocated_bytes for instant in answer.instants}
    assert (instants["prefill"], instants["decode"]) == (prefill, decode)


@pytest.mark.parametrize(
    ("changes", "forward"), [({}, 11_449_616), (_WIDE, 23_917_936), (_EVEN, 11_687_696)]
)
def test_a_checkpointed_forward_is_what_was_traced(
    changes: dict[str, object], forward: int
) -> None:
    """The last state is gone before chunks are joined; a step has the one before beside its own."""
    workload = a_training(
        precision="bf16",
        micro_batch_size=4,
        sequence_length=192,
        activation_checkpointing=Checkpointing.FULL,
    )
    model = architecture_from_config(tiny_config("qwen3_next") | changes)

    answer = estimate(model, workload, layout=Layout(), device=a_device())

    assert answer.instants[1].name == "forward"
    assert answer.instants[1].allocated_bytes == forward


@pytest.mark.parametrize(
    ("changes", "words", "forward", "backward"),
    [
        ({}, {}, 41_913_168, 43_944_772),
        (_WIDE, {}, 76_848_528, 78_880_132),
        (_EVEN, {}, 44_187_984, 46_219_588),
        (_WIDE, _CHECKPOINTED, 24_105_152, 37_852_036),
        (_EVEN, _CHECKPOINTED, 16_028_288, 24_027_860),
        (_WIDE, _CHECKPOINTED | {"precision": "bf16"}, 15_480_176, 23_671_220),
    ],
)
def test_a_step_of_full_chunks_is_what_was_traced(
    changes: dict[str, object], words: dict[str, object], forward: int, backward: int
) -> None:
    """In fp32 nothing lays heads in order, so that products copy them, and a gate stays in its
    projection; backward drops what chunks keep, the last one first.
    """
    given: dict[str, Any] = {"precision": "fp32", "micro_batch_size": 2, "sequence_length": 192}
    model = architecture_from_config(tiny_config("qwen3_next") | changes)

    answer = estimate(model, a_training(**given | words), layout=Layout(), device=a_device())

    instants = {instant.name: instant.allocated_bytes for instant in answer.instants}
    assert (instants["forward"], instants["backward"]) == (forward, backward)


def test_a_description_reads_back() -> None:
    """``describe`` and ``architecture_from_spec`` undo each other."""
    model = a_family(**_CONFIG)

    assert architecture_from_spec(model.describe()).fingerprint() == model.fingerprint()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"mlp_only_layers": [1]}, "mlp_only_layers"),
        ({"decoder_sparse_step": 2}, "decoder_sparse_step"),
        ({"linear_num_key_heads": 3}, "linear_num_key_heads"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
    ],
)
def test_what_cannot_be_built_is_refused(change: dict[str, object], field: str) -> None:
    """The refusal names the field of the config."""
    with pytest.raises(EstimatorError) as refused:
        a_family(**_CONFIG | change)

    assert getattr(refused.value, "field", None) == field
