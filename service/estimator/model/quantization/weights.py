"""Bytes of a model whose weights are quantised.

Some tensors are packed, others stay as they are.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.naming import (
    get_head_names,
    get_layer_names,
    get_outer_names,
)
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.weights.packing import PackedBytes, is_packable, packed_bytes
from service.estimator.model.weights.quantized_layers import ROUTER
from service.estimator.model.weights.scheme import Packing, Scheme, Scope
from service.estimator.model.weights.tensors import Weight
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import NotModelledError
from service.estimator.values.memo import keep_latest
from service.estimator.values.workload import Quantization

_EXPERTS = "mlp_experts"
STACK_DIMENSIONS = 3
"""A stack of experts is one tensor of expert, output and input."""

NF4 = Scheme(packing=Packing.BLOCKS_4BIT, double=True, scope=Scope.LINEARS)
"""What ``bnb_4bit_use_double_quant`` makes on loading (arXiv:2305.14314, section 3)."""
NF4_SINGLE = replace(NF4, double=False)
INT8 = Scheme(packing=Packing.INT8_ROWS, bits=8, scope=Scope.LINEARS)
"""What ``load_in_8bit`` makes on loading."""
GPTQ_INT2 = Scheme(packing=Packing.GPTQ, bits=2, group_size=128)
"""What GPTQ's exporters write for 2 bits (LLaMA-Factory, ``export_quantization_bit``)."""

