"""A job replayed: what it leaves behind, and how its answer changes."""

from dataclasses import replace

import pytest

from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.memory.allocator.replay import JobTensors, replay
from service.estimator.memory.allocator.replay_cache import ReplayCache
from service.estimator.memory.allocator.slack import estimate_ratio_slack, estimate_serving_slack
from service.estimator.memory.allocator.tensors import list_training_tensors, split_bytes
from service.estimator.memory.fsdp_buffers import NO_BUCKETS
from service.estimator.memory.timeline import build_train_timeline
from service.estimator.memory.training_pass import build_training_pass
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.passes.recorder import log_training
from service.estimator.tape import sizes
from service.estimator.tape.event_log import Events
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.result import Detail
from service.estimator.values.workload import Allocator, Checkpointing, ServeWorkload, TrainWorkload

DEVICE = Device(name="card", capacity_bytes=2**40, usable_bytes=2**40)
MIB = 2**20
CONFIG = {
    "model_type": "llama",
    "vocab_size": 512,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
}
WORKLOAD = TrainWorkload(sequence_length=512, micro_batch_size=2, precision=POLICIES["bf16"])
SHARDED = Layout(data_parallel=4, zero_stage=3, sharding=Sharding.FSDP2)


def a_model() -> Architecture:
    """Return a small llama."""
    return architecture_from_config(CONFIG)


def _answer(
    workload: TrainWorkload | ServeWorkload, layout: Layout, detail: Detail = Detail.REPLAYED
) -> tuple[int, int]:
    answer = estimate(a_model(), workload, layout=layout, device=DEVICE, detail=detail)
    return answer.allocated_bytes, answer.reserved_bytes


def _nothing() -> JobTensors:
    return JobTensors(
        loaded=(), states=(), main_gradients=(), temporaries=(), gradient_bytes=2, gradient_shards=1
    )


def _pass(*order: int, gradients: frozenset[int] = frozenset()) -> Events:
    """Return a pass whose storages have 12 MiB for each token."""
    count = 1 + max(index for index in order if index >= 0)
    size = sizes.per_token(12 * MIB)
    return Events(sizes=(size,), kinds=(0,) * count, order=order, gradients=gradients, shards=())


def test_what_a_pass_frees_is_used_again() -> None:
    """Two storages that never live together take one segment."""
    reserved, allocated = replay(
        Allocator.DEFAULT, _nothing(), [_pass(0, ~0, 1, ~1)], sizes.evaluate_monomials(1, 1)
    )

    assert (reserved, allocated) == (12 * MIB, 12 * MIB)


def test_gradients_outlive_their_pass_and_die_with_the_step() -> None:
    """Two micro batches leave two gradients, and the next step finds their segments."""
    passes = [_pass(0, 1, ~0, gradients=frozenset({1}))] * 2

    reserved, allocated = replay(
        Allocator.DEFAULT, _nothing(), passes, sizes.evaluate_monomials(1, 1)
    )

    assert (reserved, allocated) == (36 * MIB, 36 * MIB)


def test_states_are_made_at_the_first_step_and_stay() -> None:
    """The first pass leaves room for the states; the second one has to find its own."""
    tensors = replace(_nothing(), states=(12 * MIB,))

    reserved, _ = replay(Allocator.DEFAULT, tensors, [_pass(0, ~0)], sizes.evaluate_monomials(1, 1))

    assert reserved == 24 * MIB


def test_a_gradient_shard_is_priced_by_the_rank() -> None:
    """Elements times their bytes over the ranks that share them."""
    events = replace(
        _pass(0, gradients=frozenset({0})), sizes=(sizes.ZERO,), shards=((0, 24 * MIB),)
    )

    reserved, _ = replay(
        Allocator.DEFAULT,
        replace(_nothing(), gradient_shards=4),
        [events],
        sizes.evaluate_monomials(1, 1),
    )

    assert reserved == 12 * MIB


def test_a_part_is_spread_by_elements_and_adds_up() -> None:
    """Nothing is lost where the bytes are a multiple of the elements."""
    assert list(split_bytes(30, [1, 4])) == [6, 24]
    assert list(split_bytes(0, [1, 4])) == []


