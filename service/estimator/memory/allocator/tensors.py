"""The tensors of a training job outside of its passes: weights, states and temporaries, each in the order it is made."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from service.estimator.memory.allocator.replay import Tensors
from service.estimator.memory.fsdp_buffers import NO_BUCKETS, Buckets
from service.estimator.memory.optimizers.table import STEP_COUNT_BYTES, Optimizer, optimizer_named
from service.estimator.memory.optimizers.tensors import TrainedTensor, split_rows, tensors_of
from service.estimator.memory.states import Shards, TrainedParameters, TrainStates, local_tensors, stepped_together
from service.estimator.model.architecture import Architecture
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import Method, TrainWorkload

FIRST_BUCKET_BYTES, BUCKET_BYTES = 2**20, 25 * 2**20
"""Gradients that DDP reduces together: fewer at first, so that the first reduction starts early (torch 2.13 ``reducer.hpp``,
``kDefaultFirstBucketBytes``, and ``nn/parallel/distributed.py``, ``_DEFAULT_BUCKET_CAP_MB``)."""
DEFAULT_STATES = 2
"""Tensors into which the states of one tensor are divided where an optimizer looks at each: two moments."""


def training_tensors(
    model: Architecture,
    workload: TrainWorkload,
    layout: Layout,
    trained: TrainedParameters,
    states: TrainStates,
    buckets: Buckets = NO_BUCKETS,
) -> Tensors:
    """Return the tensors of one rank; every part adds up to what ``states`` and ``buckets`` count for it."""
    shards, optimizer = Shards.of(layout), optimizer_named(workload.optimizer)
    base = _local(tensors_of(model.counts.tensors), layout, shards.weights)
    adapters = _local(tensors_of(trained.weights), layout, shards.weights) if workload.method is not Method.FULL else ()
    stepped = _numels(local_tensors(trained, layout, shards.optimizer))
    return Tensors(
        loaded=(
            *spread(states.weights, _numels(base)),
            *spread(states.adapters, _numels(adapters)),
            states.buffers,
            *spread(states.master_weights, stepped),
            *spread(states.persistent_main_gradients, stepped),
            *_resident_buckets(layout, buckets, [numel * trained.trained_dtype.bytes_per_element for numel in stepped]),
        ),
        backward=(buckets.backward,) if buckets.backward else (),
        states=tuple(_states(optimizer, states.optimizer_states, stepped)),
        main_gradients=tuple(spread(states.step_main_gradients, stepped)),
        temporaries=tuple(_temporaries(optimizer, states.step_temporaries, _largest(stepped_together(trained, layout)))),
        gradient_bytes=trained.grad_dtype.bytes_per_element,
        gradient_shards=shards.gradients,
    )


def _largest(groups: Iterable[Iterable[TrainedTensor]]) -> list[int]:
    """Return the elements of every tensor of the group that has the most of them."""
    return max(map(_numels, groups), key=sum)


def _resident_buckets(layout: Layout, buckets: Buckets, gradients: Sequence[int]) -> Iterator[int]:
    """Yield the buffers of communication that stay: DDP fills buckets from the last gradient on, each until it is full."""
    if layout.sharding is not Sharding.DDP or not buckets.resident:
        yield buckets.resident
        return
    filled, most = 0, FIRST_BUCKET_BYTES
    for size in reversed(gradients):
        filled += size
        if filled >= most:
            yield filled
            filled, most = 0, BUCKET_BYTES
    yield filled


def spread(total: int, numels: Sequence[int]) -> Iterator[int]:
    """Yield the bytes of each tensor of a part that has ``total`` of them, by its elements."""
    elements = sum(numels)
    if total and elements:
        yield from (total * numel // elements for numel in numels)


def _local(tensors: tuple[TrainedTensor, ...], layout: Layout, shards: int) -> tuple[TrainedTensor, ...]:
    return split_rows(tensors, shards) if layout.sharding is Sharding.FSDP2 else tensors


def _numels(tensors: Iterable[TrainedTensor]) -> list[int]:
    """Return the elements of every tensor: equal numbers that stand together are one kind of layer, made layer by layer."""
    numels: list[int] = []
    for count, members in groupby(tensors, key=lambda tensor: tensor.count):
        numels += [tensor.numel for tensor in members] * count
    return numels


def _states(optimizer: Optimizer, total: int, stepped: Sequence[int]) -> Iterator[int]:
    """Yield the states tensor by tensor, with its step count where that is on the device."""
    each = optimizer.num_states if optimizer.num_states is not None else DEFAULT_STATES
    count = STEP_COUNT_BYTES if optimizer.step_counts_on_device else 0
    for size in spread(total, stepped):
        yield count
        yield from [size // each] * each


def _temporaries(optimizer: Optimizer, total: int, stepped: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the lists that the step makes: of all tensors at once for foreach, else what one tensor needs, in two."""
    if optimizer.per_element_temporaries is not None:
        yield tuple(spread(total, [numel for numel in stepped for _ in range(optimizer.per_element_temporaries)]))
    else:
        yield (total // 2, total - total // 2)