_SCHEMES: Mapping[Quantization, Scheme] = MappingProxyType(
    {
        Quantization.INT8: INT8,
        Quantization.NF4: NF4,
        Quantization.GPTQ_INT4: Scheme(packing=Packing.GPTQ, group_size=128),
        Quantization.AWQ_INT4: Scheme(packing=Packing.AWQ, group_size=128),
        Quantization.FP8: Scheme(packing=Packing.FP8, bits=8, scale_bytes=4),
        Quantization.MXFP4: Scheme(packing=Packing.MXFP4, scope=Scope.EXPERTS),
        Quantization.NVFP4: Scheme(packing=Packing.NVFP4, group_size=16, static_inputs=True),
    },
)
"""The formats that a word alone stands for: groups of 128 (the libraries' default), one scale per
fp8 tensor.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightBytes:
    """Bytes of a model's parameters.

    They are codes, the scales that read them, and the weights that stay unquantised in their dtype.
    """

    quantised: int
    scales: int
    unquantised: int

    @property
    def total(self) -> int:
        """Total bytes."""
        return self.quantised + self.scales + self.unquantised


@dataclass(frozen=True, slots=True)
class WeightPlacement:
    """A weight of the tree: packed and unpacked occurrences.

    ``other_formats`` are the other formats of a mixture, with the packed occurrences of each.
    """

    weight: Weight
    num_packed: int
    num_unpacked: int
    other_formats: tuple[tuple[Scheme, int], ...] = ()

    @property
    def is_stack(self) -> bool:
        """Whether the tensor is a stack of experts."""
        return len(self.weight.shape) == STACK_DIMENSIONS

    @property
    def matrix_shape(self) -> tuple[int, int, int]:
        """Number of matrices in a checkpoint, and rows and columns of one.

        Experts stand apart there.
        """
        *stack, rows, columns = self.weight.shape
        if not stack:
            return 1, rows, columns
        (num,) = stack
        if self.weight.transposed:
            rows, columns = columns, rows
        return (
            (2 * num, rows // 2, columns)
            if self.weight.name.endswith("gate_up_proj")
            else (num, rows, columns)
        )


@dataclass(frozen=True, slots=True)
class _WeightQuery:
    """A cached question for bytes.

    The model is identified by its spec.
    """

    spec: DecoderSpec
    scheme: Scheme
    dtype: DType
    model: Architecture = field(compare=False, repr=False)


def weight_bytes(model: Architecture, scheme: Scheme, dtype: DType) -> WeightBytes:
    """Return the bytes of all parameters under a scheme.

    ``dtype`` is that of what is not quantised.
    """
    return _weight_bytes(_WeightQuery(model.spec, scheme, dtype, model))


def select_scheme(quantization: Quantization, model: Architecture) -> Scheme | None:
    """Return the scheme of a requested quantisation.

    It is the config's own where that has the format, or where nothing is requested.
    """
    own_scheme = model.quantization
    if quantization is Quantization.NONE:
        return own_scheme
    requested = _SCHEMES[quantization]
    if own_scheme is not None and own_scheme.packing is requested.packing:
        return own_scheme
    if requested.scope is Scope.EXPERTS and not any(
        placed.num_packed for placed in iter_placements(model, requested)
    ):
        feature = (
            f"quantization {quantization.value} of a model without experts, which are what it is "
            "for"
        )
        raise NotModelledError(
            feature,
            field="workload.quantization",
            modelled=[word.value for word in _SCHEMES if word is not quantization],
        )
    return requested


def iter_placements(model: Architecture, scheme: Scheme) -> Iterator[WeightPlacement]:
    """Yield every weight of the tree with its packed occurrences.

    What stays unpacked is 16 bit as it was.
    """
    for kind, (block, count) in enumerate(model.blocks):
        targets = {f"{layer.name}.weight" for layer in block.linears()}
        layers = _get_layer_indices(model, kind, count)
        for weight in block.weights():
            yield _place_weight(model, weight, scheme, layers, is_linear=weight.name in targets)
    outer = {f"{layer.name}.weight" for layer in model.outer_linears}
    for weight in _iter_outer_weights(model):
        yield _place_weight(model, weight, scheme, None, is_linear=weight.name in outer)
    for index, weight in enumerate(model.head.weights()):
        if not (model.tied and index == 0):
            if scheme.head and index == 0 and scheme.scope is not Scope.EXPERTS:
                yield _count_formats(weight, scheme, [get_head_names(model)], 1)
            else:
                yield WeightPlacement(weight, 0, 1)


def stored_bytes(placement: WeightPlacement, scheme: Scheme, dtype: DType) -> WeightBytes:
    """Return the bytes of one weight of the tree.

    All of its occurrences are counted together.
    """
    packed: list[PackedBytes] = []
    if placement.num_packed:
        num, rows, columns = placement.matrix_shape
        num_other = sum(count for _, count in placement.other_formats)
        packed = [
            packed_bytes(rows, columns, kind, dtype).times(num * count)
            for kind, count in (
                (scheme, placement.num_packed - num_other),
                *placement.other_formats,
            )
        ]
    return WeightBytes(
        quantised=sum(part.codes for part in packed),
        scales=sum(part.scales for part in packed),
        unquantised=placement.weight.numel * placement.num_unpacked * dtype.bytes_per_element,
    )


def inspect_placements(model: Architecture, scheme: Scheme) -> tuple[bool, bool]:
    """Return whether packing is uneven, and whether it packs stacks.

    The first says whether a scheme packs a module in some layers and not in others, the second
    whether it packs stacks of experts.
    """
    return _inspect_placements(_WeightQuery(model.spec, scheme, DType.BF16, model))


@keep_latest(256)
def _inspect_placements(query: _WeightQuery) -> tuple[bool, bool]:
    weights = tuple(iter_placements(query.model, query.scheme))
    return any(item.num_packed and item.num_unpacked for item in weights), any(
        item.num_packed and item.is_stack for item in weights
    )


@keep_latest(256)
def _weight_bytes(query: _WeightQuery) -> WeightBytes:
    parts = [
        stored_bytes(placement, query.scheme, query.dtype)
        for placement in iter_placements(query.model, query.scheme)
    ]
    return WeightBytes(
        quantised=sum(part.quantised for part in parts),
        scales=sum(part.scales for part in parts),
        unquantised=sum(part.unquantised for part in parts),
    )


def _iter_outer_weights(model: Architecture) -> Iterator[Weight]:
    yield model.embedding
    if model.position_embedding is not None:
        yield model.position_embedding
    yield from model.stem
    if model.final_norm is not None:
        yield from model.final_norm.weights()


def _get_layer_indices(model: Architecture, kind: int, count: int) -> tuple[int, ...]:
    """Return the indices of the layers of one kind."""
    if model.order:
        return tuple(index for index, other in enumerate(model.order) if other == kind)
    start = sum(times for _, times in model.blocks[:kind])
    return tuple(range(start, start + count))


def _place_weight(
    model: Architecture,
    weight: Weight,
    scheme: Scheme,
    layers: tuple[int, ...] | None,
    *,
    is_linear: bool,
) -> WeightPlacement:
    """Return the packed and unpacked occurrences of a weight.

    ``layers`` None means that it stands outside of them.
    """
    count = len(layers) if layers is not None else 1
    stacked = weight.kind == _EXPERTS and len(weight.shape) == STACK_DIMENSIONS
    candidate = stacked and scheme.scope is not Scope.LINEARS
    if is_linear and scheme.scope is not Scope.EXPERTS and weight.kind != ROUTER:
        candidate = is_packable(weight.shape[0], scheme)
    if not candidate:
        return WeightPlacement(weight, 0, count)
    name = weight.name.removesuffix(".weight")
    if layers is None:
        modules = [get_outer_names(model, name)]
    elif scheme.has_layer_patterns:
        modules = [get_layer_names(model, layer, name) for layer in layers]
    else:
        modules = [get_layer_names(model, 0, name)]
    return _count_formats(weight, scheme, modules, count // len(modules))


def _count_formats(
    weight: Weight, scheme: Scheme, modules: Sequence[tuple[str, ...]], times: int
) -> WeightPlacement:
    """Return the occurrences of a weight by format.

    ``modules`` are the names of each, ``times`` how many occurrences have them.
    """
    formats = Counter(scheme.select_format(*names) for names in modules)
    num_unpacked = formats.pop(None, 0) * times
    other_formats = tuple((part, formats[part] * times) for part in scheme.parts if part in formats)
    return WeightPlacement(weight, len(modules) * times - num_unpacked, num_unpacked, other_formats)
