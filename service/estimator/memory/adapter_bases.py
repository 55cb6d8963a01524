"""Base weights under adapters: storage format and dtype.

The dtype is that of what is not quantised.
"""

from dataclasses import dataclass

from service.estimator.memory.optimizers.tensors import count_row_elements
from service.estimator.model.adapters.unsloth import has_own_layers
from service.estimator.model.architecture import Architecture
from service.estimator.model.modules.joined import count_buffer_bytes, count_rotary_rows
from service.estimator.model.quantization.loading import adapt_to_release
from service.estimator.model.quantization.weights import (
    GPTQ_INT2,
    INT8,
    NF4,
    NF4_SINGLE,
    weight_bytes,
)
from service.estimator.model.weights.scheme import Packing, Scheme
from service.estimator.values.batches import SequencePacking
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import MAX_ZERO_STAGE, Layout
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import Framework, Method, TrainWorkload

UPCAST = frozenset({Packing.BLOCKS_4BIT, Packing.INT8_ROWS, Packing.AWQ, Packing.FP8})
"""Beside these, ``prepare_model_for_kbit_training`` casts what is 16 bit to fp32; it leaves GPTQ
and HQQ alone (PEFT 0.21).
"""

_ONE_GPU = Layout()


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseWeights:
    """Storage of the base model.

    ``dtype`` is that of what is not quantised, ``upcast`` says that it was cast to fp32.
    """

    scheme: Scheme | None
    dtype: DType
    upcast: bool = False


def resolve_base_weights(
    model: Architecture, workload: TrainWorkload, layout: Layout = _ONE_GPU
) -> BaseWeights:
    """Return the storage of a training run's base weights.

    ``qlora`` quantises them to as many bits as it says unless the config did already.
    """
    scheme = model.quantization
    if workload.method is Method.QLORA and scheme is None:
        scheme = _select_scheme(workload)
    if workload.framework is Framework.TRANSFORMERS:
        scheme = adapt_to_release(scheme, workload.framework_version)
    prepared = workload.fp32_norms_and_head
    if prepared is None:
        prepared = not _shards_weights(layout)
    upcast = prepared and scheme is not None and scheme.packing in UPCAST
    return BaseWeights(
        scheme=scheme, dtype=DType.FP32 if upcast else workload.precision.param_dtype, upcast=upcast
    )


def runs_own_layers(model: Architecture, workload: TrainWorkload) -> bool:
    """Return whether Unsloth runs a job's layers by its own functions."""
    scheme = resolve_base_weights(model, workload).scheme
    return has_own_layers(model.family, workload.kernels, workload.lora, scheme)


def count_shared_buffers(
    model: Architecture, workload: TrainWorkload, scheme: Scheme | None
) -> int:
    """Return the bytes of buffers that Unsloth's layers have in common."""
    lora = workload.lora
    if lora is None or not has_own_layers(model.family, workload.kernels, lora, scheme):
        return 0
    is_told = workload.packing is not SequencePacking.NONE
    rows = count_rotary_rows(model.spec.max_position_embeddings, tells_positions=is_told)
    return count_buffer_bytes(model, lora, scheme, rows)


def _select_scheme(workload: TrainWorkload) -> Scheme:
    if workload.quantization_bits == NF4.bits:
        return NF4 if workload.double_quantization else NF4_SINGLE
    return INT8 if workload.quantization_bits == INT8.bits else GPTQ_INT2


def _shards_weights(layout: Layout) -> bool:
    return layout.shards > 1 and layout.zero_stage == MAX_ZERO_STAGE


def base_bytes(
    model: Architecture, base: BaseWeights, shards: int, *, by_rows: bool = False
) -> int:
    """Return the bytes of the frozen weights on one rank.

    Scales are attributes of a parameter, which no sharding splits. ``by_rows``: whether each tensor
    is split by its first dimension, and the first rank has the most.
    """
    if base.scheme is None:
        width = base.dtype.bytes_per_element
        return (
            count_row_elements(model.counts.tensors, shards) * width
            if by_rows
            else ceil_div(model.counts.total * width, shards)
        )
    stored = weight_bytes(model, base.scheme, base.dtype)
    return ceil_div(stored.quantised + stored.unquantised, shards) + stored.scales
