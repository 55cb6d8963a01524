"""A plan runs the asked batch where the host can bear it, few layers of it, and says what it left
out.
"""

from dataclasses import replace

import pytest

from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.layout import Layout
from service.estimator.values.units import GIB
from service.estimator.values.workload import Lora, Method, ServeWorkload, TrainWorkload
from service.jobs.contract import FailureKind
from service.jobs.host import Host
from service.probing.plan import Point, ProbePlan, ProbeQuestion
from service.probing.planning import MIN_SEQUENCE, make_plan
from service.probing.refusal import Refusal
from tests.tiny_models import tiny_config

BIG_HOST = Host(
    available_bytes=10_000 * GIB,
    flops_per_second=1e18,
    state_bytes_per_second=1e12,
    scratch_factor=1.25,
)
TRACER = Host(operators_per_second=14_000.0)
BYTES_PER_TOKEN = 10**6
LORA = TrainWorkload(sequence_length=256, method=Method.LORA, lora=Lora())


def model(num_layers: int = 16) -> Architecture:
    """Return a llama as deep as asked."""
    return architecture_from_config(
        {
            "model_type": "llama",
            "vocab_size": 32000,
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "num_hidden_layers": num_layers,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "max_position_embeddings": 4096,
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": True,
            "hidden_act": "silu",
        },
    )


def question(
    num_layers: int = 16, *, full_depth: bool = False, deadline_s: float = 600.0
) -> ProbeQuestion:
    """Return a question about training on 4 x 256 tokens."""
    return ProbeQuestion(
        architecture=model(num_layers),
        workload=TrainWorkload(sequence_length=256, micro_batch_size=4),
        layout=Layout(),
        full_depth=full_depth,
        deadline_s=deadline_s,
    )


def a_byte_rule(point: Point) -> int:
    """Stand in for the analytic answer: a gigabyte a layer and a megabyte a token."""
    return point.num_layers * GIB + point.num_tokens * BYTES_PER_TOKEN


def plan_of(asked: ProbeQuestion, host: Host = BIG_HOST) -> ProbePlan:
    """Return the plan on a host that can bear everything, if not told otherwise."""
    return make_plan(asked, host, a_byte_rule)


def test_runs_the_asked_batch_at_two_depths() -> None:
    """Depth is extrapolated, batch and sequence are not."""
    plan = plan_of(question())

    assert [
        (point.num_layers, point.micro_batch_size, point.sequence_length) for point in plan.points
    ] == [
        (2, 4, 256),
        (3, 4, 256),
        (4, 4, 256),
    ]
    assert plan.extrapolated
    assert plan.exact_tokens


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_a_shallow_model_is_run_itself(num_layers: int) -> None:
    """Nothing is extrapolated where the model has no more layers than a slice."""
    plan = plan_of(question(num_layers))

    assert plan.points == (plan.target,)
    assert not plan.extrapolated
    assert plan.notes == ()


def test_full_depth_runs_the_whole_model() -> None:
    """A user may ask for all layers: the slices are held against them where there is time for
    both.
    """
    plan = plan_of(question(full_depth=True))
    hurried = plan_of(question(full_depth=True), replace(BIG_HOST, flops_per_second=1.3e11))

    assert plan.points[-1] == hurried.points[-1] == plan.target
    assert not plan.extrapolated
    assert (len(plan.points), len(hurried.points)) == (3, 1)


@pytest.mark.parametrize(
    ("free_gib", "slow", "depths"), [(80, 1, [16]), (10, 1, [2, 3, 4]), (80, 2000, [2, 3])]
)
def test_a_gpu_runs_every_layer_that_fits_it_in_time(
    free_gib: int, slow: int, depths: list[int]
) -> None:
    """What is reserved, the context and the time of the model are its own; slices stand in where
    memory or time is short.
    """
    gpu = Host(
        available_bytes=free_gib * GIB,
        flops_per_second=5e14 / slow,
        state_bytes_per_second=2e12,
        reserves=True,
        num_steps=6,
    )

    assert [point.num_layers for point in plan_of(question(), gpu).points] == depths


def test_a_small_host_gets_shallower_slices() -> None:
    """Where three layers do not fit, one and two do."""
    plan = plan_of(question(), replace(BIG_HOST, available_bytes=4 * GIB))

    assert [point.num_layers for point in plan.points] == [1, 2]


