"""From requests to values: the defaults of the contract, each named, and nothing dropped."""

from typing import Any

import msgspec
import pytest

from service.contract.schemas.layouts import LayoutRequest
from service.contract.schemas.workload import WorkloadRequest
from service.contract.to_question.layouts import read_layout
from service.contract.to_question.workloads import read_workload
from service.estimator.values.batches import Evaluation
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import EstimatorError, InvalidInputError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import (
    Attention,
    Checkpointing,
    Engine,
    Lora,
    Method,
    Quantization,
    ServeWorkload,
    TrainWorkload,
)


def train(**fields: object) -> tuple[TrainWorkload, list[str]]:
    """Read a training request."""
    request: Any = msgspec.convert(
        {"task": "train", "sequence_length": 4096} | fields, WorkloadRequest
    )
    workload, assumptions = read_workload(request)
    assert isinstance(workload, TrainWorkload)
    return workload, assumptions


def serve(**fields: object) -> tuple[ServeWorkload, list[str]]:
    """Read a serving request."""
    request: Any = msgspec.convert(
        {"task": "serve", "num_sequences": 64, "prompt_tokens": 1536} | fields, WorkloadRequest
    )
    workload, assumptions = read_workload(request)
    assert isinstance(workload, ServeWorkload)
    return workload, assumptions


def layout(**fields: object) -> tuple[Layout, tuple[str, ...]]:
    """Read a layout."""
    return read_layout(msgspec.convert(fields, LayoutRequest))


def test_training_defaults_are_those_of_the_contract() -> None:
    """A request that says only its length is full fine-tuning in bf16_mixed with AdamW, and each
    default is listed.
    """
    workload, assumptions = train()

    assert workload == TrainWorkload(
        sequence_length=4096,
        precision=POLICIES["bf16_mixed"],
        attention=Attention.SDPA,
        activation_checkpointing=Checkpointing.NONE,
    )
    assert {line.partition(" = ")[0] for line in assumptions} == {
        "workload.framework",
        "workload.method",
        "workload.precision",
        "workload.optimizer",
        "workload.micro_batch_size",
        "workload.gradient_accumulation_steps",
        "workload.activation_checkpointing",
        "workload.attention",
        "workload.loss",
        "workload.offload",
    }


def test_qlora_is_prepared_and_autocast_unless_said() -> None:
    """PEFT's guide casts norms and head to fp32 and trains under ``bf16=True``; both are named."""
    workload, assumptions = train(method="qlora")

    assert workload.fp32_norms_and_head is None
    assert workload.precision == POLICIES["bf16_autocast"]
    named = [line.partition(" = ")[0] for line in assumptions]
    assert {"workload.fp32_norms_and_head", "workload.precision"} <= set(named)


@pytest.mark.parametrize("prepared", [False, True])
def test_a_qlora_that_says_what_it_casts_is_believed(prepared: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """TRL's trainers say false."""
    workload, assumptions = train(method="qlora", fp32_norms_and_head=prepared)

    assert workload.fp32_norms_and_head is prepared
    assert not any("fp32_norms_and_head" in line for line in assumptions)


def test_what_is_said_is_no_assumption() -> None:
    """A field that the request holds is taken and not listed, also when it equals the default."""
    workload, assumptions = train(
        method="full", optimizer="sgd", micro_batch_size=3, padding_mask=True
    )

    assert (workload.optimizer, workload.micro_batch_size, workload.padding_mask) == (
        "sgd",
        3,
        True,
    )
    assert not {"workload.method", "workload.optimizer", "workload.micro_batch_size"} & {
        line.partition(" = ")[0] for line in assumptions
    }


def test_lora_defaults() -> None:
    """Adapters default to rank 16 on all linear layers in fp32; what the request says stays."""
    workload, assumptions = train(method="lora")
    chosen, _ = train(
        method="lora", lora={"rank": 8, "target_modules": ["q_proj", "v_proj"], "dtype": "bf16"}
    )

    assert workload.lora == Lora(rank=16, targets=None, dtype=DType.FP32)
    assert "workload.lora.rank = 16" in assumptions
    assert chosen.lora == Lora(rank=8, targets=("q_proj", "v_proj"), dtype=DType.BF16)


def test_adapters_without_an_adapting_method_are_refused() -> None:
    """An object that would have no effect is not dropped."""
    with pytest.raises(InvalidInputError, match="lora"):
        train(lora={"rank": 8})


def test_precision_object_follows_param_dtype() -> None:
    """Formats that are absent follow the weights', and each of them is listed."""
    workload, assumptions = train(precision={"param_dtype": "bf16", "master_dtype": "fp32"})

    precision = workload.precision
    assert (precision.compute_dtype, precision.grad_dtype, precision.optimizer_dtype) == (
        DType.BF16,
        DType.BF16,
        DType.FP32,
    )
    assert precision.bytes_per_param == 16
    assert "workload.precision.grad_dtype = bf16" in assumptions


def test_serving_defaults_are_those_of_the_contract() -> None:
    """A serving request that says only its load is served by transformers in 16 bit without output
    tokens.
    """
    workload, assumptions = serve()

    assert workload == ServeWorkload(num_sequences=64, prompt_tokens=1536)
    assert workload.engine is Engine.TRANSFORMERS
    assert "workload.output_tokens = 0" in assumptions


def test_fp8_weights_are_a_quantization() -> None:
    """The alias is read, and refused beside another quantisation."""
    workload, _ = serve(weight_dtype="fp8")

    assert workload.quantization is Quantization.FP8
    with pytest.raises(InvalidInputError, match="alias"):
        serve(weight_dtype="fp8", quantization="nf4")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, Sharding.DDP),
        ({"zero_stage": 3}, Sharding.DEEPSPEED),
        ({"zero_stage": 0}, Sharding.DEEPSPEED),
        ({"zero_stage": 3, "sharding": "fsdp2"}, Sharding.FSDP2),
    ],
)
def test_naming_a_stage_means_deepspeed(fields: dict[str, object], expected: Sharding) -> None:
    """Who shards is DeepSpeed when a stage is named and nobody else is."""
    assert layout(**fields)[0].sharding is expected


