"""Methods of PEFT beside low-rank adapters, against steps of the library on a CPU."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.rules.transformers import check_in_transformers
from service.estimator.values.device import Device
from service.estimator.values.errors import EstimatorError, InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout
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
SCRATCH = 1200
"""Bytes of small scratch of the runs on a CPU."""


def asked(
    peft: str, *, precision: str = "bf16", checkpointing: Checkpointing = Checkpointing.NONE
) -> TrainWorkload:
    """Return a training of two sequences of 128 tokens with a method's defaults."""
    return TrainWorkload(
        sequence_length=128,
        micro_batch_size=2,
        precision=POLICIES[precision],
        attention=Attention.FLASH,
        activation_checkpointing=checkpointing,
        method=Method.PEFT,
        peft=peft,
    )


def answered(workload: TrainWorkload, **changes: object) -> Estimate:
    """Return the answer for a small llama."""
    return estimate(
        architecture_from_config(CONFIG | changes), workload, layout=Layout(), device=DEVICE
    )


@pytest.mark.parametrize(
    ("peft", "precision", "checkpointing", "traced"),
    [
        ("ia3", "bf16", Checkpointing.NONE, (15_306_604, 15_175_540, 15_636_084)),
        ("ia3", "bf16", Checkpointing.FULL, (7_843_180, 7_251_572, 10_570_100)),
        ("ia3", "amp_bf16", Checkpointing.FULL, (13_482_860, 12_895_364, 16_930_676)),
        ("miss", "bf16", Checkpointing.NONE, (13_068_056, 13_852_448, 13_589_280)),
        ("miss", "bf16", Checkpointing.FULL, (7_609_112, 8_101_664, 9_614_112)),
        ("miss", "amp_bf16", Checkpointing.FULL, (13_527_320, 13_892_912, 15_991_072)),
    ],
)
def test_methods_are_what_peft_holds(
    peft: str, precision: str, checkpointing: Checkpointing, traced: tuple[int, int, int]
) -> None:
    """A step with PEFT 0.21.2 and its defaults: forward, loss and backward."""
    answer = answered(asked(peft, precision=precision, checkpointing=checkpointing))

    found = {instant.name: instant.allocated_bytes for instant in answer.instants}
    for name, bytes_ in zip(("forward", "loss", "backward"), traced, strict=True):
        assert abs(found[name] - bytes_) <= SCRATCH, name


@pytest.mark.parametrize(
    ("peft", "elements"),
    [("ia3", 3 * (128 + 128 + 704)), ("miss", 3 * 64 * (256 + 128)), ("lora", 3 * 8 * (512 + 384))],
)
def test_trained_parameters_are_those_of_peft(peft: str, elements: int) -> None:
    """What ``print_trainable_parameters`` counts: in fp32, with two moments."""
    adapters = sum(
        part.bytes for part in answered(asked(peft)).components if part.name == "adapters"
    )

    assert adapters == 4 * elements


def test_a_method_is_its_adapters() -> None:
    """PEFT's ``lora`` with its defaults is the contract's ``lora`` with those."""
    by_name = asked("lora")
    spelt = replace(
        by_name, method=Method.LORA, peft=None, lora=Lora(rank=8, targets=("q_proj", "v_proj"))
    )

    assert answered(by_name).allocated_bytes == answered(spelt).allocated_bytes


@pytest.mark.parametrize(
    ("peft", "changes", "kind", "field"),
    [
        ("prefix_tuning", {}, NotModelledError, "workload.peft.type"),
        ("ia3", {"model_type": "smollm3"}, InvalidInputError, "workload.peft.type"),
        (
            "ia3",
            {"quantization_config": {"quant_method": "gptq", "bits": 4}},
            NotModelledError,
            "workload.peft.type",
        ),
        ("miss", {"hidden_size": 240, "head_dim": 64}, NotModelledError, "workload.peft.type"),
    ],
)
def test_what_has_no_term_is_refused(
    peft: str, changes: Mapping[str, object], kind: type[EstimatorError], field: str
) -> None:
    """Methods, families and sizes that PEFT or this version has no default or term for."""
    model = architecture_from_config({**CONFIG, **changes})

    with pytest.raises(kind) as refusal:
        check_in_transformers(model, asked(peft), Layout())

    assert refusal.value.field == field
