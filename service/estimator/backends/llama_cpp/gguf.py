"""Bytes of a GGUF file's tensors: ggml's block formats, and which tensor gets which in a mixture.

ggml, ``ggml-common.h`` (blocks); llama.cpp, ``src/llama-quant.cpp``: ``llama_tensor_get_type_impl``, ``tensor_type_fallback``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from service.estimator.model.architecture import Architecture
from service.estimator.model.weights.scheme import Packing
from service.estimator.model.weights.tensors import Weight
from service.estimator.values.dtypes import DType
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import Quantization


class Ggml(StrEnum):
    """Formats of a tensor."""

    F32 = "F32"
    F16 = "F16"
    Q4_0 = "Q4_0"
    Q5_0 = "Q5_0"
    Q5_1 = "Q5_1"
    Q8_0 = "Q8_0"
    Q4_K = "Q4_K"
    Q5_K = "Q5_K"
    Q6_K = "Q6_K"
    MXFP4 = "MXFP4"


_BLOCKS: Mapping[Ggml, tuple[int, int]] = MappingProxyType(
    {
        Ggml.F32: (1, 4),
        Ggml.F16: (1, 2),
        Ggml.Q4_0: (32, 18),
        Ggml.Q5_0: (32, 22),
        Ggml.Q5_1: (32, 24),
        Ggml.Q8_0: (32, 34),
        Ggml.Q4_K: (256, 144),
        Ggml.Q5_K: (256, 176),
        Ggml.Q6_K: (256, 210),
        Ggml.MXFP4: (32, 17),
    }
)
"""Elements and bytes of one block."""
_FALLBACK = MappingProxyType({Ggml.Q4_K: Ggml.Q5_0, Ggml.Q5_K: Ggml.Q5_1, Ggml.Q6_K: Ggml.Q8_0})
"""What rows that blocks of 256 do not divide get instead."""
CONVERTED = frozenset({Packing.FP8, Packing.MXFP4})
"""Formats of checkpoints that ``convert_hf_to_gguf.py`` reads: it unpacks fp8, and copies experts in mxfp4 as they are."""
_EXPERTS, _ROUTER = "mlp_experts", "router"
_FEW_EXPERTS = 8
"""Models of eight experts keep the small attention tensors in more bits."""
_NARROW_BITS = frozenset({"v_proj"})
_DOWN = frozenset({"down_proj", "c_proj", "fc2", "dense_4h_to_h", "w2"})
_FUSED = frozenset({"qkv_proj", "query_key_value", "c_attn", "Wqkv", "qkv"})


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One mixture: the format of most tensors, of the wide ones that matter most, of fused attention and of the head."""

    base: Ggml
    more: Ggml | None = None
    fused: Ggml | None = None
    head: Ggml = Ggml.Q6_K