@pytest.mark.parametrize("layout", [Layout(), SHARDED])
@pytest.mark.parametrize("checkpointing", [Checkpointing.NONE, Checkpointing.FULL])
@pytest.mark.parametrize("micro_batches", [1, 2])
def test_the_log_adds_up_to_the_timeline(
    layout: Layout, checkpointing: Checkpointing, micro_batches: int
) -> None:
    """Every event of every layer, summed up, peaks where the frontier of the recording says."""
    workload = replace(
        WORKLOAD, activation_checkpointing=checkpointing, gradient_accumulation_steps=micro_batches
    )
    model = a_model()
    timeline = build_train_timeline(model, workload, layout)
    how = build_training_pass(model, workload, layout)
    events = log_training(model, how)
    values = sizes.evaluate_monomials(2, 512)
    priced = [sizes.evaluate(events.sizes[kind], values) for kind in events.kinds]
    shard_bytes = timeline.trained.grad_dtype.bytes_per_element
    for index, elements in events.shards:
        priced[index] = elements * shard_bytes // layout.shards
    live = highest = 0
    for event in events.order:
        live += priced[event] if event >= 0 else -priced[~event]
        highest = max(highest, live)

    states = timeline.states
    standing = states.resident + states.gradients * (micro_batches > 1)
    walked = max(
        moment.allocated_bytes for moment in timeline.peaks if moment.name != "optimizer_step"
    )

    assert standing + highest == pytest.approx(walked, rel=1e-4)


def test_tensors_add_up_to_the_states() -> None:
    """What is loaded and what the first step makes are the bytes that the states count, up to their
    rounding.
    """
    model, workload = a_model(), replace(WORKLOAD, precision=POLICIES["fp32"])
    timeline = build_train_timeline(model, workload, Layout())

    tensors = list_training_tensors(model, workload, Layout(), timeline.trained, timeline.states)

    assert sum(tensors.loaded) == timeline.states.weights + timeline.states.buffers
    assert sum(tensors.states) == timeline.states.optimizer_states
    assert sum(map(sum, tensors.temporaries)) == timeline.states.step_temporaries


@pytest.mark.parametrize(
    "layout",
    [
        Layout(data_parallel=3),
        Layout(data_parallel=2, zero_stage=1, sharding=Sharding.DEEPSPEED),
        Layout(data_parallel=2, zero_stage=3, sharding=Sharding.DEEPSPEED),
    ],
)
@pytest.mark.parametrize(
    "workload", [WORKLOAD, TrainWorkload(sequence_length=1, optimizer="adamw_bnb")]
)
def test_nothing_is_reserved_less_than_it_is_allocated(
    workload: TrainWorkload, layout: Layout
) -> None:
    """Buffers of communication are in the replay as well, so that its segments hold what the
    timeline counts.
    """
    allocated, reserved = _answer(workload, layout)

    assert allocated <= reserved


def test_buckets_add_up_to_the_gradients() -> None:
    """DDP's buckets hold every gradient once: the first takes a MiB, each further one 25, or one
    larger tensor.
    """
    timeline = build_train_timeline(a_model(), WORKLOAD, Layout(data_parallel=2))
    made = [
        list_training_tensors(
            a_model(), WORKLOAD, layout, timeline.trained, timeline.states, held
        ).loaded
        for layout, held in (
            (Layout(data_parallel=2), timeline.static_memory.buckets),
            (Layout(), NO_BUCKETS),
        )
    ]

    buckets = [size for size in made[0][len(made[1]) - 1 :] if size]
    assert sum(buckets) == timeline.static_memory.buckets.resident > 0
    assert MIB <= buckets[0] < 2 * MIB
    assert len(buckets) == 2


def test_a_replay_changes_what_is_reserved_and_nothing_that_is_allocated() -> None:
    """The ratio gives way to the replay; the allocated bytes are the model's own."""
    plain, replayed = _answer(WORKLOAD, Layout(), Detail.FULL), _answer(WORKLOAD, Layout())

    assert plain[0] == replayed[0]
    assert plain[1] != replayed[1] >= replayed[0]


def test_expandable_segments_reserve_less_here() -> None:
    """Fixed segments leave remainders that one growing segment does not."""
    expandable = replace(WORKLOAD, allocator=Allocator.EXPANDABLE_SEGMENTS)

    assert _answer(expandable, Layout())[1] < _answer(WORKLOAD, Layout())[1]
    assert (
        _answer(expandable, Layout(), Detail.FULL)[1] < _answer(WORKLOAD, Layout(), Detail.FULL)[1]
    )


