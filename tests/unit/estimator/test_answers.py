"""The explained answer: instants, the three quantities, components in words, corrections,
checkpoints, warnings.
"""

from dataclasses import replace

import pytest

from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.memory.kv_cache import COUNTER_BYTES
from service.estimator.model.families.synthetic import build_synthetic_architecture
from service.estimator.values.corrections import Corrections, InstantCorrection
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.result import Component, Estimate
from service.estimator.values.units import GIB, MIB
from service.estimator.values.workload import (
    Cache,
    Checkpointing,
    Lora,
    Method,
    ServeWorkload,
    TrainWorkload,
)
from tests.builders import a_device, a_model, a_serving, a_sharded_layout, a_training

_MODEL = a_model()
_N = _MODEL.parameter_counts().total


def _ask(
    workload: TrainWorkload | ServeWorkload,
    layout: Layout | None = None,
    corrections: Corrections | None = None,
) -> Estimate:
    return estimate(
        _MODEL, workload, layout=layout or Layout(), device=a_device(), corrections=corrections
    )


def _instants(answer: Estimate) -> dict[str, int]:
    return {instant.name: instant.allocated_bytes for instant in answer.instants}


def _components(answer: Estimate) -> dict[str, Component]:
    return {component.name: component for component in answer.components}


def test_a_training_step_has_its_instants_in_order() -> None:
    """Load, forward, loss, backward, optimizer step."""
    assert list(_instants(_ask(a_training()))) == [
        "load",
        "forward",
        "loss",
        "backward",
        "optimizer_step",
    ]


def test_a_replica_has_its_instants_in_order() -> None:
    """Load, prefill and, with output tokens, decode."""
    assert list(_instants(_ask(a_serving()))) == ["load", "prefill", "decode"]
    assert list(_instants(_ask(a_serving(output_tokens=0)))) == ["load", "prefill"]


def test_the_cache_holds_two_tensors_of_every_token() -> None:
    """2 x layers x key/value heads x head dimension x bytes, for prompt and output of every
    sequence.
    """
    answer = _ask(a_serving())

    assert answer.serving is not None
    assert answer.serving.kv_bytes_per_token == 2 * 4 * 2 * 16 * 2
    assert answer.serving.kv_cache_bytes == 256 * 2 * (100 + 28) * 2
    assert answer.serving.required_bytes == answer.allocated_bytes
    assert answer.serving.budget_bytes == a_device().usable_bytes


@pytest.mark.parametrize(("max_model_len", "tokens"), [(None, 128), (128, 128), (1000, 1000)])
def test_a_static_cache_is_as_long_as_it_was_made(max_model_len: int | None, tokens: int) -> None:
    """It is there from prefill on, for the longest sequence that was announced, with a counter for
    each layer.
    """
    num_layers = a_model().num_hidden_layers
    answer = _ask(a_serving(cache=Cache.STATIC, max_model_len=max_model_len))

    assert answer.serving is not None
    assert answer.serving.kv_cache_bytes == 512 * 2 * tokens + COUNTER_BYTES * num_layers
    assert _instants(answer)["prefill"] > answer.serving.kv_cache_bytes


def test_a_component_is_explained_in_numbers() -> None:
    """The formula quotes the parameters, the bytes of each and the ranks; the source is named."""
    answer = _ask(a_training(optimizer="adamw_fused"), a_sharded_layout(8))

    weights = _components(answer)["optimizer_states"]
    assert weights.formula.startswith("adamw_fused")
    assert "x 4 B" in weights.formula
    assert weights.formula.endswith("/ 8 ranks")
    assert weights.source