@pytest.mark.parametrize("sharding", [Sharding.FSDP1, Sharding.FSDP2])
def test_full_sharding_is_stage_three(sharding: Sharding) -> None:
    """Both of PyTorch's own shard everything, so that nobody has to name the stage."""
    value, assumptions = layout(sharding=sharding.value, data_parallel=2)

    assert (value.sharding, value.zero_stage) == (sharding, 3)
    assert "layout.zero_stage = 3" in assumptions


def test_reentrant_checkpoints_are_read_as_said() -> None:
    """Nothing assumes them: whoever uses them says so."""
    asked, _ = train(activation_checkpointing="full", reentrant_checkpointing=True)
    silent, _ = train(activation_checkpointing="full")

    assert (asked.reentrant_checkpointing, silent.reentrant_checkpointing) == (True, False)


def test_absent_layout_is_one_gpu() -> None:
    """Without a layout every degree is one, and each is listed."""
    value, assumptions = read_layout(msgspec.UNSET)

    assert value == Layout()
    assert "layout.data_parallel = 1" in assumptions
    assert "layout.sharding = ddp" in assumptions


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({"compile": True}, "compile", True),
        ({"double_quantization": False}, "double_quantization", False),
        ({"framework_version": "5.0"}, "framework_version", "5.0"),
        ({"method": "peft", "peft": {"type": "ia3"}}, "peft", "ia3"),
        ({"activation_checkpointing": {"selective": 2}}, "selective_every", 2),
        ({"num_images": 2}, "num_images", 2),
        ({"frozen": ["embedding"]}, "frozen", ("embedding",)),
        ({"num_tokens": 10**12}, "num_tokens", 10**12),
        ({"evaluation": {}}, "evaluation", Evaluation()),
        (
            {"evaluation": {"batch_size": 16, "sequence_length": 512, "kept_batches": 2}},
            "evaluation",
            Evaluation(batch_size=16, sequence_length=512, kept_batches=2),
        ),
    ],
)
def test_every_word_reaches_the_workload(
    fields: dict[str, object], name: str, value: object
) -> None:
    """The whole vocabulary is read; whether a word has a term is the estimator's to say."""
    assert getattr(train(**fields)[0], name) == value


@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize("precision", list(POLICIES))
def test_every_named_choice_is_read_or_refused(method: Method, precision: str) -> None:
    """No word of the vocabulary makes reading do anything but answer or refuse."""
    try:
        workload, _ = train(method=method.value, precision=precision)
    except EstimatorError as error:
        assert error.field is not None  # noqa: PT017 - which methods are refused is the estimator's to say
    else:
        assert workload.precision is POLICIES[precision]


@pytest.mark.parametrize(
    ("fields", "loss", "reference"),
    [
        ({}, "full_logits", None),
        ({"kernels": "liger"}, "fused_linear", None),
        ({"kernels": "liger", "loss": "chunked_nll"}, "chunked_nll", None),
        ({"trainer": "dpo"}, "chunked_nll", "model"),
        ({"trainer": "dpo", "method": "lora"}, "chunked_nll", "adapters_off"),
        ({"trainer": "dpo", "reference": "precomputed"}, "chunked_nll", "precomputed"),
        ({"trainer": "kto"}, "chunked_nll", "model"),
        ({"trainer": "kto", "method": "lora"}, "chunked_nll", "adapters_off"),
        ({"trainer": "orpo"}, "full_logits", None),
        ({"trainer": "simpo", "kernels": "liger"}, "full_logits", None),
        ({"trainer": "reward", "kernels": "liger"}, "full_logits", None),
    ],
)
def test_a_client_brings_its_own_loss(
    fields: dict[str, object], loss: str, reference: str | None
) -> None:
    """What the kernels and the trainer run when nothing is said is a default that is named."""
    workload, assumptions = train(**fields)

    assert workload.loss == loss
    assert workload.reference == reference
    assert (f"workload.loss = {loss}" in assumptions) is ("loss" not in fields)


@pytest.mark.parametrize(("loss", "told"), [(None, True), ("selective", False)])
def test_a_loss_that_is_taken_for_granted_says_whose_it_is(loss: str | None, *, told: bool) -> None:
    """Releases of TRL before 1.15 hold all logits."""
    _, assumptions = train(trainer="dpo", **({} if loss is None else {"loss": loss}))

    assert any("before it loss selective" in line for line in assumptions) is told


@pytest.mark.parametrize("key", ["long", "0", "-5", "1e3", "٣", "9" * 5000, "999999999"])
def test_lengths_that_are_none_are_refused(key: str) -> None:
    """A histogram's keys are numbers of tokens, none beyond what a sequence may have."""
    with pytest.raises(InvalidInputError, match=f"'{key[:20]}' is no number of tokens from 1 to"):
        train(sequence_lengths={key: 3})


def test_fp32_outputs_say_nothing_without_autocast() -> None:
    """Pure bf16 runs with and without the word are one question."""
    assert train(precision="bf16", fp32_outputs=False) == train(precision="bf16")
