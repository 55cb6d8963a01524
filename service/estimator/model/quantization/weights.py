"""Bytes of a model whose weights are quantised: which tensors are packed, which stay, and what each takes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType

from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.naming import head_names, layer_names, outer_names
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.weights.packing import Packed, packable, packed_bytes
from service.estimator.model.weights.quantized_layers import ROUTER
from service.estimator.model.weights.scheme import Packing, Scheme, Scope
from service.estimator.model.weights.tensors import Weight
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import NotModelledError
from service.estimator.values.workload import Quantization

_EXPERTS = "mlp_experts"
STACK_DIMENSIONS = 3
"""A stack of experts is one tensor of expert, output and input."""

NF4 = Scheme(packing=Packing.BLOCKS_4BIT, double=True, scope=Scope.LINEARS)
"""What ``bnb_4bit_use_double_quant`` makes on loading (arXiv:2305.14314, section 3)."""
NF4_SINGLE = replace(NF4, double=False)
INT8 = Scheme(packing=Packing.INT8_ROWS, bits=8, scope=Scope.LINEARS)
"""What ``load_in_8bit`` makes on loading."""

_ASKED: Mapping[Quantization, Scheme] = MappingProxyType(
    {
        Quantization.INT8: INT8,
        Quantization.NF4: NF4,
        Quantization.GPTQ_INT4: Scheme(packing=Packing.GPTQ, group_size=128),
        Quantization.AWQ_INT4: Scheme(packing=Packing.AWQ, group_size=128),
        Quantization.FP8: Scheme(packing=Packing.FP8, bits=8, scale_bytes=4),
        Quantization.MXFP4: Scheme(packing=Packing.MXFP4, scope=Scope.EXPERTS),
    }
)
"""The formats that a word alone stands for: groups of 128 (the libraries' default), one scale per fp8 tensor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightBytes:
    """Bytes of a model's parameters: codes, what reads them, and the weights that are kept in their dtype."""

    quantised: int
    scales: int
    kept: int

    @property
    def total(self) -> int:
        """Bytes in all."""
        return self.quantised + self.scales + self.kept


@dataclass(frozen=True, slots=True)
class Placed:
    """A weight of the tree: how many of its occurrences are packed, how many stay."""

    weight: Weight
    packed: int
    kept: int

    @property
    def is_stack(self) -> bool:
        """Whether the tensor is a stack of experts."""
        return len(self.weight.shape) == STACK_DIMENSIONS

    @property
    def matrices(self) -> tuple[int, int, int]:
        """How many matrices the tensor is in a checkpoint, and the rows and columns of one: experts stand apart there."""
        *stack, rows, columns = self.weight.shape
        if not stack:
            return 1, rows, columns
        (num,) = stack
        if self.weight.transposed:
            rows, columns = columns, rows
        return (2 * num, rows // 2, columns) if self.weight.name.endswith("gate_up_proj") else (num, rows, columns)


@dataclass(frozen=True, slots=True)
class _Question:
    """What bytes are asked for; the model is known by its numbers."""

    spec: DecoderSpec
    scheme: Scheme
    dtype: DType
    model: Architecture = field(compare=False, repr=False)


def weight_bytes(model: Architecture, scheme: Scheme, dtype: DType) -> WeightBytes:
    """Return the bytes of all parameters under a scheme; ``dtype`` is that of what is not quantised."""
    return _weight_bytes(_Question(model.spec, scheme, dtype, model))


def scheme_of(quantization: Quantization, model: Architecture) -> Scheme | None:
    """Return the scheme that a word asks for: the config's own where it has that format, or where nothing is asked."""
    own = model.quantization
    if quantization is Quantization.NONE:
        return own
    asked = _ASKED[quantization]
    if own is not None and own.packing is asked.packing:
        return own
    if asked.scope is Scope.EXPERTS and not any(placed.packed for placed in placements(model, asked)):
        what = f"quantization {quantization.value} of a model without experts, which are what it is for"
        raise NotModelledError(
            what, field="workload.quantization", modelled=[word.value for word in _ASKED if word is not quantization]
        )
    return asked


def placements(model: Architecture, scheme: Scheme) -> Iterator[Placed]:
    """Yield every weight of the tree with how many of its occurrences are packed: what stays is 16 bit as it was."""
    for kind, (block, count) in enumerate(model.blocks):
        targets = {f"{layer.name}.weight" for layer in block.linears()}
        layers = _layers_of(model, kind, count)
        for weight in block.weights():
            yield _placed(model, weight, scheme, layers, is_linear=weight.name in targets)
    outer = {f"{layer.name}.weight" for layer in model.outer_linears}
    for weight in _outside(model):
        yield _placed(model, weight, scheme, None, is_linear=weight.name in outer)
    for index, weight in enumerate(model.head.weights()):
        if not (model.tied and index == 0):
            packs = scheme.head and index == 0 and scheme.scope is not Scope.EXPERTS and not scheme.keeps(*head_names(model))
            yield Placed(weight, int(packs), int(not packs))


def stored_bytes(placed: Placed, scheme: Scheme, dtype: DType) -> WeightBytes:
    """Return the bytes of one weight of the tree, all of its occurrences together."""
    packed = Packed(0, 0)
    if placed.packed:
        num, rows, columns = placed.matrices
        packed = packed_bytes(rows, columns, scheme, dtype).times(num * placed.packed)
    kept = placed.weight.numel * placed.kept * dtype.bytes_per_element
    return WeightBytes(quantised=packed.codes, scales=packed.scales, kept=kept)


def uneven(model: Architecture, scheme: Scheme) -> tuple[bool, bool]:
    """Tell whether a scheme packs a module in some layers and not in others, and whether it packs stacks of experts."""
    return _uneven(_Question(model.spec, scheme, DType.BF16, model))


@lru_cache(256)
def _uneven(asked: _Question) -> tuple[bool, bool]:
    placed = tuple(placements(asked.model, asked.scheme))
    return any(item.packed and item.kept for item in placed), any(item.packed and item.is_stack for item in placed)


@lru_cache(256)
def _weight_bytes(asked: _Question) -> WeightBytes:
    parts = [stored_bytes(placed, asked.scheme, asked.dtype) for placed in placements(asked.model, asked.scheme)]
    return WeightBytes(
        quantised=sum(part.quantised for part in parts),
        scales=sum(part.scales for part in parts),
        kept=sum(part.kept for part in parts),
    )


def _outside(model: Architecture) -> Iterator[Weight]:
    yield model.embedding
    if model.position_embedding is not None:
        yield model.position_embedding
    yield from model.stem
    if model.final_norm is not None:
        yield from model.final_norm.weights()


def _layers_of(model: Architecture, kind: int, count: int) -> tuple[int, ...]:
    """Return the indices of the layers of one kind."""
    if model.order:
        return tuple(index for index, other in enumerate(model.order) if other == kind)
    start = sum(times for _, times in model.blocks[:kind])
    return tuple(range(start, start + count))


def _placed(model: Architecture, weight: Weight, scheme: Scheme, layers: tuple[int, ...] | None, *, is_linear: bool) -> Placed:
    """Return how many layers pack a weight; ``layers`` None means that it stands outside of them."""
    count = len(layers) if layers is not None else 1
    stacked = weight.kind == _EXPERTS and len(weight.shape) == STACK_DIMENSIONS
    candidate = stacked and scheme.scope is not Scope.LINEARS
    if is_linear and scheme.scope is not Scope.EXPERTS and weight.kind != ROUTER:
        candidate = packable(weight.shape[0], scheme)
    if not candidate:
        return Placed(weight, 0, count)
    name = weight.name.removesuffix(".weight")
    if layers is None:
        kept = int(scheme.keeps(*outer_names(model, name)))
    elif scheme.names_layers:
        kept = sum(scheme.keeps(*layer_names(model, layer, name)) for layer in layers)
    else:
        kept = count if scheme.kept and scheme.keeps(*layer_names(model, 0, name)) else 0
    return Placed(weight, count - kept, kept)
