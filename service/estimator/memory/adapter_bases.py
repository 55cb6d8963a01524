"""The weights that adapters stand on: how they are stored, and in which dtype what is not quantised is kept."""

from dataclasses import dataclass

from service.estimator.memory.optimizers.tensors import row_elements
from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.loading import in_release
from service.estimator.model.quantization.weights import NF4, NF4_SINGLE, weight_bytes
from service.estimator.model.weights.scheme import Packing, Scheme
from service.estimator.values.dtypes import DType
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import Method, TrainWorkload

UPCAST = frozenset({Packing.BLOCKS_4BIT, Packing.INT8_ROWS, Packing.AWQ, Packing.FP8})
"""Beside these, ``prepare_model_for_kbit_training`` casts what is 16 bit to fp32; it leaves GPTQ and HQQ alone (PEFT 0.21)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseWeights:
    """How the base model is stored: ``dtype`` is that of what is not quantised, ``upcast`` says that it was cast to fp32."""

    scheme: Scheme | None
    dtype: DType
    upcast: bool = False


def base_of(model: Architecture, workload: TrainWorkload) -> BaseWeights:
    """Return how a training run stores its base weights: ``qlora`` quantises them to nf4 unless the config did already."""
    scheme = model.quantization
    if workload.method is Method.QLORA and scheme is None:
        scheme = NF4 if workload.double_quantization else NF4_SINGLE
    scheme = in_release(scheme, workload.framework_version)
    upcast = workload.fp32_norms_and_head and scheme is not None and scheme.packing in UPCAST
    return BaseWeights(scheme=scheme, dtype=DType.FP32 if upcast else workload.precision.param_dtype, upcast=upcast)


def base_bytes(model: Architecture, workload: TrainWorkload, shards: int, *, by_rows: bool = False) -> int:
    """Return the bytes of the frozen weights on one rank; scales are attributes of a parameter, which no sharding splits.

    ``by_rows``: whether each tensor is split by its first dimension, and the first rank has the most.
    """
    base = base_of(model, workload)
    if base.scheme is None:
        width = base.dtype.bytes_per_element
        return row_elements(model.counts.tensors, shards) * width if by_rows else ceil_div(model.counts.total * width, shards)
    found = weight_bytes(model, base.scheme, base.dtype)
    return ceil_div(found.quantised + found.kept, shards) + found.scales
