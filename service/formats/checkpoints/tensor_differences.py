"""Tensors of safetensors files compared with a model's tree, layer by layer.

Files have experts one by one or as stacks, and matrices either way round, so that tensors are
paired by their elements within a layer; names say which of equal ones are left over.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.weights import STACK_DIMENSIONS, WeightPlacement
from service.estimator.model.weights.tensors import Weight

_LAYER = re.compile(r"(?:^|\.)(?:layers|layer|blocks|block|h)\.([0-9]{1,4})\.(.+)")
_MAX_NAMED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTensor:
    """A tensor of a file and the bytes of an element."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    element_bytes: int

    @property
    def bytes(self) -> int:
        """Bytes of the tensor."""
        return prod(self.shape) * self.element_bytes

    @property
    def place(self) -> tuple[int | None, str]:
        """Layer and name within it; None outside of the layers."""
        match = _LAYER.search(self.name)
        return (None, self.name) if match is None else (int(match[1]), match[2])


def list_tensor_differences(
    model: Architecture, tensors: Sequence[FileTensor], element_bytes: int
) -> Iterator[str]:
    """Yield which tensors differ, and by how many bytes.

    ``element_bytes`` are those of the number format that the config states. Quantised models,
    models of two stacks and models with images are told by their sums alone, and so are files whose
    tensors are not known.
    """
    if not tensors or model.quantization is not None:
        return
    if model.images is not None or model.walker is not None:
        return
    extra, missing = _pair(model, tensors)
    if extra:
        size = sum(tensor.bytes for tensor in extra)
        yield f"the files alone have {size:,} bytes: {_list_names(extra)}"
    if missing:
        size = sum(count for _, count in missing) * element_bytes
        names = [f"{name} ({count:,} elements)" for name, count in missing]
        yield f"the model alone has {size:,} bytes: {_join(names)}"
    unpaired = {tensor.name for tensor in extra}
    recast = [
        tensor
        for tensor in tensors
        if tensor.element_bytes != element_bytes and tensor.name not in unpaired
    ]
    if recast:
        size = sum(prod(item.shape) * (item.element_bytes - element_bytes) for item in recast)
        yield (
            f"in another number format than the config states, {abs(size):,} bytes "
            f"{'more' if size > 0 else 'fewer'}: {_list_names(recast)}"
        )


def _pair(
    model: Architecture, tensors: Sequence[FileTensor]
) -> tuple[list[FileTensor], list[tuple[str, int]]]:
    """Return the tensors that files and model have alone."""
    weights = dict(_list_weights(model))
    names = {weight.name for group in weights.values() for weight in group}
    in_files: dict[int | None, list[FileTensor]] = defaultdict(list)
    for tensor in tensors:
        in_files[tensor.place[0]].append(tensor)
    extra: list[FileTensor] = []
    missing: list[tuple[str, int]] = []
    for layer in sorted({*weights, *in_files}, key=lambda index: -1 if index is None else index):
        expected = Counter[int]()
        for weight in weights.get(layer, ()):
            expected.update(_split_weight(weight))
        # Names that the tree knows are paired first: what is left over is what it does not know.
        for tensor in sorted(in_files[layer], key=lambda item: item.place[1] not in names):
            parts = _split_tensor(tensor, expected)
            if any(expected[size] < count for size, count in parts.items()):
                extra.append(tensor)
            else:
                expected.subtract(parts)
        missing += _name_missing(layer, weights.get(layer, ()), +expected)
    return extra, missing


def _list_weights(model: Architecture) -> Iterator[tuple[int | None, list[Weight]]]:
    """Yield the weights of each layer, and those outside of them."""
    kinds = model.order or [
        kind for kind, (_, count) in enumerate(model.blocks) for _ in range(count)
    ]
    in_blocks = [list(block.weights()) for block, _ in model.blocks]
    inner = {weight for group in in_blocks for weight in group}
    yield None, [weight for weight, _ in model.weights() if weight not in inner]
    for layer, kind in enumerate(kinds):
        yield layer, in_blocks[kind]


def _split_weight(weight: Weight) -> Mapping[int, int]:
    """Return the matrices of a weight by their elements."""
    if len(weight.shape) != STACK_DIMENSIONS:
        return {weight.numel: 1}
    num, rows, columns = WeightPlacement(weight, 0, 1).matrix_shape
    return {rows * columns: num}


def _split_tensor(tensor: FileTensor, expected: Mapping[int, int]) -> Mapping[int, int]:
    """Return the matrices of a tensor or a stack."""
    size = prod(tensor.shape)
    if len(tensor.shape) != STACK_DIMENSIONS or expected.get(size):
        return {size: 1}
    num = tensor.shape[0]
    return next(
        ({size // count: count} for count in (num, 2 * num) if expected.get(size // count)),
        {size: 1},
    )


def _name_missing(
    layer: int | None, weights: Sequence[Weight], left: Mapping[int, int]
) -> Iterator[tuple[str, int]]:
    prefix = "" if layer is None else f"layer {layer} "
    for size, count in left.items():
        name = next(
            (weight.name for weight in reversed(weights) if size in _split_weight(weight)), "?"
        )
        yield f"{prefix}{name}", size * count


def _list_names(tensors: Sequence[FileTensor]) -> str:
    return _join(
        [
            f"{tensor.name} ({tensor.dtype} {list(tensor.shape)}, {tensor.bytes:,} bytes)"
            for tensor in tensors
        ]
    )


def _join(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more:,} more" if more > 0 else "")
