"""Legal words that have no term: refused by name, never answered as if they existed."""

from dataclasses import replace

import pytest

from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.corrections import Corrections
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.result import Interval
from service.estimator.values.workload import Attention, Lora, Method, TrainWorkload

DEVICE = Device(name="card", capacity_bytes=2**40, usable_bytes=2**40)
CONFIG = {
    "model_type": "llama",
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}


def a_model() -> Architecture:
    """Return a small llama."""
    return architecture_from_config(CONFIG)


@pytest.mark.parametrize(
    "field", ["param_dtype", "compute_dtype", "grad_dtype", "optimizer_dtype", "master_dtype"]
)
def test_training_in_fp8_is_refused(field: str) -> None:
    """There is no term for weights, gradients or states of one byte."""
    precision = replace(POLICIES["bf16"], name="custom", **{field: DType.FP8})  # type: ignore[arg-type]  # field is a dtype

    with pytest.raises(NotModelledError) as refusal:
        estimate(
            a_model(),
            TrainWorkload(sequence_length=8, precision=precision),
            layout=Layout(),
            device=DEVICE,
        )

    assert refusal.value.field == f"workload.precision.{field}"


def test_adapters_in_fp8_are_refused() -> None:
    """Adapters are trained in a dtype that optimizers know."""
    workload = TrainWorkload(
        sequence_length=8,
        method=Method.LORA,
        lora=Lora(dtype=DType.FP8),
        precision=POLICIES["bf16"],
    )

    with pytest.raises(NotModelledError, match="fp8"):
        estimate(a_model(), workload, layout=Layout(), device=DEVICE)


def test_another_head_is_refused() -> None:
    """A class that transformers has not for the family is not answered as its language model."""
    with pytest.raises(NotModelledError, match="LlamaForMultipleChoice"):
        architecture_from_config({**CONFIG, "architectures": ["LlamaForMultipleChoice"]})


def _interval(basis: str) -> Interval:
    learnt = Corrections(calibration="c", basis=basis, relative_error=0.0001)
    workload = TrainWorkload(sequence_length=8, precision=POLICIES["bf16"])
    return estimate(
        a_model(), workload, layout=Layout(), device=DEVICE, corrections=learnt
    ).allocated_interval


def test_only_what_was_measured_itself_narrows_the_interval() -> None:
    """A calibration from another size may correct the point, but it does not vouch for this one."""
    measured, calibrated = _interval("measured"), _interval("calibrated")

    assert measured.high - measured.low < (calibrated.high - calibrated.low) / 50


def test_a_kernel_without_effect_is_said() -> None:
    """BLOOM's own code computes its scores, so that an asked kernel changes nothing."""
    bloom = architecture_from_config(
        {"model_type": "bloom", "vocab_size": 64, "hidden_size": 32, "n_layer": 2, "n_head": 4}
    )
    asked = TrainWorkload(sequence_length=8, attention=Attention.FLASH, precision=POLICIES["bf16"])

    flash = estimate(bloom, asked, layout=Layout(), device=DEVICE)
    eager = estimate(
        bloom, replace(asked, attention=Attention.EAGER), layout=Layout(), device=DEVICE
    )

    assert any("attention flash has no effect" in warning for warning in flash.warnings)
    assert eager.warnings == ()
    assert flash.allocated_bytes == eager.allocated_bytes
