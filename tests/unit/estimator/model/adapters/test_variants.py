"""Variants of low-rank adapters, against steps of the real libraries on a CPU."""

from collections.abc import Mapping
from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import NotModelledError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.result import Estimate
from service.estimator.values.workload import Attention, Checkpointing, Lora, Method, TrainWorkload

DEVICE = Device(name="card", capacity_bytes=2**40, usable_bytes=2**40)
CONFIG: dict[str, object] = {
    "model_type": "llama",
    "vocab_size": 512,
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "hidden_act": "gelu_pytorch_tanh",
}
STEP_COUNTS = 3600
"""Bytes of step counts on the host and of small scratch, which the runs on a CPU have among their
tensors.
"""
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128}


def answered(
    lora: Lora,
    *,
    config: Mapping[str, object] = CONFIG,
    layout: Layout | None = None,
    **words: Any,  # noqa: ANN401 - words of TrainWorkload
) -> Estimate:
    """Return the answer for adapters on two sequences of 128 tokens."""
    workload = TrainWorkload(
        sequence_length=128,
        micro_batch_size=2,
        precision=POLICIES["bf16"],
        attention=Attention.FLASH,
        lora=lora,
        **({"method": Method.LORA} | words),
    )
    return estimate(
        architecture_from_config(config), workload, layout=layout or Layout(), device=DEVICE
    )


@pytest.mark.parametrize(
    ("method", "checkpointing", "traced"),
    [
        (
            Method.LORA,
            Checkpointing.NONE,
            {"forward": 36_018_332, "loss": 32_353_452, "backward": 32_441_244},
        ),
        (
            Method.LORA,
            Checkpointing.FULL,
            {"forward": 12_390_556, "loss": 8_650_412, "backward": 21_015_652},
        ),
        (
            Method.QLORA,
            Checkpointing.NONE,
            {"forward": 32_759_880, "loss": 29_095_000, "backward": 29_182_792},
        ),
        (
            Method.QLORA,
            Checkpointing.FULL,
            {"forward": 9_130_828, "loss": 5_390_684, "backward": 17_755_924},
        ),
    ],
)
def test_dora_is_what_peft_holds(
    method: Method, checkpointing: Checkpointing, traced: Mapping[str, int]
) -> None:
    """A step with PEFT 0.21.2 and bitsandbytes 0.50.2: weights are made dense for the norm in every
    layer.
    """
    answer = answered(
        Lora(rank=8, variant="dora"), method=method, activation_checkpointing=checkpointing
    )

    for instant in answer.instants:
        if instant.name in traced:
            assert abs(instant.allocated_bytes - traced[instant.name]) <= STEP_COUNTS, instant.name


@pytest.mark.parametrize(
    ("checkpointing", "traced"),
    [
        (Checkpointing.NONE, {"forward": 14_416_976, "loss": 15_201_368, "backward": 14_938_200}),
        (Checkpointing.FULL, {"forward": 7_757_896, "loss": 7_890_008, "backward": 9_573_456}),
    ],
)
def test_sixteen_bit_adapters_are_what_peft_holds(
    checkpointing: Checkpointing, traced: Mapping[str, int]
) -> None:
    """``autocast_adapter_dtype=False`` leaves adapters in the dtype of the layer, and nothing is
    cast.
    """
    answer = answered(Lora(rank=8, dtype=DType.BF16), activation_checkpointing=checkpointing)

    for instant in answer.instants:
        if instant.name in traced:
            assert abs(instant.allocated_bytes - traced[instant.name]) <= STEP_COUNTS, instant.name


def test_rslora_is_another_factor_alone() -> None:
    """It divides by the root of the rank: no tensor is another."""
    assert (
        answered(Lora(rank=8, variant="rslora")).allocated_bytes
        == answered(Lora(rank=8)).allocated_bytes
    )


def test_dora_trains_a_magnitude_per_output() -> None:
    """Weight and two moments in fp32 for each output of the seven layers."""
    outputs = 3 * (256 + 128 + 128 + 256 + 704 + 704 + 256)

    more = answered(Lora(rank=8, variant="dora")).steady_bytes - answered(Lora(rank=8)).steady_bytes

    assert more == 3 * 4 * outputs


def test_packed_units_are_gathered_packed() -> None:
    """FSDP gathers the codes of a block, a quarter of its weights in bf16."""
    layout = Layout(data_parallel=4, zero_stage=3, sharding=Sharding.FSDP2)
    gathered = {
        method: sum(
            part.bytes
            for part in answered(Lora(rank=8), layout=layout, method=method).components
            if part.name == "gathered_weights"
        )
        for method in (Method.LORA, Method.QLORA)
    }

    assert 0 < gathered[Method.QLORA] < gathered[Method.LORA]


def test_gptq_layers_have_no_dora() -> None:
    """PEFT's wrapper of a GPTQ layer refuses it."""
    with pytest.raises(NotModelledError, match="gptq"):
        answered(Lora(rank=8, variant="dora"), config=CONFIG | {"quantization_config": GPTQ})
