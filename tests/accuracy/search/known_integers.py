"""Integers with values beside fake tensors.

Code of models reads token ids, masks and grids of images to decide what it makes. Fake tensors have
no values, so these are real, and all that is computed from them alone; what meets a fake tensor is
made fake for that operator. Storages of both are recorded.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_map_only

from worker.probes.trace.accumulation import is_in_place_accumulation
from worker.probes.trace.recorder import StorageRecorder

_FACTORIES = frozenset(
    {"arange", "full", "ones", "zeros", "empty", "randint", "scalar_tensor", "tril_indices"}
)


_ON_HOST = torch.ops.aten.lift_fresh.default


@contextmanager
def know_integers(recorder: StorageRecorder) -> Iterator[None]:
    """Give integers values beside the fake tensors whose storages are recorded."""
    make = torch.tensor

    def make_of_numbers(data: object, *args: Any, **named: Any) -> torch.Tensor:  # noqa: ANN401 - torch's own
        numbers = tree_map_only(torch.Tensor, lambda part: part.item(), data)
        return make(numbers if isinstance(data, list | tuple) else data, *args, **named)

    with KnownIntegers(recorder), patch.object(torch, "tensor", make_of_numbers):
        yield


class KnownIntegers(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Dispatch mode that computes integers and leaves the rest to the modes below."""

    def __init__(self, recorder: StorageRecorder) -> None:
        """Record what is computed with ``recorder``, whose mode is below."""
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self._recorder = recorder

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        """Run an operator on real integers, or hand it on."""
        named = kwargs or {}
        if DTensor in types:
            return NotImplemented
        if func is torch.ops.aten.add.Tensor and is_in_place_accumulation(args, named):
            # It counts references, of which a mode above another has as many.
            return args[0]
        tensors = [leaf for leaf in tree_flatten((args, named))[0] if _is_tensor(leaf)]
        known = [tensor for tensor in tensors if _is_known(tensor)]
        if len(known) == len(tensors) and (tensors or _makes_integers(func, args, named)):
            with _disable_current_modes():
                outputs = func(*args, **named)
            if func is _ON_HOST:
                self._recorder._ignore(outputs)  # noqa: SLF001 - as the mode below does
            else:
                self._recorder._record_outputs(outputs, str(func))  # noqa: SLF001 - the same
            return outputs
        if not known:
            return func(*args, **named)
        mode = detect_fake_mode()
        assert mode is not None, "fake tensors come from a mode"
        fake_args, fake_named = tree_map_only(
            torch.Tensor, lambda tensor: _make_fake(mode, tensor), (args, named)
        )
        return func(*fake_args, **fake_named)


def _is_tensor(leaf: object) -> bool:
    return isinstance(leaf, torch.Tensor)


def _is_known(tensor: torch.Tensor) -> bool:
    return not isinstance(tensor, FakeTensor) and not tensor.is_meta


def _make_fake(mode: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    if not _is_known(tensor):
        return tensor
    with _disable_current_modes():
        return mode.from_tensor(tensor)


def _makes_integers(func: Any, args: Sequence[Any], named: dict[str, Any]) -> bool:  # noqa: ANN401 - an operator
    """Return whether a function without a tensor makes integers."""
    name = func.overloadpacket.__name__
    device = named.get("device")
    if name not in _FACTORIES or (device is not None and torch.device(device).type == "meta"):
        return False
    if named.get("dtype") is not None:
        dtype: torch.dtype = named["dtype"]
        is_number = not dtype.is_floating_point and not dtype.is_complex
        # FSDP2 gathers weights of several formats in a buffer of bytes, which no code reads.
        return is_number and dtype is not torch.uint8
    if name == "full":
        return isinstance(args[1], int)
    if name == "arange":
        return all(isinstance(value, int) for value in args)
    return name in {"randint", "tril_indices"} or (
        name == "scalar_tensor" and isinstance(args[0], int)
    )
