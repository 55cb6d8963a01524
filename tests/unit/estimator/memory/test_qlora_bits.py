"""QLoRA of 8, 4 and 2 bits: the base as its config would have packed it."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_config, resolve_model
from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.result import Estimate
from service.estimator.values.workload import Lora, Method, TrainWorkload

DEVICE = resolve_gpu("RTX-4090").to_device()
QLORA = TrainWorkload(
    sequence_length=128,
    method=Method.QLORA,
    lora=Lora(),
    precision=POLICIES["bf16_autocast"],
    fp32_norms_and_head=False,
)
PACKED = {
    8: {"quant_method": "bitsandbytes", "load_in_8bit": True},
    2: {"quant_method": "gptq", "bits": 2, "group_size": 128},
}


def _architecture(quantization: Mapping[str, object] | None = None) -> Architecture:
    config = {**load_config(resolve_model("llama-3.2-1b")), "num_hidden_layers": 2}
    if quantization is not None:
        config["quantization_config"] = quantization
    return architecture_from_config(config)


def _estimate(model: Architecture, workload: TrainWorkload) -> Estimate:
    return estimate(model, workload, layout=Layout(), device=DEVICE)


@pytest.mark.parametrize("bits", [8, 2])
def test_bits_are_what_a_packed_config_says(bits: int) -> None:
    """Quantised on loading or before, the same bytes stand under the same adapters."""
    loaded = _estimate(_architecture(), replace(QLORA, quantization_bits=bits))
    packed = _estimate(_architecture(PACKED[bits]), replace(QLORA, method=Method.LORA))

    assert {part.name: part.bytes for part in loaded.components} == {
        part.name: part.bytes for part in packed.components
    }
    assert loaded.peak_instant == packed.peak_instant


def test_fewer_bits_never_need_more_weights() -> None:
    """Two bits are less than four, and four less than eight."""
    weights = [
        next(
            part.bytes
            for part in _estimate(
                _architecture(), replace(QLORA, quantization_bits=bits)
            ).components
            if part.name == "weights"
        )
        for bits in (2, 4, 8)
    ]

    assert weights == sorted(weights)
    assert len(set(weights)) == 3


def test_other_widths_are_refused_with_those_that_are_there() -> None:
    """Three bits have no loader."""
    with pytest.raises(InvalidInputError, match=r"4 \(nf4\), 8 .*, 2 \(GPTQ\)"):
        replace(QLORA, quantization_bits=3)


@pytest.mark.parametrize(
    ("changes", "packed", "told"),
    [
        ({"method": Method.LORA, "quantization_bits": 8}, None, 'is of method "qlora"'),
        ({"quantization_bits": 8, "double_quantization": False}, None, "scales of nf4"),
        ({"quantization_bits": 8}, 2, 'packs them as gptq; say method "lora"'),
    ],
)
def test_what_cannot_be_combined_is_refused(
    changes: dict[str, object], packed: int | None, told: str
) -> None:
    """Each refusal says what would be right."""
    model = _architecture(None if packed is None else PACKED[packed])
    workload = replace(QLORA, **changes)  # type: ignore[arg-type]  # fields by name

    with pytest.raises(InvalidInputError, match=told):
        _estimate(model, workload)