def test_corrections_are_added_to_their_instant() -> None:
    """A measured difference, fixed and per token, moves its instant, its component and the
    basis.
    """
    tokens = 2 * 128
    corrections = Corrections(
        calibration="cal-1",
        instants={"loss": InstantCorrection(fixed_bytes=10 * MIB, bytes_per_token=3.0)},
        relative_error=0.05,
        proven=True,
    )
    plain = _ask(a_training())

    answer = _ask(a_training(), corrections=corrections)

    assert _instants(answer)["loss"] == _instants(plain)["loss"] + 10 * MIB + 3 * tokens
    assert _instants(answer)["backward"] == _instants(plain)["backward"]
    assert answer.peak_instant == "loss"
    assert (answer.basis, answer.calibration) == ("calibrated", "cal-1")
    assert answer.allocated_interval.high == answer.allocated_bytes + round(
        answer.allocated_bytes * 0.05
    )
    assert sum(component.bytes for component in answer.components) == answer.device_bytes


@pytest.mark.parametrize("wrong", [1 << 62, -(1 << 62)])
def test_an_impossible_correction_leaves_the_analytic_answer(wrong: int) -> None:
    """A wrong measurement takes no answer away: the analytic one stands, and says why."""
    names = _instants(_ask(a_training()))
    corrections = Corrections(
        calibration="cal-1", instants=dict.fromkeys(names, InstantCorrection(fixed_bytes=wrong))
    )

    answer, plain = _ask(a_training(), corrections=corrections), _ask(a_training())

    assert (answer.allocated_bytes, answer.basis, answer.calibration) == (
        plain.allocated_bytes,
        "analytic",
        None,
    )
    assert "calibration cal-1 would make the allocated bytes" in answer.warnings[-1]


def test_imports_are_named_in_the_answer() -> None:
    """Who reads an answer learns that somebody's word is part of it."""
    said = _ask(a_training(), corrections=Corrections(calibration="cal-1", num_imported=2)).warnings

    assert any(warning.startswith("rests on 2 imported measurements") for warning in said)


def test_a_correction_cannot_take_more_than_there_is() -> None:
    """Activations do not become negative: only what was estimated can be corrected away."""
    corrections = Corrections(
        calibration="cal-1", instants={"forward": InstantCorrection(fixed_bytes=-GIB)}
    )

    answer = _ask(a_training(), corrections=corrections)

    assert 0 < _instants(answer)["forward"] < _instants(_ask(a_training()))["forward"]


def test_a_checkpoint_holds_weights_states_and_master_copies() -> None:
    """bf16_mixed: 2 bytes of weights, and 4 of master copy and 8 of moments, for the whole job
    whatever its shards.
    """
    answer = _ask(a_training(), a_sharded_layout(8))

    assert answer.checkpoint is not None
    assert (answer.checkpoint.weights, answer.checkpoint.optimizer) == (2 * _N, 12 * _N)
    assert answer.checkpoint.total == 14 * _N


def test_a_checkpoint_holds_what_no_rank_has_alone_and_what_is_not_trained() -> None:
    """Tensor parallelism splits no file, and frozen weights are saved beside the trained ones."""
    whole = _ask(a_training()).checkpoint
    split = _ask(a_training(), Layout(tensor_parallel=2)).checkpoint
    frozen = _ask(a_training(frozen=("embedding",))).checkpoint

    assert whole is not None
    assert frozen is not None
    assert split == whole
    assert frozen.weights == whole.weights
    assert frozen.optimizer < whole.optimizer


def test_a_checkpoint_of_adapters_holds_the_adapters() -> None:
    """The frozen base is not written, and has no master copy."""
    answer = _ask(a_training(method=Method.LORA, lora=Lora(rank=1, targets=("q_proj",))))

    assert answer.checkpoint is not None
    assert (answer.checkpoint.weights, answer.checkpoint.optimizer) == (4 * 4 * 128, 8 * 4 * 128)


def test_settings_without_effect_are_said() -> None:
    """A stage on one rank shards nothing; clipping needs nothing at the peak."""
    answer = _ask(
        a_training(gradient_clipping=True), Layout(zero_stage=2, sharding=Sharding.DEEPSPEED)
    )

    assert any("zero_stage 2 has no effect" in warning for warning in answer.warnings)
    assert any("gradient_clipping" in warning for warning in answer.warnings)


