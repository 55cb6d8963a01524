"""Adapters on quantised weights, against runs of the real libraries on a CPU."""

from collections.abc import Mapping
from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.device import Device
from service.estimator.values.errors import EstimatorError, InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.result import Estimate
from service.estimator.values.workload import Attention, Checkpointing, Lora, Method, TrainWorkload
from tests.builders import a_mixture

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
}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128}
STEP_COUNTS = 2300
"""Bytes of the optimizer's step counts on the host, which the runs on a CPU have among their
tensors.
"""


def a_quantised(quantization: Mapping[str, object] | None = None) -> Architecture:
    """Return a small llama, with a quantization_config if one is given."""
    return architecture_from_config(
        CONFIG | ({} if quantization is None else {"quantization_config": quantization})
    )


def answered(
    model: Architecture | None = None,
    layout: Layout | None = None,
    **words: Any,  # noqa: ANN401 - words of TrainWorkload
) -> Estimate:
    """Return the answer for adapters of rank 8 on two sequences of 128 tokens."""
    asked: dict[str, Any] = {
        "method": Method.QLORA,
        "precision": POLICIES["bf16"],
        "attention": Attention.FLASH,
        "lora": Lora(rank=8),
    }
    workload = TrainWorkload(sequence_length=128, micro_batch_size=2, **(asked | words))
    return estimate(model or a_quantised(), workload, layout=layout or Layout(), device=DEVICE)


def instants(answer: Estimate) -> Mapping[str, int]:
    """Return the bytes of each instant by name."""
    return {instant.name: instant.allocated_bytes for instant in answer.instants}


@pytest.mark.parametrize(
    ("double", "traced"),
    [
        (True, {"forward": 17_420_284, "loss": 17_715_204, "backward": 17_452_036}),
        (False, {"forward": 17_500_560, "loss": 17_795_480, "backward": 17_532_312}),
    ],
)
def test_qlora_is_what_bitsandbytes_holds(double: bool, traced: Mapping[str, int]) -> None:  # noqa: FBT001 - a parameter of the test
    """A step with bitsandbytes 0.50.2 and PEFT 0.21.2: products keep no input, weights are
    dequantised one by one.
    """
    found = instants(answered(double_quantization=double))

    for name, bytes_ in traced.items():
        assert abs(found[name] - bytes_) <= STEP_COUNTS, name


def test_double_quantisation_saves_scales() -> None:
    """One byte instead of four for each block of 64, and tables of 1 KiB for each of the 21
    layers.
    """
    double, single = answered(double_quantization=True), answered(double_quantization=False)

    blocks = (
        sum(
            outs * ins
            for outs, ins in ((256, 256), (128, 256), (128, 256), (256, 256))
            for _ in range(3)
        )
        // 64
    )
    blocks += 3 * 3 * 704 * 256 // 64
    nested = 3 * (2 * 4 * 4 + 2 * 2 * 4 + 3 * 11 * 4)
    assert single.steady_bytes - double.steady_bytes == 3 * blocks - nested - 21 * (1024 + 4)


def test_upcast_norms_and_head_cost_two_bytes_each() -> None:
    """``prepare_model_for_kbit_training``: tables, norms and head are fp32 instead of bf16."""
    kept = 2 * 512 * 256 + 7 * 256

    assert answered(fp32_norms_and_head=True).steady_bytes - answered().steady_bytes == 2 * kept


def test_scales_are_not_sharded() -> None:
    """FSDP2 splits a parameter's tensor; the scales are its attribute, which every rank has
    whole.
    """
    layout = Layout(data_parallel=4, zero_stage=3, sharding=Sharding.FSDP2)

    shared = next(part for part in answered(layout=layout).components if part.name == "weights")
    whole = next(part for part in answered().components if part.name == "weights")

    assert "B of scales" in shared.formula
    assert whole.bytes // 4 < shared.bytes < whole.bytes // 3


