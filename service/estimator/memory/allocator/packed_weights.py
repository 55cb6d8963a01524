"""Weights in 4 bits as bitsandbytes loads them, tensor by tensor."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from service.estimator.memory.adapter_bases import BaseWeights
from service.estimator.memory.allocator.replay import JobTensors
from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.weights import WeightPlacement, iter_placements
from service.estimator.model.weights.packing import BLOCK_4BIT
from service.estimator.model.weights.scheme import Packing
from service.estimator.values.dtypes import DType
from service.estimator.values.units import ceil_div

_FP32_BYTES, _CODE, _NESTED_CODE, _NESTED_BLOCK = 4, 16, 256, 256
_LOADED = DType.BF16
"""The 16 bits in which a checkpoint is loaded before its norms and head are cast."""


def place_packed_weights(
    tensors: JobTensors, model: Architecture, base: BaseWeights, weights: int
) -> JobTensors:
    """Return a job's tensors with those of its packed weights.

    The base model of ``weights`` bytes comes first among them. What
    ``prepare_model_for_kbit_training`` casts to fp32 leaves its 16 bits as a hole of the segment
    that transformers fills with the whole model (5.23 ``modeling_utils.py``,
    ``caching_allocator_warmup``), which PEFT's ``empty_cache`` cannot give back.
    """
    sizes = list_packed_tensors(model, base)
    if base.scheme is None or sum(sizes) != weights:  # sharded over ranks
        return tensors
    count = sum(times for _, times in model.counts.tensors)
    hole = sum(
        placed.weight.numel * placed.num_unpacked * _LOADED.bytes_per_element
        for placed in iter_placements(model, base.scheme)
    )
    return replace(
        tensors,
        loaded=(*sizes, *tensors.loaded[count:]),
        dropped=(hole,) if base.upcast else (),
    )


def list_packed_tensors(model: Architecture, base: BaseWeights) -> tuple[int, ...]:
    """Return the bytes of every tensor of weights in 4 bits.

    There are none where the weights are in another format.
    """
    if base.scheme is None or base.scheme.packing is not Packing.BLOCKS_4BIT:
        return ()
    placements = tuple(iter_placements(model, base.scheme))
    return tuple(_iter_sizes(placements, base, double=base.scheme.double))


def _iter_sizes(
    placements: tuple[WeightPlacement, ...], base: BaseWeights, *, double: bool
) -> Iterator[int]:
    """Yield the bytes of every tensor, equal layers one after another."""
    for times, members in groupby(placements, key=_count):
        layer = [size for placed in members for size in _list_sizes(placed, base, double=double)]
        yield from layer * times


def _count(placed: WeightPlacement) -> int:
    return placed.num_packed + placed.num_unpacked


def _list_sizes(placed: WeightPlacement, base: BaseWeights, *, double: bool) -> tuple[int, ...]:
    numel = placed.weight.numel
    if not placed.num_packed:
        return (numel * base.dtype.bytes_per_element,)
    blocks, code = ceil_div(numel, BLOCK_4BIT), _CODE * _FP32_BYTES
    if not double:
        return (ceil_div(numel, 2), blocks * _FP32_BYTES, code)
    nested = ceil_div(blocks, _NESTED_BLOCK) * _FP32_BYTES
    return (ceil_div(numel, 2), blocks, nested, _NESTED_CODE * _FP32_BYTES, code, _FP32_BYTES)