def test_replicas_keep_buckets_of_all_gradients() -> None:
    """DDP's buckets are a second copy; DeepSpeed's live during backward alone; one rank has
    none.
    """
    resting = [
        _ask(a_training(precision="bf16"), layout).steady_bytes
        for layout in (Layout(), Layout(data_parallel=2), a_sharded_layout(2, stage=1))
    ]

    assert resting[1] - resting[0] == 2 * _N
    assert resting[0] - resting[2] == 4 * _N // 2


@pytest.mark.parametrize("num_gpus", [2, 8, 64])
def test_a_job_of_several_gpus_has_a_communicator(num_gpus: int) -> None:
    """NCCL's buffers lie outside of the allocator."""
    answer = _ask(a_training(), a_sharded_layout(num_gpus))

    assert answer.num_gpus == num_gpus
    assert (
        answer.device_bytes - answer.reserved_bytes
        > _ask(a_training()).device_bytes - _ask(a_training()).reserved_bytes
    )


def test_replicas_that_serve_share_no_communicator() -> None:
    """More replicas change nothing on the GPU of one: they never talk to each other."""
    one, many = (_ask(a_serving(), Layout(data_parallel=replicas)) for replicas in (1, 8))

    assert many.num_gpus == 8
    assert (many.device_bytes, many.components) == (one.device_bytes, one.components)


@pytest.mark.parametrize(
    ("workload", "peak_flops", "warned"),
    [
        (a_training(precision="bf16"), {"fp16": 1, "fp32": 1}, True),
        (a_serving(), {"fp16": 1, "fp32": 1}, True),
        (a_training(precision="fp16"), {"fp16": 1, "fp32": 1}, False),
        (a_training(precision="bf16"), {"bf16": 1}, False),
        (a_training(precision="bf16"), {}, False),
    ],
)
def test_a_format_without_hardware_is_warned_of(
    workload: TrainWorkload | ServeWorkload, peak_flops: dict[str, int], *, warned: bool
) -> None:
    """A GPU with peak rates but none for the arithmetic of the workload emulates it; of an unknown
    GPU nothing is said.
    """
    device = replace(a_device(), peak_flops=peak_flops)

    answer = estimate(a_model(), workload, layout=Layout(), device=device)

    assert any("no hardware for bf16" in line for line in answer.warnings) is warned


@pytest.mark.parametrize("workload", [a_training(), a_serving()], ids=["train", "serve"])
def test_a_stand_in_answers_with_a_wide_interval(workload: TrainWorkload | ServeWorkload) -> None:
    """Of a model of which only the size is known, every interval says so."""
    model = build_synthetic_architecture(10**9)

    answer = estimate(model, workload, layout=Layout(), device=a_device())

    assert answer.allocated_interval.low < answer.allocated_bytes // 2
    assert answer.allocated_interval.high > answer.allocated_bytes * 3 // 2
    assert answer.device_interval.high > answer.device_bytes * 3 // 2


def test_plans_are_kept_up_to_their_number() -> None:
    """The oldest recording goes when the cache is full, and answers stay the same."""
    plans = PlanCache(capacity=1)
    questions = [
        a_training(activation_checkpointing=how) for how in (Checkpointing.NONE, Checkpointing.FULL)
    ] * 2

    answers = [
        estimate(_MODEL, question, layout=Layout(), device=a_device(), plans=plans)
        for question in questions
    ]

    assert answers[:2] == answers[2:]
    assert answers[0] == _ask(questions[0])


def test_serving_plans_are_kept_too() -> None:
    """A second question about the same kind of pass is answered from the recording."""
    plans = PlanCache()

    first, second = (
        estimate(_MODEL, a_serving(), layout=Layout(), device=a_device(), plans=plans)
        for _ in range(2)
    )

    assert first == second == _ask(a_serving())