def test_adapters_need_two_layers_at_least() -> None:
    """Below the first adapter nothing needs a gradient, so one layer says nothing about the
    second.
    """
    asked = replace(question(), workload=LORA)

    with pytest.raises(Refusal) as refused:
        plan_of(asked, replace(BIG_HOST, available_bytes=3 * GIB))

    assert refused.value.kind is FailureKind.DOES_NOT_FIT_HOST


def test_a_slow_host_runs_fewer_tokens_and_says_so() -> None:
    """Two small sizes give the slope per token, and a note names them."""
    plan = plan_of(question(), replace(BIG_HOST, flops_per_second=3e10))
    sizes = {point.num_tokens for point in plan.points}

    assert len(sizes) == 2
    assert max(sizes) < plan.target.num_tokens
    assert not plan.exact_tokens
    assert any(
        "of 4 x 256 tokens: the peaks follow the analytic curve" in note for note in plan.notes
    )


def test_the_batch_is_cut_before_the_sequence() -> None:
    """Everything is linear in the batch; attention is not in the sequence."""
    plan = plan_of(question(), replace(BIG_HOST, flops_per_second=3e10))

    assert max(point.sequence_length for point in plan.points) == 256
    assert max(point.micro_batch_size for point in plan.points) < 4


def test_refuses_with_numbers_what_the_host_cannot_hold() -> None:
    """The refusal says what is needed and what is free."""
    with pytest.raises(Refusal) as refused:
        plan_of(question(), replace(BIG_HOST, available_bytes=GIB))

    assert refused.value.kind is FailureKind.DOES_NOT_FIT_HOST
    assert f"2 layers with {MIN_SEQUENCE} tokens" in refused.value.message
    assert "1.00 GiB are free" in refused.value.message


def test_refuses_what_the_deadline_does_not_allow() -> None:
    """A probe that would be killed is not begun."""
    with pytest.raises(Refusal) as refused:
        plan_of(question(deadline_s=0.001))

    assert refused.value.kind is FailureKind.UNSUPPORTED
    assert "deadline" in refused.value.message


def test_serving_keeps_prompt_and_output() -> None:
    """A serving question is run with its own lengths."""
    workload = ServeWorkload(num_sequences=3, prompt_tokens=100, output_tokens=20)

    plan = plan_of(replace(question(), workload=workload))

    assert plan.target == Point(
        layers=tuple(range(16)), micro_batch_size=3, sequence_length=100, output_tokens=20
    )
    assert plan.target.num_tokens == 360


def test_where_nothing_is_computed_half_the_tokens_are_run_too() -> None:
    """The asked model comes first, and what a token adds is measured after it."""
    plan = plan_of(question(), TRACER)

    assert [(point.num_layers, point.sequence_length) for point in plan.points] == [
        (16, 256),
        (16, 128),
    ]
    assert not plan.extrapolated
    assert plan.notes == ()


def test_slices_are_run_with_half_the_tokens_where_the_whole_takes_too_long() -> None:
    """The shallowest slice shows what a token adds to each kind of layer."""
    plan = plan_of(question(400), TRACER)

    assert [(point.num_layers, point.sequence_length) for point in plan.points] == [
        (2, 256),
        (3, 256),
        (4, 256),
        (2, 128),
    ]


@pytest.mark.parametrize(
    ("length", "host"),
    [
        pytest.param(256, BIG_HOST, id="a device that computes"),
        pytest.param(100, TRACER, id="a short sequence"),
        pytest.param(256, replace(TRACER, operators_per_second=2_100.0), id="no time for both"),
    ],
)
def test_fewer_tokens_are_left_out(length: int, host: Host) -> None:
    """They only check the curve, so they cost neither a device's time nor the asked run."""
    asked = question()

    plan = plan_of(
        replace(asked, workload=TrainWorkload(sequence_length=length, micro_batch_size=4)), host
    )

    assert {point.sequence_length for point in plan.points} == {length}


def test_a_sequence_whose_length_is_not_ours_is_run_with_half_the_batch() -> None:
    """An encoder-decoder's lengths belong to each other."""
    t5 = architecture_from_config(tiny_config("t5"))
    asked = replace(question(), architecture=t5)

    plan = plan_of(asked, TRACER)

    assert [(point.micro_batch_size, point.sequence_length) for point in plan.points] == [
        (4, 256),
        (2, 256),
    ]
