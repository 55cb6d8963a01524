"""What cannot run and what has no term yet: each refusal names the field and says what would be
right.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import EstimatorError, InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import Precision
from service.estimator.values.workload import (
    Cache,
    Checkpointing,
    Lora,
    Method,
    Offload,
    OffloadTarget,
    ServeWorkload,
    TrainWorkload,
)
from tests.builders import a_device, a_gpt2, a_model, a_serving, a_training

_CAST = Precision(
    name="custom",
    param_dtype=DType.FP32,
    compute_dtype=DType.BF16,
    grad_dtype=DType.FP32,
    optimizer_dtype=DType.FP32,
)


def _refusal(
    workload: TrainWorkload | ServeWorkload,
    *,
    model: Architecture | None = None,
    layout: Layout | None = None,
) -> EstimatorError:
    with pytest.raises(EstimatorError) as refusal:
        estimate(model or a_model(), workload, layout=layout or Layout(), device=a_device())
    return refusal.value


@pytest.mark.parametrize(
    ("changes", "field", "modelled"),
    [
        ({"method": Method.PEFT, "peft": "boft"}, "workload.peft.type", "lora, dora, ia3"),
        (
            {"activation_checkpointing": Checkpointing.SELECTIVE},
            "workload.activation_checkpointing",
            "none, full",
        ),
        ({"optimizer": "shampoo"}, "workload.optimizer", "adamw, adamw_fused"),
        (
            {"offload": Offload(optimizer=OffloadTarget.CPU)},
            "workload.offload.optimizer",
            "sharding deepspeed",
        ),
    ],
)
def test_training_without_a_term_is_refused(
    changes: dict[str, Any], field: str, modelled: str
) -> None:
    """Legal words that have no term yet: nothing is guessed, and what is modelled is named."""
    refusal = _refusal(a_training(**changes))

    assert isinstance(refusal, NotModelledError)
    assert refusal.field == field
    assert f"modelled: {modelled}" in refusal.message


@pytest.mark.parametrize(
    ("changes", "field", "modelled"),
    [
        ({"cache": Cache.PAGED}, "workload.cache", "dynamic, static"),
        ({"weight_dtype": DType.FP8}, "workload.weight_dtype", "bf16, fp16, fp32"),
        ({"kv_cache_dtype": DType.FP8}, "workload.kv_cache_dtype", "the dtype of the weights"),
        ({"engine_version": "4.1"}, "workload.engine_version", "4.30.0 and later"),
        (
            {"gpu_memory_fraction": 0.9},
            "workload.gpu_memory_fraction",
            "requests without gpu_memory_fraction",
        ),
        (
            {"max_num_batched_tokens": 8192},
            "workload.max_num_batched_tokens",
            "requests without max_num_batched_tokens",
        ),
        ({"enforce_eager": True}, "workload.enforce_eager", "enforce_eager false"),
        ({"max_model_len": 4096}, "workload.max_model_len", "cache static"),
    ],
)
def test_serving_without_a_term_is_refused(
    changes: dict[str, Any], field: str, modelled: str
) -> None:
    """The same for a replica."""
    refusal = _refusal(a_serving(**changes))

    assert isinstance(refusal, NotModelledError)
    assert refusal.field == field
    assert f"modelled: {modelled}" in refusal.message


@pytest.mark.parametrize("cache", [Cache.DYNAMIC, Cache.STATIC])
def test_a_length_below_the_tokens_cannot_run(cache: Cache) -> None:
    """No engine serves 128 tokens within a max_model_len of 127."""
    refusal = _refusal(a_serving(cache=cache, max_model_len=127))

    assert isinstance(refusal, InvalidInputError)
    assert refusal.field == "workload.max_model_len"
    assert "at least 128" in refusal.message


def test_a_sequence_within_the_window_is_answered_as_without_one() -> None:
    """Up to the window nothing slides."""
    answer = estimate(
        a_model(sliding_window=128),
        a_training(sequence_length=127),
        layout=Layout(),
        device=a_device(),
    )

    assert answer == estimate(
        a_model(), a_training(sequence_length=127), layout=Layout(), device=a_device()
    )


def test_a_sequence_beyond_the_window_needs_a_mask() -> None:
    """The flash kernel takes no mask, so that another one runs and the mask is there."""
    windowed, plain = (
        estimate(
            a_model(sliding_window=window),
            a_training(sequence_length=256),
            layout=Layout(),
            device=a_device(),
        )
        for window in (128, None)
    )

    assert windowed.phases[0].allocated_bytes > plain.phases[0].allocated_bytes


def test_learned_positions_end_the_sequence() -> None:
    """A model with learned positions cannot run beyond them."""
    refusal = _refusal(a_training(sequence_length=65), model=a_gpt2(max_position_embeddings=64))

    assert isinstance(refusal, InvalidInputError)
    assert "65 tokens, but gpt2 has learned positions for 64" in refusal.message


def test_adapters_on_a_layer_that_is_not_there() -> None:
    """A misspelt target is answered with the model's own layers."""
    refusal = _refusal(a_training(method=Method.LORA, lora=Lora(targets=("q_proj", "query"))))

    assert isinstance(refusal, InvalidInputError)
    assert refusal.field == "workload.lora.target_modules"
    assert (
        "names 'query'; this model has down_proj, gate_proj, k_proj, o_proj, q_proj, up_proj, "
        "v_proj" in refusal.message
    )


