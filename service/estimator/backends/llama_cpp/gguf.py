"""Bytes of a GGUF file's tensors.

They follow ggml's block formats, and the type of each tensor in a mixture. ggml, ``ggml-common.h``
(blocks); llama.cpp, ``src/llama-quant.cpp``: ``llama_tensor_get_type_impl``,
``tensor_type_fallback``.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from service.estimator.model.architecture import Architecture
from service.estimator.model.recorded.narrowing import is_recorded
from service.estimator.model.weights.ggml import BLOCKS, GgmlType
from service.estimator.model.weights.gguf_bytes import GgufBytes, LayerBytes
from service.estimator.model.weights.scheme import Packing
from service.estimator.model.weights.tensors import Weight
from service.estimator.values.dtypes import DType
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import Quantization

_FALLBACK = MappingProxyType(
    {GgmlType.Q4_K: GgmlType.Q5_0, GgmlType.Q5_K: GgmlType.Q5_1, GgmlType.Q6_K: GgmlType.Q8_0}
)
"""What rows that blocks of 256 do not divide get instead."""
_TOWER = re.compile(r"vision|visual|image|audio|tower|projector|merger|connector")
_EXPERTS, _ROUTER = "mlp_experts", "router"
_FEW_EXPERTS = 8
"""Models of eight experts keep the small attention tensors in more bits."""
_NARROW_BITS = frozenset({"v_proj"})
_DOWN = frozenset({"down_proj", "c_proj", "fc2", "dense_4h_to_h", "w2"})
_FUSED = frozenset({"qkv_proj", "query_key_value", "c_attn", "Wqkv", "qkv"})


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufMixture:
    """One mixture of tensor types.

    It has the type of most tensors, of the wide ones that matter most, of fused attention and of
    the head.
    """

    base: GgmlType
    wide: GgmlType | None = None
    fused: GgmlType | None = None
    head: GgmlType = GgmlType.Q6_K


MIXTURES: Mapping[Quantization, GgufMixture] = MappingProxyType(
    {
        Quantization.NONE: GgufMixture(base=GgmlType.F16, head=GgmlType.F16),
        Quantization.INT8: GgufMixture(base=GgmlType.Q8_0, head=GgmlType.Q8_0),
        Quantization.Q8_0: GgufMixture(base=GgmlType.Q8_0, head=GgmlType.Q8_0),
        Quantization.Q6_K: GgufMixture(base=GgmlType.Q6_K),
        Quantization.Q5_K_M: GgufMixture(
            base=GgmlType.Q5_K, wide=GgmlType.Q6_K, fused=GgmlType.Q6_K
        ),
        Quantization.Q4_K_M: GgufMixture(
            base=GgmlType.Q4_K, wide=GgmlType.Q6_K, fused=GgmlType.Q5_K
        ),
        Quantization.Q4_0: GgufMixture(base=GgmlType.Q4_0),
        Quantization.MXFP4: GgufMixture(base=GgmlType.Q8_0, head=GgmlType.Q8_0),
    },
)


def file_bytes(model: Architecture, quantization: Quantization, dtype: DType) -> GgufBytes:
    """Return the bytes of a model's tensors in a mixture.

    ``dtype`` is that of unquantised files. Of a model that came as a file they are the file's own.
    """
    if model.gguf is not None:
        return model.gguf
    mixture, dense = MIXTURES[quantization], GgmlType.F32 if dtype is DType.FP32 else GgmlType.F16
    base = dense if quantization is Quantization.NONE else mixture.base
    head = dense if quantization is Quantization.NONE else mixture.head
    hidden = model.spec.hidden_size
    vocabulary = model.vocab_size
    by_layer = tuple(
        _count_layer_bytes(model, index, mixture, base, quantization)
        for index in range(model.num_hidden_layers)
    )
    outside = sum(weight.numel for weight in _iter_outer_weights(model))
    table = _compute_matrix_bytes(vocabulary, hidden, head if model.tied else base)
    return GgufBytes(
        table=table,
        head=_compute_matrix_bytes(vocabulary, hidden, head),
        outside=outside * BLOCKS[GgmlType.F32].bytes,
        by_layer=by_layer,
    )


def _iter_outer_weights(model: Architecture) -> Iterator[Weight]:
    """Yield the weights outside of the layers.

    A tower and its projector are a file of their own (``--mmproj``).
    """
    if is_recorded(model):
        # Tables of positions stand with the input, on the host; towers are files of their own.
        yield from (
            weight
            for weight in model.stem
            if weight.kind != "embedding" and not _TOWER.search(weight.name)
        )
    elif model.images is None:
        yield from model.stem
    if model.final_norm is not None:
        yield from model.final_norm.weights()


def _count_layer_bytes(
    model: Architecture,
    index: int,
    mixture: GgufMixture,
    base: GgmlType,
    quantization: Quantization,
) -> LayerBytes:
    """Return the bytes of one layer.

    Some layers have their wide tensors in more bits.
    """
    block, _ = model.blocks[list_kinds(model)[index]]
    is_wide = mixture.wide is not None and _has_more_bits(index, model.num_hidden_layers)
    experts = rest = largest = 0
    for weight in block.weights():
        size = _compute_tensor_bytes(
            weight, _select_types(model, weight, mixture, base, quantization)[is_wide]
        )
        largest = max(largest, size)
        experts += size if weight.kind == _EXPERTS else 0
        rest += size if weight.kind != _EXPERTS else 0
    return LayerBytes(experts, rest, largest)


def list_kinds(model: Architecture) -> tuple[int, ...]:
    """Return the kind of each layer, in order."""
    return model.order or tuple(
        index for index, (_, count) in enumerate(model.blocks) for _ in range(count)
    )


def _select_types(
    model: Architecture,
    weight: Weight,
    mixture: GgufMixture,
    base: GgmlType,
    quantization: Quantization,
) -> tuple[GgmlType, GgmlType]:
    """Return a tensor's type in most layers, and in wider ones.

    The wider layers get more bits.
    """
    name = weight.name.removesuffix(".weight").rpartition(".")[2]
    if len(weight.shape) < 2 or weight.kind in {"norm", _ROUTER}:  # noqa: PLR2004 - vectors are never quantised
        return GgmlType.F32, GgmlType.F32
    if weight.kind == _EXPERTS and (
        quantization is Quantization.MXFP4 or _is_copied(model, quantization)
    ):
        return GgmlType.MXFP4, GgmlType.MXFP4
    if mixture.wide is None:
        return base, base
    fixed = mixture.fused if name in _FUSED else None
    if model.spec.num_experts == _FEW_EXPERTS:
        fixed = {
            "v_proj": GgmlType.Q8_0,
            "k_proj": GgmlType.Q8_0,
            "o_proj": GgmlType.Q5_K if base is GgmlType.Q4_K else base,
        }.get(name)
    if fixed is not None:
        return fixed, fixed
    is_wide = name in _NARROW_BITS or (name in _DOWN and weight.kind != "attention")
    return base, mixture.wide if is_wide else base


def _is_copied(model: Architecture, quantization: Quantization) -> bool:
    """Return whether a file keeps the experts of its checkpoint.

    That is a file without a mixture (``GptOssModel.dequant_model``).
    """
    scheme = model.quantization
    return (
        quantization is Quantization.NONE and scheme is not None and scheme.packing is Packing.MXFP4
    )


def _has_more_bits(index: int, layers: int) -> bool:
    """Return whether a layer gets more bits.

    They are those of the first and of the last eighth, and every third between (``use_more_bits``).
    """
    eighth = layers // 8
    return index < eighth or index >= 7 * layers // 8 or (index - eighth) % 3 == 2  # noqa: PLR2004 - eighths and thirds are the rule


def _compute_tensor_bytes(weight: Weight, ggml_type: GgmlType) -> int:
    if len(weight.shape) < 2:  # noqa: PLR2004 - a vector has one row
        return weight.numel * BLOCKS[ggml_type].bytes
    columns = weight.shape[-2] if weight.transposed else weight.shape[-1]
    return _compute_matrix_bytes(weight.numel // columns, columns, ggml_type)


def _compute_matrix_bytes(rows: int, columns: int, ggml_type: GgmlType) -> int:
    """Return the bytes of a matrix.

    It is in another type where its rows are no whole blocks.
    """
    if columns % BLOCKS[ggml_type].elements:
        ggml_type = _FALLBACK.get(ggml_type, GgmlType.F16)
    if columns % BLOCKS[ggml_type].elements:
        ggml_type = GgmlType.F16
    block = BLOCKS[ggml_type]
    return rows * ceil_div(columns, block.elements) * block.bytes
