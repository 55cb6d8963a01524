"""Remembered calls of common operators on fake tensors.

The mode remembers outputs under a key of everything that any operator may depend on, which takes it
several times as long as the output. Nine tenths of a step's calls depend on less.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    FakeTensor,
    FakeTensorMode,
    in_kernel_invocation_manager,
)

_aten = torch.ops.aten
_ITEM = _aten._local_scalar_dense.default  # noqa: SLF001 - an operator's name
VIEWS = frozenset(
    {
        _aten.detach.default,
        _aten.t.default,
        _aten.view.default,
        _aten._unsafe_view.default,  # noqa: SLF001 - an operator's name
        _aten.transpose.int,
        _aten.unsqueeze.default,
        _aten.expand.default,
        _aten.slice.Tensor,
        _aten.select.int,
        _aten.permute.default,
    },
)
"""Operators whose output is a view of their first argument: a third of a step's calls."""
_WRITES = frozenset(
    {
        _aten._foreach_add_.Scalar,
        _aten._foreach_addcdiv_.ScalarList,
        _aten._foreach_addcmul_.Scalar,
        _aten._foreach_div_.ScalarList,
        _aten._foreach_lerp_.Scalar,
        _aten._foreach_mul_.Scalar,
    }
)
"""Operators of optimizers that write values into lists of tensors, and do nothing else."""
REMEMBERED = frozenset(
    {
        _aten._softmax.default,  # noqa: SLF001 - an operator's name
        _aten._softmax_backward_data.default,  # noqa: SLF001 - the same
        _aten._to_copy.default,  # noqa: SLF001 - the same
        _aten.add.Tensor,
        _aten.addmm.default,
        _aten.bmm.default,
        _aten.cat.default,
        _aten.clone.default,
        _aten.cumsum.default,
        _aten.div.Scalar,
        _aten.div.Tensor,
        _aten.embedding.default,
        _aten.embedding_dense_backward.default,
        _aten.exp.default,
        _aten.mean.dim,
        _aten.mm.default,
        _aten.mul.Scalar,
        _aten.mul.Tensor,
        _aten.ne.Scalar,
        _aten.neg.default,
        _aten.pow.Tensor_Scalar,
        _aten.relu.default,
        _aten.rsqrt.default,
        _aten.select_backward.default,
        _aten.sigmoid.default,
        _aten.silu.default,
        _aten.silu_backward.default,
        _aten.slice_backward.default,
        _aten.sub.Tensor,
        _aten.sum.dim_IntList,
        _aten.threshold_backward.default,
        _aten.where.self,
        _aten.zeros_like.default,
    }
)
"""Operators with one output, a new tensor, of a shape and dtype that their inputs' decide."""
_PLAIN = (
    bool,
    float,
    int,
    type(None),
    torch.device,
    torch.dtype,
    torch.layout,
    torch.memory_format,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Output:
    """Description of a new tensor, without its storage."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device


_OUTPUTS: dict[tuple[object, ...], _Output] = {}


def call_fake(func: Callable[..., Any], *args: object, **kwargs: object) -> object:
    """Return what the fake mode does."""
    if func in VIEWS:
        return _make_view(func, args, kwargs)
    if func in _WRITES and _is_plain_list(args[0]):
        return None
    if func is _ITEM and (constant := getattr(args[0], "constant", None)) is not None:
        return _read_item(constant)
    if func in REMEMBERED:
        return _call_remembered(func, args, kwargs)
    return func(*args, **kwargs)


def _call_remembered(
    func: Callable[..., Any], args: Sequence[object], kwargs: Mapping[str, object]
) -> object:
    key: list[object] = [func, torch.get_default_dtype(), torch.is_inference_mode_enabled()]
    tensors: list[FakeTensor] = []
    key += kwargs
    if not _describe(key, tensors, (*args, *kwargs.values())) or not tensors:
        return func(*args, **kwargs)
    call = tuple(key)
    if (output := _OUTPUTS.get(call)) is not None:
        return _make_tensor(tensors[0].fake_mode, output)
    result = func(*args, **kwargs)
    if (output := _describe_new(result, tensors)) is not None:
        _OUTPUTS[call] = output
    return result


def _make_view(
    func: Callable[..., object], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> object:
    source = args[0]
    if type(source) is not FakeTensor or source.constant is not None:
        return func(*args, **kwargs)
    with in_kernel_invocation_manager(source.fake_mode):
        view = func(*args, **kwargs)
    return FakeTensor(source.fake_mode, view, source.fake_device)


def _is_plain_list(tensors: Any) -> bool:  # noqa: ANN401 - what an operator is given
    return all(isinstance(tensor, FakeTensor) and _is_plain(tensor) for tensor in tensors)


def _read_item(constant: torch.Tensor) -> object:
    with torch._C._DisableTorchDispatch():  # noqa: SLF001 - as the fake mode reads constants
        return constant.item()


def _describe(key: list[object], tensors: list[FakeTensor], arguments: Iterable[object]) -> bool:
    """List what an output depends on; return whether that is all."""
    for argument in arguments:
        kind = type(argument)
        if isinstance(argument, FakeTensor):
            if not _is_plain(argument) or (
                tensors and argument.fake_mode is not tensors[0].fake_mode
            ):
                return False
            tensors.append(argument)
            key += (argument.shape, argument.stride(), argument.dtype, argument.fake_device)
        elif kind in _PLAIN:
            key += (kind, argument)
        elif isinstance(argument, list | tuple):
            key.append(len(argument))
            if not _describe(key, tensors, argument):
                return False
        else:
            return False
    return True


def _is_plain(tensor: FakeTensor) -> bool:
    """Return whether a tensor is its shape, stride, dtype and device."""
    return (
        tensor.constant is None
        and tensor.layout is torch.strided
        and not tensor.dtype.is_complex
        and not tensor.is_neg()
    )


def _describe_new(result: object, read: Sequence[FakeTensor]) -> _Output | None:
    """Return what describes a tensor; None where it is no new one."""
    if not isinstance(result, FakeTensor) or not _is_plain(result):
        return None
    storage = result.untyped_storage()
    identity = storage._cdata  # noqa: SLF001 - the storage's identity
    if any(tensor.untyped_storage()._cdata == identity for tensor in read):  # noqa: SLF001 - the same
        return None
    output = _Output(
        shape=result.shape, stride=result.stride(), dtype=result.dtype, device=result.fake_device
    )
    again = _make_tensor(result.fake_mode, output)
    is_all = result.storage_offset() == 0 and storage.nbytes() == again.untyped_storage().nbytes()
    return output if is_all else None


def _make_tensor(mode: FakeTensorMode, output: _Output) -> FakeTensor:
    with in_kernel_invocation_manager(mode):
        tensor = torch.empty_strided(output.shape, output.stride, dtype=output.dtype, device="meta")
    return FakeTensor(mode, tensor, output.device)