@pytest.mark.parametrize(
    "quantization", [GPTQ, {"quant_method": "awq", "bits": 4}, {"quant_method": "fp8"}]
)
def test_adapters_stand_on_a_quantised_checkpoint(quantization: Mapping[str, object]) -> None:
    """LoRA on a quantised config keeps those weights quantised: less than on 16-bit ones."""
    quantised = answered(a_quantised(quantization), method=Method.LORA)
    plain = answered(method=Method.LORA)

    assert quantised.steady_bytes < plain.steady_bytes
    assert quantised.allocated_bytes < plain.allocated_bytes + 256 * 704 * 4


def test_int8_keeps_the_inputs_that_its_context_holds() -> None:
    """``MatMul8bitLt`` hangs its input on the context, so a checkpoint does not drop it."""
    eight = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    saved = [
        instants(
            answered(a_quantised(eight), method=Method.LORA, activation_checkpointing=checkpointing)
        )["loss"]
        - answered(a_quantised(eight), method=Method.LORA).steady_bytes
        for checkpointing in (Checkpointing.FULL, Checkpointing.NONE)
    ]
    four = (
        instants(answered(activation_checkpointing=Checkpointing.FULL))["loss"]
        - answered().steady_bytes
    )

    inputs = 2 * 128 * 2 * (256 + 256 + 256 + 704) * 3
    assert four < saved[0] < saved[1]
    assert saved[0] - four == pytest.approx(inputs, rel=0.1)


@pytest.mark.parametrize(
    ("quantization", "words", "field", "kind"),
    [
        (GPTQ, {}, "workload.method", InvalidInputError),
        (GPTQ, {"method": Method.FULL, "lora": None}, "workload.method", InvalidInputError),
        (
            GPTQ,
            {"method": Method.LORA, "fp32_norms_and_head": True},
            "workload.fp32_norms_and_head",
            InvalidInputError,
        ),
        (
            None,
            {"method": Method.LORA, "fp32_norms_and_head": True},
            "workload.fp32_norms_and_head",
            InvalidInputError,
        ),
        (
            None,
            {"method": Method.LORA, "double_quantization": False},
            "workload.double_quantization",
            InvalidInputError,
        ),
        ({"quant_method": "mxfp4"}, {"method": Method.QLORA}, "workload.method", InvalidInputError),
        (
            {
                "quant_method": "hqq",
                "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}},
            },
            {"method": Method.LORA},
            "model",
            NotModelledError,
        ),
        (
            GPTQ | {"modules_to_not_convert": ["model.layers.1.mlp"]},
            {"method": Method.LORA},
            "model",
            NotModelledError,
        ),
    ],
)
def test_what_has_no_term_is_refused(
    quantization: Mapping[str, object] | None,
    words: Mapping[str, Any],
    field: str,
    kind: type[EstimatorError],
) -> None:
    """Contradictions and formats without a term are named."""
    with pytest.raises(kind) as refusal:
        answered(a_quantised(quantization), **words)

    assert refusal.value.field == field


def test_experts_were_quantised_before_they_were_stacked() -> None:
    """Transformers 4 had each expert as a module, which bitsandbytes packed; its products have no
    term.
    """
    model = a_mixture()
    words: dict[str, Any] = {"lora": Lora(rank=8, targets=("q_proj",)), "method": Method.QLORA}

    assert answered(model, **words).steady_bytes > 0
    with pytest.raises(NotModelledError, match="quantised experts"):
        answered(model, framework_version="4.48.1", **words)


@pytest.mark.parametrize(
    ("layout", "prepared"),
    [
        (Layout(), True),
        (Layout(data_parallel=2, sharding=Sharding.DDP), True),
        (Layout(data_parallel=2, zero_stage=3, sharding=Sharding.FSDP2), False),
        (Layout(data_parallel=2, zero_stage=3, sharding=Sharding.DEEPSPEED), False),
    ],
    ids=["one", "ddp", "fsdp2", "zero-3"],
)
def test_clients_prepare_what_is_not_sharded(layout: Layout, prepared: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Sharded weights want one dtype, so that nobody casts norms and head to fp32 there."""
    unsaid, said = (
        answered(layout=layout, fp32_norms_and_head=word).steady_bytes for word in (None, prepared)
    )

    assert unsaid == said
    assert unsaid != answered(layout=layout, fp32_norms_and_head=not prepared).steady_bytes
