"""Tensors of a training job outside of its passes.

They are weights, states and temporaries, each in the order it is made.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from service.estimator.memory.allocator.replay import JobTensors
from service.estimator.memory.fsdp_buffers import NO_BUCKETS, Buckets
from service.estimator.memory.optimizers.table import STEP_COUNT_BYTES, Optimizer, get_optimizer
from service.estimator.memory.optimizers.tensors import TrainedTensor, list_tensors, split_rows
from service.estimator.memory.states import TrainStates, group_stepped_tensors, list_local_tensors
from service.estimator.memory.trained import Shards, TrainedParameters
from service.estimator.model.architecture import Architecture
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import Method, TrainWorkload

FIRST_BUCKET_BYTES, BUCKET_BYTES = 2**20, 25 * 2**20
"""Gradients that DDP reduces together: fewer at first, so that the first reduction starts early
(torch 2.13 ``reducer.hpp``, ``kDefaultFirstBucketBytes``, and ``nn/parallel/distributed.py``,
``_DEFAULT_BUCKET_CAP_MB``).
"""
DEFAULT_STATES = 2
"""Tensors into which the states of one tensor are divided where an optimizer looks at each: two
moments.
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
    shards, optimizer = Shards.from_layout(layout), get_optimizer(workload.optimizer)
    base = _split_local(list_tensors(model.counts.tensors), layout, shards.weights)
    adapters = (
        _split_local(list_tensors(trained.weights), layout, shards.weights)
        if workload.method is not Method.FULL
        else ()
    )
    stepped = _list_numels(list_local_tensors(trained, layout, shards.optimizer))
    return JobTensors(
        loaded=(
            *split_bytes(states.weights, _list_numels(base)),
            *split_bytes(states.adapters, _list_numels(adapters)),
            states.buffers,
            *split_bytes(states.master_weights, stepped),
            *split_bytes(states.persistent_main_gradients, stepped),
            *_iter_resident_buckets(
                layout,
                buckets,
                [numel * trained.trained_dtype.bytes_per_element for numel in stepped],
            ),
        ),
        backward=(buckets.backward,) if buckets.backward else (),
        states=tuple(_iter_states(optimizer, states.optimizer_states, stepped)),
        main_gradients=tuple(split_bytes(states.step_main_gradients, stepped)),
        temporaries=tuple(
            _iter_temporaries(
                optimizer,
                states.step_temporaries,
                _select_largest(group_stepped_tensors(trained, layout)),
            ),
        ),
        gradient_bytes=trained.grad_dtype.bytes_per_element,
        gradient_shards=shards.gradients,
    )


def _select_largest(groups: Iterable[Iterable[TrainedTensor]]) -> list[int]:
    """Return the elements of every tensor of the largest group."""
    return max(map(_list_numels, groups), key=sum)


def _iter_resident_buckets(
    layout: Layout, buckets: Buckets, gradients: Sequence[int]
) -> Iterator[int]:
    """Yield the communication buffers that stay.

    DDP fills buckets from the last gradient on, each until it is full.
    """
    if layout.sharding is not Sharding.DDP or not buckets.resident:
        yield buckets.resident
        return
    filled, capacity = 0, FIRST_BUCKET_BYTES
    for size in reversed(gradients):
        filled += size
        if filled >= capacity:
            yield filled
            filled, capacity = 0, BUCKET_BYTES
    yield filled


def split_bytes(total: int, numels: Sequence[int]) -> Iterator[int]:
    """Yield the bytes of each tensor of a part by its elements.

    The part has ``total`` of them.
    """
    elements = sum(numels)
    if total and elements:
        yield from (total * numel // elements for numel in numels)


def _split_local(
    tensors: tuple[TrainedTensor, ...], layout: Layout, shards: int
) -> tuple[TrainedTensor, ...]:
    return split_rows(tensors, shards) if layout.sharding is Sharding.FSDP2 else tensors


def _list_numels(tensors: Iterable[TrainedTensor]) -> list[int]:
    """Return the elements of every tensor.

    Equal numbers that stand together are one kind of layer, made layer by layer.
    """
    numels: list[int] = []
    for count, members in groupby(tensors, key=lambda tensor: tensor.count):
        numels += [tensor.numel for tensor in members] * count
    return numels


def _iter_states(optimizer: Optimizer, total: int, stepped: Sequence[int]) -> Iterator[int]:
    """Yield the bytes of the states tensor by tensor.

    The step count comes with it where that is on the device.
    """
    states_per_tensor = optimizer.num_states if optimizer.num_states is not None else DEFAULT_STATES
    count = STEP_COUNT_BYTES if optimizer.step_counts_on_device else 0
    for size in split_bytes(total - count * len(stepped), stepped):
        yield count
        yield from [size // states_per_tensor] * states_per_tensor


def _iter_temporaries(
    optimizer: Optimizer, total: int, stepped: Sequence[int]
) -> Iterator[tuple[int, ...]]:
    """Yield the lists of temporaries that the step makes.

    They are those of all tensors at once for foreach, else the bytes that one tensor needs, in two.
    """
    if optimizer.per_element_temporaries is not None:
        yield tuple(
            split_bytes(
                total,
                [numel for numel in stepped for _ in range(optimizer.per_element_temporaries)],
            ),
        )
    else:
        yield (total // 2, total - total // 2)