def test_a_cast_at_gather_needs_a_sharding_that_gathers() -> None:
    """fp32 weights with bf16 compute and no autocast: nobody would cast."""
    refusal = _refusal(TrainWorkload(sequence_length=8, precision=_CAST))

    assert isinstance(refusal, InvalidInputError)
    assert refusal.field == "workload.precision.compute_dtype"
    assert "use sharding 'fsdp2' or zero_stage 3, or set autocast" in refusal.message


def test_fsdp2_gathers_on_one_rank_too() -> None:
    """A single rank under FSDP2 casts when it gathers, as its traces show."""
    layout = Layout(sharding=Sharding.FSDP2, zero_stage=3)

    answer = estimate(
        a_model(),
        TrainWorkload(sequence_length=8, precision=_CAST),
        layout=layout,
        device=a_device(),
    )

    assert answer.allocated_bytes > 0


def test_heads_that_do_not_divide() -> None:
    """Tensor parallelism splits heads; the refusal lists the degrees that would."""
    refusal = _refusal(a_training(), layout=Layout(tensor_parallel=3))

    assert isinstance(refusal, InvalidInputError)
    assert refusal.field == "layout.tensor_parallel"
    assert "3 does not divide 4 attention heads; possible: 1, 2, 4" in refusal.message


@pytest.mark.parametrize(
    ("workload", "degree"),
    [
        (a_training(), "pipeline_parallel"),
        (a_training(), "expert_parallel"),
        (a_serving(), "pipeline_parallel"),
        (a_serving(), "context_parallel"),
        (a_serving(), "expert_parallel"),
    ],
)
def test_degrees_without_a_term_are_refused(
    workload: TrainWorkload | ServeWorkload, degree: str
) -> None:
    """On transformers a model is one stage, and a sequence stays whole."""
    refusal = _refusal(workload, layout=replace(Layout(data_parallel=2), **{degree: 2}))  # type: ignore[arg-type]  # by name

    assert isinstance(refusal, NotModelledError)
    assert refusal.field == f"layout.{degree}"


def test_serving_has_nothing_for_zero_to_shard() -> None:
    """A replica has no optimizer."""
    refusal = _refusal(
        a_serving(), layout=Layout(data_parallel=2, zero_stage=1, sharding=Sharding.DEEPSPEED)
    )

    assert isinstance(refusal, InvalidInputError)
    assert refusal.field == "layout.zero_stage"


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: a_training(sequence_length=0), "workload.sequence_length"),
        (lambda: a_training(micro_batch_size=-1), "workload.micro_batch_size"),
        (lambda: a_training(gradient_accumulation_steps=0), "workload.gradient_accumulation_steps"),
        (lambda: a_training(lora=Lora()), "workload.lora"),
        (lambda: a_training(method=Method.LORA), "workload.lora"),
        (lambda: Lora(rank=0), "workload.lora.rank"),
        (lambda: Lora(targets=()), "workload.lora.target_modules"),
        (lambda: a_serving(num_sequences=0), "workload.num_sequences"),
        (lambda: a_serving(prompt_tokens=0), "workload.prompt_tokens"),
        (lambda: a_serving(output_tokens=-1), "workload.output_tokens"),
        (lambda: a_serving(num_beams=0), "workload.num_beams"),
        (lambda: Layout(data_parallel=0), "layout.data_parallel"),
        (lambda: Layout(gpus_per_node=0), "layout.gpus_per_node"),
        (lambda: Layout(zero_stage=4, sharding=Sharding.DEEPSPEED), "layout.zero_stage"),
        (lambda: Layout(zero_stage=-1, sharding=Sharding.DEEPSPEED), "layout.zero_stage"),
        (lambda: Layout(zero_stage=2, sharding=Sharding.FSDP2), "layout.zero_stage"),
        (lambda: Layout(zero_stage=1), "layout.sharding"),
        (lambda: Layout(sequence_parallel=True), "layout.sequence_parallel"),
        (lambda: Layout(data_parallel=3, expert_parallel=2), "layout.expert_parallel"),
        (lambda: a_device(usable_bytes=0), "gpu.memory_bytes"),
        (lambda: Device(name="x", capacity_bytes=1, usable_bytes=2), "gpu.memory_bytes"),
    ],
)
def test_a_value_that_cannot_be_right_is_refused_when_it_is_made(
    make: Callable[[], object], field: str
) -> None:
    """Every value checks itself and names the dotted path of what is wrong."""
    with pytest.raises(InvalidInputError) as refusal:
        make()

    assert refusal.value.field == field
