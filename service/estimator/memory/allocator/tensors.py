"""Tensors of a training job outside of its passes.

They are weights, states and temporaries, each in the order it is made.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby
from operator import attrgetter

from service.estimator.memory.allocator.replay import GroupUpdate, JobTensors
from service.estimator.memory.fsdp_buffers import NO_BUCKETS, Buckets
from service.estimator.memory.optimizers.events import StepEvents, unroll
from service.estimator.memory.optimizers.optimizer import STEP_COUNT_BYTES, Optimizer
from service.estimator.memory.optimizers.table import resolve_optimizer
from service.estimator.memory.optimizers.tensors import TrainedTensor, list_tensors, split_rows
from service.estimator.memory.states import (
    TrainStates,
    count_models,
    group_stepped_tensors,
    list_head_states,
    list_local_tensors,
)
from service.estimator.memory.trained import Shards, TrainedParameters
from service.estimator.model.architecture import Architecture
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import Method, TrainWorkload

FIRST_BUCKET_BYTES, BUCKET_BYTES = 2**20, 25 * 2**20
"""Gradients that DDP reduces together: fewer at first, so that the first reduction starts early
(torch 2.13 ``reducer.hpp``, ``kDefaultFirstBucketBytes``, and ``nn/parallel/distributed.py``,
``_DEFAULT_BUCKET_CAP_MB``). That is so from the second synchronised pass on, when it makes them
anew in the order in which gradients came (``reducer.cpp``, ``rebuild_buckets``, which drops the old
ones first): until then one bucket holds all (``distributed.py``, ``compute_bucket_size_limits``).
"""


def list_training_tensors(
    model: Architecture,
    workload: TrainWorkload,
    layout: Layout,
    trained: TrainedParameters,
    states: TrainStates,
    buckets: Buckets = NO_BUCKETS,
) -> JobTensors:
    """Return the tensors of one rank.

    Every part adds up to the bytes of it in ``states`` and ``buckets``.
    """
    shards = Shards.from_layout(layout, workload.precision)
    optimizer = resolve_optimizer(workload, layout)
    width = trained.optimizer_dtype.bytes_per_element
    head = trained.saved_head
    by_rows = layout.sharding is Sharding.FSDP2
    copies = [
        replace(head, weights=(pair,)).count_local_bytes(shards.weights, by_rows=by_rows)
        for pair in head.weights
    ]
    of_head = list_head_states(head, optimizer, shards.optimizer, by_rows=by_rows)
    base = _split_local(list_tensors(model.counts.tensors), layout, shards.weights)
    adapters = (
        _split_local(list_tensors(trained.weights), layout, shards.weights)
        if workload.method is not Method.FULL
        else ()
    )
    tensors = list_local_tensors(trained, layout, shards.optimizer)
    stepped = _list_numels(tensors)
    return JobTensors(
        loaded=(
            *split_bytes(states.weights, _list_numels(base) * count_models(workload)),
            *split_bytes(states.adapters - sum(copies), _list_numels(adapters)),
            *copies,
            states.buffers,
            *split_bytes(states.master_weights, stepped),
            *split_bytes(states.persistent_main_gradients, stepped),
            buckets.resident,
        ),
        rebuilt=tuple(
            _iter_rebuilt_buckets(
                [numel * trained.trained_dtype.bytes_per_element for numel in stepped]
            )
        )
        if layout.sharding is Sharding.DDP and buckets.resident
        else (),
        backward=(buckets.backward,) if buckets.backward else (),
        main_gradients=tuple(split_bytes(states.step_main_gradients, stepped)),
        updates=tuple(
            _iter_updates(optimizer, states, group_stepped_tensors(trained, layout), width, of_head)
        ),
        gradient_bytes=trained.grad_dtype.bytes_per_element,
        gradient_shards=shards.gradients,
    )


def _iter_updates(
    optimizer: Optimizer,
    states: TrainStates,
    groups: Sequence[tuple[TrainedTensor, ...]],
    width: int,
    of_head: Sequence[int],
) -> Iterator[GroupUpdate]:
    """Yield the update of each group.

    The head beside adapters is in the last one. An optimizer makes the states of a group, steps it,
    and goes on to the next (torch 2.13 ``optim/adamw.py``, ``step``).
    """
    elements = [_count_elements(group) for group in groups]
    largest = max(elements)
    remaining = states.optimizer_states - sum(of_head)
    for place, group in enumerate(groups):
        is_last = place == len(groups) - 1
        state_bytes = remaining if is_last else optimizer.state_bytes(group, width)
        if not is_last and optimizer.step_counts_on_device:
            state_bytes += STEP_COUNT_BYTES * len(_list_numels(group))
        remaining -= state_bytes
        temporaries = states.step_temporaries * elements[place] // largest
        yield GroupUpdate(
            states=(
                *_iter_states(optimizer, state_bytes, group, width, has_shared=place == 0),
                *(of_head if is_last else ()),
            ),
            step=_list_step_events(optimizer, temporaries, group, width),
        )


def _count_elements(tensors: Sequence[TrainedTensor]) -> int:
    return sum(tensor.numel * tensor.count for tensor in tensors)


def _iter_rebuilt_buckets(gradients: Sequence[int]) -> Iterator[int]:
    """Yield DDP's buckets.

    They are filled from the last gradient on, each until it is full.
    """
    filled, capacity = 0, FIRST_BUCKET_BYTES
    for size in reversed(gradients):
        filled += size
        if filled >= capacity:
            yield filled
            filled, capacity = 0, BUCKET_BYTES
    yield filled


def split_bytes(total: int, numels: Sequence[int]) -> list[int]:
    """Return the bytes of each tensor of a part by its elements.

    The part has ``total`` of them.
    """
    elements = sum(numels)
    if not total or not elements:
        return []
    # Layers are alike: a few sizes make up hundreds of tensors.
    parts = {numel: total * numel // elements for numel in set(numels)}
    return [parts[numel] for numel in numels]


def _split_local(
    tensors: tuple[TrainedTensor, ...], layout: Layout, shards: int
) -> tuple[TrainedTensor, ...]:
    return split_rows(tensors, shards) if layout.sharding is Sharding.FSDP2 else tensors


def _list_numels(tensors: Iterable[TrainedTensor]) -> list[int]:
    """Return the elements of every tensor, layer by layer."""
    numels: list[int] = []
    for count, members in groupby(tensors, key=attrgetter("count")):
        numels += [tensor.numel for tensor in members] * count
    return numels


def _iter_states(
    optimizer: Optimizer,
    total: int,
    tensors: Sequence[TrainedTensor],
    width: int,
    *,
    has_shared: bool,
) -> Iterator[int]:
    """Yield the bytes of the states tensor by tensor.

    The step count comes before them where that is on the device. ``has_shared``: what all groups
    share is made with them.
    """
    if optimizer.num_states is None:
        if total:
            if has_shared:
                yield optimizer.shared_bytes
            for tensor in unroll(tensors):
                yield from optimizer.states(tensor, width).device
        return
    count = STEP_COUNT_BYTES if optimizer.step_counts_on_device else 0
    numels = _list_numels(tensors)
    sizes = split_bytes(max(total - count * len(numels), 0), numels)
    parts = {
        size: (count, *[size // optimizer.num_states] * optimizer.num_states) for size in set(sizes)
    }
    yield from chain.from_iterable(map(parts.__getitem__, sizes))


def _list_step_events(
    optimizer: Optimizer, total: int, tensors: Sequence[TrainedTensor], width: int
) -> StepEvents:
    """Return what the step allocates and frees.

    Lists of all tensors may be those of a part: ``total`` has their bytes.
    """
    lists = optimizer.per_element_temporaries
    if not total:
        return StepEvents()
    if lists is None:
        return optimizer.list_events(tensors, width)
    sizes = tuple(split_bytes(total, _list_numels(tensors) * lists))
    places = range(len(sizes))
    return StepEvents(sizes=sizes, order=(*places, *[~place for place in places]))
