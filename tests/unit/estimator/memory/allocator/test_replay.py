"""A job replayed: what it leaves behind, and whether its log adds up."""

from dataclasses import replace

import pytest

from service.estimator.memory.allocator.replay import JobTensors, replay
from service.estimator.memory.allocator.replay_cache import ReplayCache
from service.estimator.memory.allocator.slack import estimate_ratio_slack, estimate_serving_slack
from service.estimator.memory.allocator.tensors import list_training_tensors, split_bytes
from service.estimator.memory.fsdp_buffers import NO_BUCKETS
from service.estimator.memory.optimizers.events import StepEvents
from service.estimator.memory.timeline import build_train_timeline
from service.estimator.memory.training_pass import build_training_pass
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.passes.recorder import log_training
from service.estimator.tape import sizes
from service.estimator.tape.event_log import Events
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Allocator, Checkpointing, TrainWorkload

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


def _nothing() -> JobTensors:
    return JobTensors(
        loaded=(),
        states=(),
        main_gradients=(),
        step=StepEvents(),
        gradient_bytes=2,
        gradient_shards=1,
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
    assert sum(tensors.step.sizes) == timeline.states.step_temporaries


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
