"""Bytes of checkpoint files compared with the model's tree; pure.

They are equal to the byte, or the difference is explained in a warning.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from service.base.errors import InvalidRequestError
from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.weights import iter_placements, weight_bytes
from service.estimator.model.weights.scheme import Packing
from service.estimator.values.dtypes import DType
from service.formats.checkpoints.safetensors_header import count_elements
from service.formats.checkpoints.tensor_differences import FileTensor, list_tensor_differences

_DTYPES = {"float32": DType.FP32, "bfloat16": DType.BF16, "float16": DType.FP16}
_BYTES_PER_ELEMENT = {
    "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2,  # noqa: E501
    "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I8": 1, "U8": 1, "BOOL": 1,
}  # fmt: skip
"""Bytes of one element by the name that a safetensors header gives its format."""
_METADATA = "__metadata__"
_STATE_BYTES = 256
"""bitsandbytes writes each tensor's state as JSON of 70 to 200 bytes, depending on the digits of an
offset.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Bytes and number of all tensors of a checkpoint.

    ``num_tensors`` is None where it is not known.
    """

    total_bytes: int
    num_tensors: int | None = None
    tensors: tuple[FileTensor, ...] = ()
    """Tensors of a header, which are compared and not stored."""
    differences: tuple[str, ...] = ()
    """Warnings that name tensors, as they were stored."""

    def describe(self) -> dict[str, object]:
        """Return the sums as JSON values.

        The lists of tensor names that they come from are not stored.
        """
        described = {"total_bytes": self.total_bytes, "num_tensors": self.num_tensors}
        return described | ({"differences": list(self.differences)} if self.differences else {})


def read_index(index: Mapping[str, object], *, field: str = "source") -> Checkpoint:
    """Return the sums of a ``model.safetensors.index.json``.

    Its ``total_size`` counts the bytes of all tensors.
    """
    metadata, names = index.get("metadata"), index.get("weight_map")
    total = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    if not _is_count(total):
        raise _make_refusal(
            f"{field}.safetensors_index.metadata.total_size",
            f"total_size is {total!r}; it must be a number of bytes",
        )
    return Checkpoint(
        total_bytes=int(str(total)), num_tensors=len(names) if isinstance(names, Mapping) else None
    )


def read_header(header: Mapping[str, object], *, field: str = "source") -> Checkpoint:
    """Return the sums of a safetensors file's JSON header.

    It has each tensor's format and shape.
    """
    prefix = f"{field}.safetensors_header"
    tensors = tuple(
        _read_tensor(name, tensor, f"{prefix}.{name}")
        for name, tensor in header.items()
        if name != _METADATA
    )
    total = sum(tensor.bytes for tensor in tensors)
    return Checkpoint(total_bytes=total, num_tensors=len(tensors), tensors=tensors)


def read_checkpoint(described: object) -> Checkpoint | None:
    """Parse the output of ``Checkpoint.describe``.

    ``None`` where there is none.
    """
    if not isinstance(described, Mapping):
        return None
    tensors = described.get("num_tensors")
    return Checkpoint(
        total_bytes=int(described["total_bytes"]),
        num_tensors=None if tensors is None else int(tensors),
        differences=tuple(map(str, described.get("differences", ()))),
    )


def find_disagreements(
    model: Architecture, checkpoint: Checkpoint, config: Mapping[str, object]
) -> Iterator[str]:
    """Yield a warning where files and tree differ in bytes.

    Nothing when they agree to the byte.
    """
    stated = _read_stated_dtype(config)
    expected = {
        dtype: _tree_bytes(model, dtype)
        for dtype in ([stated] if stated is not None else list(_DTYPES.values()))
    }
    if checkpoint.total_bytes in expected.values():
        return
    dtype = min(expected, key=lambda candidate: abs(expected[candidate] - checkpoint.total_bytes))
    difference = checkpoint.total_bytes - expected[dtype]
    reason = _explain_difference(model, dtype, difference)
    yield (
        f"the checkpoint holds {checkpoint.total_bytes:,} bytes where the model has "
        f"{expected[dtype]:,} in {dtype.value}: {abs(difference):,} "
        f"{'more' if difference > 0 else 'fewer'}, {reason}"
    )
    yield from checkpoint.differences or list_tensor_differences(
        model, checkpoint.tensors, dtype.bytes_per_element
    )


def _tree_bytes(model: Architecture, dtype: DType) -> int:
    if model.quantization is None:
        return model.weight_bytes(dtype)
    return weight_bytes(model, model.quantization, dtype).total


def _explain_difference(model: Architecture, dtype: DType, difference: int) -> str:
    """Return the explanation of a difference, where there is one."""
    spec = model.spec
    head = model.head.in_features * model.head.out_features * dtype.bytes_per_element
    if model.tied and difference == head:
        return "the head, which is tied to the embedding and was written a second time"
    if not model.tied and difference == -head:
        return (
            "the head, which the files leave out: is tie_word_embeddings missing from the config?"
        )
    if spec.rotary and difference in {
        spec.num_hidden_layers * (spec.head_dim // 2) * size for size in (2, 4)
    }:
        return "the rotary frequencies that older releases wrote for each layer"
    if model.quantization is not None and model.quantization.packing is Packing.BLOCKS_4BIT:
        packed = sum(placed.num_packed for placed in iter_placements(model, model.quantization))
        if 0 < difference <= packed * _STATE_BYTES:
            return f"the states of {packed} quantised tensors, written as text"
    return "which nothing known explains: the config and the files may not belong together"


def _read_stated_dtype(config: Mapping[str, object]) -> DType | None:
    stated = config.get("dtype") or config.get("torch_dtype")
    return _DTYPES.get(stated) if isinstance(stated, str) else None


def _read_tensor(name: str, tensor: object, field: str) -> FileTensor:
    if not isinstance(tensor, Mapping):
        raise _make_refusal(
            field, f"{name} is {tensor!r}; it must be an object with dtype and shape"
        )
    dtype, shape = tensor.get("dtype"), tensor.get("shape")
    if not isinstance(dtype, str) or dtype not in _BYTES_PER_ELEMENT:
        raise _make_refusal(
            f"{field}.dtype", f"dtype is {dtype!r}; known: {', '.join(_BYTES_PER_ELEMENT)}"
        )
    if not isinstance(shape, list) or not all(_is_count(size) for size in shape):
        raise _make_refusal(f"{field}.shape", f"shape is {shape!r}; it must be a list of sizes")
    if count_elements(shape) is None:
        raise _make_refusal(f"{field}.shape", f"{name} has more elements than any file can have")
    return FileTensor(
        name=name, dtype=dtype, shape=tuple(shape), element_bytes=_BYTES_PER_ELEMENT[dtype]
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _make_refusal(field: str, message: str) -> InvalidRequestError:
    return InvalidRequestError(message, errors=[{"field": field, "message": message}])
