"""A job replayed: what it leaves behind, and whether its log adds up."""

from dataclasses import replace

import pytest

from service.estimator.memory.allocator.replay import GroupUpdate, JobTensors, replay
from service.estimator.memory.allocator.replay_cache import ReplayCache
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
from service.estimator.tape.sizes import Size
from service.estimator.tape.units import COPY_IN_STREAM, REDUCE_STREAM
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
        main_gradients=(),
        updates=(),
        gradient_bytes=2,
        gradient_shards=1,
    )


def _replay(
    kind: Allocator, tensors: JobTensors, passes: list[Events], values: Size
) -> tuple[int, int]:
    """Return what a job reserves and allocates."""
    peaks = replay(kind, tensors, passes, values)
    return peaks.reserved_bytes, peaks.allocated_bytes


def _pass(*order: int, gradients: frozenset[int] = frozenset()) -> Events:
    """Return a pass whose storages have 12 MiB for each token."""
    count = 1 + max(index for index in order if index >= 0)
    size = sizes.per_token(12 * MIB)
    return Events(sizes=(size,), kinds=(0,) * count, order=order, gradients=gradients, shards=())


def test_what_a_pass_frees_is_used_again() -> None:
    """Two storages that never live together take one segment."""
    reserved, allocated = _replay(
        Allocator.DEFAULT, _nothing(), [_pass(0, ~0, 1, ~1)], sizes.evaluate_monomials(1, 1)
    )

    assert (reserved, allocated) == (12 * MIB, 12 * MIB)


def test_gradients_outlive_their_pass_and_die_with_the_step() -> None:
    """Two micro batches leave two gradients, and the next step finds their segments."""
    passes = [_pass(0, 1, ~0, gradients=frozenset({1}))] * 2

    reserved, allocated = _replay(
        Allocator.DEFAULT, _nothing(), passes, sizes.evaluate_monomials(1, 1)
    )

    assert (reserved, allocated) == (36 * MIB, 36 * MIB)


def test_states_are_made_at_the_first_step_and_stay() -> None:
    """The first pass leaves room for the states; the second one has to find its own."""
    tensors = replace(_nothing(), updates=(GroupUpdate(states=(12 * MIB,)),))

    reserved, _ = _replay(
        Allocator.DEFAULT, tensors, [_pass(0, ~0)], sizes.evaluate_monomials(1, 1)
    )

    assert reserved == 24 * MIB


def test_a_group_makes_its_states_from_what_the_one_before_dropped() -> None:
    """Tensor-parallel ranks step what they split, then what each has in full."""
    step = StepEvents(sizes=(12 * MIB,), order=(0, ~0))
    groups = (GroupUpdate(step=step), GroupUpdate(states=(12 * MIB,), step=step))

    reserved, _ = _replay(
        Allocator.DEFAULT,
        replace(_nothing(), updates=groups),
        [_pass(0, ~0)],
        sizes.evaluate_monomials(1, 1),
    )

    assert reserved == 24 * MIB


def test_rebuilt_buckets_take_the_place_of_the_first_one() -> None:
    """DDP drops it when the second step begins, so that their segments are the same."""
    tensors = replace(_nothing(), loaded=(48 * MIB,), rebuilt=(12 * MIB,) * 4)

    reserved, allocated = _replay(
        Allocator.DEFAULT, tensors, [_pass(0, ~0)], sizes.evaluate_monomials(1, 1)
    )

    assert (reserved, allocated) == (60 * MIB, 60 * MIB)


def test_shards_and_gathered_units_are_on_streams_of_their_own() -> None:
    """What FSDP2 gathers and reduces leaves nothing to what a block computes, unless all is on one
    stream.
    """
    model = a_model()
    timeline = build_train_timeline(model, WORKLOAD, SHARDED)
    replayed = []
    for single_stream in (False, True):
        cache = ReplayCache()
        cache.single_stream = single_stream
        replayed.append(cache.replay_training(model, WORKLOAD, SHARDED, timeline))
    streams, joined = replayed

    assert streams is not None
    assert joined is not None
    assert streams.peak_bytes == joined.peak_bytes
    assert streams.reserved_bytes > joined.reserved_bytes


@pytest.mark.parametrize(
    ("layout", "streams"),
    [
        (Layout(data_parallel=2), set()),
        (SHARDED, {0, COPY_IN_STREAM, REDUCE_STREAM}),
        (replace(SHARDED, data_parallel=1), {0, REDUCE_STREAM}),
        (replace(SHARDED, sharding=Sharding.FSDP1), {0, COPY_IN_STREAM, REDUCE_STREAM}),
        (replace(SHARDED, sharding=Sharding.DEEPSPEED), set()),
    ],
)
def test_a_log_has_the_streams_of_fsdp(layout: Layout, streams: set[int]) -> None:
    """A single rank gathers nothing; others' units are on the default stream."""
    model = a_model()
    events = log_training(model, build_training_pass(model, WORKLOAD, layout))

    listed = events.list_streams()

    assert set(listed or ()) == streams
    if listed is not None:
        assert {listed[index] for index, _ in events.shards} == {REDUCE_STREAM}


def test_a_gradient_shard_is_priced_by_the_rank() -> None:
    """Elements times their bytes over the ranks that share them."""
    events = replace(
        _pass(0, gradients=frozenset({0})), sizes=(sizes.ZERO,), shards=((0, 24 * MIB),)
    )

    reserved, _ = _replay(
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
    [update] = tensors.updates
    assert sum(update.states) == timeline.states.optimizer_states
    assert sum(update.step.sizes) == timeline.states.step_temporaries


def test_buckets_add_up_to_the_gradients() -> None:
    """DDP's first bucket holds every gradient, and so do those that replace it: the first takes a
    MiB, each further one 25, or one larger tensor.
    """
    layout = Layout(data_parallel=2)
    timeline = build_train_timeline(a_model(), WORKLOAD, layout)
    tensors, alone = [
        list_training_tensors(a_model(), WORKLOAD, each, timeline.trained, timeline.states, buckets)
        for each, buckets in (
            (layout, timeline.static_memory.buckets),
            (Layout(), NO_BUCKETS),
        )
    ]

    resident = timeline.static_memory.buckets.resident
    assert tensors.loaded == (*alone.loaded[:-1], resident)
    assert sum(tensors.rebuilt) == resident > 0
    assert MIB <= tensors.rebuilt[0] < 2 * MIB
    assert len(tensors.rebuilt) == 2
    assert alone.rebuilt == ()


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


def test_a_sharded_unit_is_gathered_tensor_by_tensor() -> None:
    """The log has a storage for every parameter of a block, of the bytes in which it is
    gathered.
    """
    model = a_model()
    block, _ = model.blocks[0]

    events = log_training(model, build_training_pass(model, WORKLOAD, SHARDED))

    logged = {events.sizes[kind] for kind in events.kinds}
    assert {sizes.constant(weight.numel * 2) for weight in block.weights()} <= logged