FILES: Mapping[Quantization, File] = MappingProxyType(
    {
        Quantization.NONE: File(base=Ggml.F16, head=Ggml.F16),
        Quantization.INT8: File(base=Ggml.Q8_0, head=Ggml.Q8_0),
        Quantization.Q8_0: File(base=Ggml.Q8_0, head=Ggml.Q8_0),
        Quantization.Q6_K: File(base=Ggml.Q6_K),
        Quantization.Q5_K_M: File(base=Ggml.Q5_K, more=Ggml.Q6_K, fused=Ggml.Q6_K),
        Quantization.Q4_K_M: File(base=Ggml.Q4_K, more=Ggml.Q6_K, fused=Ggml.Q5_K),
        Quantization.Q4_0: File(base=Ggml.Q4_0),
        Quantization.MXFP4: File(base=Ggml.Q8_0, head=Ggml.Q8_0),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBytes:
    """Bytes of a file's tensors: the token table, which stays with the host, the head, and the layers."""

    table: int
    head: int
    layers: int


def file_bytes(model: Architecture, quantization: Quantization, dtype: DType) -> FileBytes:
    """Return the bytes of a model's tensors in a mixture; ``dtype`` is that of unquantised files."""
    file, dense = FILES[quantization], Ggml.F32 if dtype is DType.FP32 else Ggml.F16
    base = dense if quantization is Quantization.NONE else file.base
    head = dense if quantization is Quantization.NONE else file.head
    hidden = model.spec.hidden_size
    vocabulary = model.vocab_size
    layers = sum(_layer_bytes(model, kind, file, base, quantization) for kind in range(len(model.blocks)))
    outside = sum(weight.numel for weight in _outside(model)) * _BLOCKS[Ggml.F32][1]
    table = _matrix(vocabulary, hidden, head if model.tied else base)
    return FileBytes(table=table, head=_matrix(vocabulary, hidden, head), layers=layers + outside)


def _outside(model: Architecture) -> Iterator[Weight]:
    """Yield what stands outside of the layers; a tower and its projector are a file of their own (``--mmproj``)."""
    if model.images is None:
        yield from model.stem
    if model.final_norm is not None:
        yield from model.final_norm.weights()


def _layer_bytes(model: Architecture, kind: int, file: File, base: Ggml, quantization: Quantization) -> int:
    """Return the bytes of all layers of one kind; some of them have their wide tensors in more bits."""
    block, count = model.blocks[kind]
    many = _layers_with_more_bits(model, kind) if file.more is not None else 0
    total = 0
    for weight in block.weights():
        plain, more = _formats(model, weight, file, base, quantization)
        total += _tensor(weight, plain) * (count - many) + _tensor(weight, more) * many
    return total


def _formats(model: Architecture, weight: Weight, file: File, base: Ggml, quantization: Quantization) -> tuple[Ggml, Ggml]:
    """Return a tensor's format in most layers, and in those that get more bits."""
    name = weight.name.removesuffix(".weight").rpartition(".")[2]
    if len(weight.shape) < 2 or weight.kind in {"norm", _ROUTER}:  # noqa: PLR2004 - vectors are never quantised
        return Ggml.F32, Ggml.F32
    if weight.kind == _EXPERTS and (quantization is Quantization.MXFP4 or _copied(model, quantization)):
        return Ggml.MXFP4, Ggml.MXFP4
    if file.more is None:
        return base, base
    fixed = file.fused if name in _FUSED else None
    if model.spec.num_experts == _FEW_EXPERTS:
        fixed = {"v_proj": Ggml.Q8_0, "k_proj": Ggml.Q8_0, "o_proj": Ggml.Q5_K if base is Ggml.Q4_K else base}.get(name)
    if fixed is not None:
        return fixed, fixed
    is_wide = name in _NARROW_BITS or (name in _DOWN and weight.kind != "attention")
    return base, file.more if is_wide else base


def _copied(model: Architecture, quantization: Quantization) -> bool:
    """Tell whether a file without a mixture keeps the experts of its checkpoint (``GptOssModel.dequant_model``)."""
    own = model.quantization
    return quantization is Quantization.NONE and own is not None and own.packing is Packing.MXFP4


def _layers_with_more_bits(model: Architecture, kind: int) -> int:
    """Return how many layers of a kind are in the first or the last eighth, or every third between (``use_more_bits``)."""
    layers = model.num_hidden_layers
    order = model.order or tuple(index for index, (_, count) in enumerate(model.blocks) for _ in range(count))
    return sum(
        other == kind and (index < layers // 8 or index >= 7 * layers // 8 or (index - layers // 8) % 3 == 2)  # noqa: PLR2004 - eighths and thirds are the rule
        for index, other in enumerate(order)
    )


def _tensor(weight: Weight, wanted: Ggml) -> int:
    if len(weight.shape) < 2:  # noqa: PLR2004 - a vector has one row
        return weight.numel * _BLOCKS[wanted][1]
    columns = weight.shape[-2] if weight.transposed else weight.shape[-1]
    return _matrix(weight.numel // columns, columns, wanted)


def _matrix(rows: int, columns: int, wanted: Ggml) -> int:
    """Return the bytes of a matrix, in another format where its rows are no whole blocks."""
    elements, size = _BLOCKS[wanted]
    if columns % elements:
        wanted = _FALLBACK.get(wanted, Ggml.F16)
        elements, size = _BLOCKS[wanted]
    if columns % elements:
        elements, size = _BLOCKS[Ggml.F16]
    return rows * ceil_div(columns, elements) * size