def test_serving_falls_back_to_the_ratio() -> None:
    """The order of a serving pass is not written down."""
    workload = ServeWorkload(num_sequences=2, prompt_tokens=64)

    assert _answer(workload, Layout()) == _answer(workload, Layout(), Detail.FULL)


def test_the_same_question_is_replayed_once() -> None:
    """A second answer finds the first one's replay, in the question's own words."""
    model, cache = a_model(), ReplayCache()
    timeline = build_train_timeline(model, WORKLOAD, Layout())

    first = cache.replay_training(model, WORKLOAD, Layout(), timeline)

    assert cache.replay_training(model, replace(WORKLOAD), Layout(), timeline) is first
    assert (
        cache.replay_training(model, replace(WORKLOAD, micro_batch_size=3), Layout(), timeline)
        is not first
    )


def test_a_replay_that_does_not_add_up_is_not_believed() -> None:
    """A timeline with a peak that the log cannot explain keeps its ratio."""
    model = a_model()
    timeline = build_train_timeline(model, WORKLOAD, Layout())
    moments = tuple(
        replace(moment, allocated_bytes=moment.allocated_bytes * 2) for moment in timeline.peaks
    )

    assert (
        ReplayCache().replay_training(model, WORKLOAD, Layout(), replace(timeline, peaks=moments))
        is None
    )


def test_components_of_a_replayed_answer_add_up() -> None:
    """The slack of the replay stands among the components."""
    answer = estimate(
        a_model(),
        WORKLOAD,
        layout=Layout(),
        device=DEVICE,
        plans=PlanCache(),
        detail=Detail.REPLAYED,
    )

    assert sum(component.bytes for component in answer.components) == answer.device_bytes
    slack = next(
        component for component in answer.components if component.name == "allocator_slack"
    )
    assert "segments" in slack.formula
    assert answer.reserved_interval.low <= answer.reserved_bytes <= answer.reserved_interval.high


def test_numbers_alone_are_the_numbers_of_the_explained_answer() -> None:
    """Nothing that a search sees depends on whether it is explained."""
    explained, numbers = (
        estimate(a_model(), WORKLOAD, layout=SHARDED, device=DEVICE, detail=detail)
        for detail in (Detail.FULL, Detail.NUMBERS)
    )

    assert numbers.components == ()
    assert numbers.phases == ()
    for name in ("allocated", "reserved", "device"):
        assert getattr(numbers, f"{name}_bytes") == getattr(explained, f"{name}_bytes")
        assert getattr(numbers, f"{name}_interval") == getattr(explained, f"{name}_interval")
    assert (numbers.peak_instant, numbers.steady_bytes) == (
        explained.peak_instant,
        explained.steady_bytes,
    )


@pytest.mark.parametrize("kind", Allocator)
def test_a_replica_loses_less_than_a_training_job(kind: Allocator) -> None:
    """Its weights come once and stay, so that there are few holes."""
    serving, training = (
        estimate_serving_slack(10**10, kind),
        estimate_ratio_slack(10**10, kind, gathers=False),
    )

    assert 0 <= serving.low < serving.point < serving.high
    assert serving.point < training.point
    assert serving.high < training.high


def test_a_sharded_unit_is_gathered_tensor_by_tensor() -> None:
    """The log has a storage for every parameter of a block, of the bytes in which it is
    gathered.
    """
    model = a_model()
    block, _ = model.blocks[0]

    events = log_training(model, build_training_pass(model, WORKLOAD, SHARDED))

    logged = {events.sizes[kind] for kind in events.kinds}
    assert {sizes.constant(weight.numel * 2) for weight in block.weights()} <= logged


def test_a_replay_that_was_given_up_is_made_when_it_is_asked_for_again() -> None:
    """Whoever leaves takes nothing along: the next one finds the recordings, and an answer of its
    own.
    """
    plans = PlanCache()

    def leave() -> None:
        raise TimeoutError

    def ask(cache: PlanCache) -> int:
        found = estimate(
            a_model(), WORKLOAD, layout=Layout(), device=DEVICE, plans=cache, detail=Detail.REPLAYED
        )
        return found.reserved_bytes

    with pytest.raises(TimeoutError):
        ask(plans.with_cancellation(leave))

    assert ask(plans) == ask(PlanCache())
    assert ask(plans.with_cancellation(leave)) == ask(plans)
