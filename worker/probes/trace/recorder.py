"""Writes down every storage that a run on fake tensors makes and releases."""

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

from worker.probes.run.recorder import listening
from worker.probes.trace.accumulation import accumulates_in_place
from worker.probes.trace.cuda_kernels import OUTPUTS, SCRATCH, Scratch
from worker.probes.trace.ledger import Ledger

_aten = torch.ops.aten
_NO_STORAGE = frozenset(
    {
        torch.ops.prim.device.default,
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
        _aten._local_scalar_dense.default,  # noqa: SLF001 - an operator's name
    }
)
"""Operators that look at a tensor and never make one: a third of a step's calls, passed on at once."""
_WAITS = torch.ops._c10d_functional.wait_tensor.default  # noqa: SLF001 - an operator's name
"""Waits for a collective and hands on what it is given; its fake is told to make a tensor of its own."""
_ON_HOST = frozenset({_aten.lift_fresh.default})
"""``torch.tensor(3.0)`` is made on the CPU: optimizers count their steps with such tensors, unless they are fused."""


class StorageRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Sits above the fake tensors' own mode, so that it sees what the device would be asked for, kernel by kernel."""

    def __init__(self, ledger: Ledger, scratch: Mapping[object, Scratch]) -> None:
        """Write into ``ledger``; ``scratch`` says what kernels take beside their outputs."""
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.ledger = ledger
        self._needs = scratch
        self._known: dict[int, tuple[int, weakref.ref[Any]]] = {}
        self._left_out: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        """Run an operator and write down the storages that are new."""
        if DTensor in types:
            return NotImplemented  # a distributed tensor takes itself apart, and this rank's part of it comes by here
        named = kwargs or {}
        if func in _NO_STORAGE:
            return func(*args, **named)
        if func is _WAITS:
            return args[0]
        if func is _aten.add.Tensor and accumulates_in_place(args, named):
            return args[0]
        as_on_cuda: Callable[..., object] = OUTPUTS.get(func) or _plain
        outputs = as_on_cuda(func, *args, **named)
        if func in _ON_HOST:
            self._leave_out(outputs)
        else:
            self._see_all(outputs, str(func))
        if func in self._needs:
            self._scratch(self._needs[func](*args, **named), str(func))
        return outputs

    def place_of(self, tensor: torch.Tensor) -> int | None:
        """Return the ledger's place of a tensor's storage, ``None`` where it was not recorded."""
        held = tensor.to_local() if isinstance(tensor, DTensor) else tensor
        known = self._known.get(held.untyped_storage()._cdata)  # noqa: SLF001 - the storage's identity
        return None if known is None else known[0]

    def resized(self, storage: torch.UntypedStorage, num_bytes: int) -> None:
        """Write down that a storage was given back and taken anew in another size."""
        identity = storage._cdata  # noqa: SLF001 - the storage's identity
        if (known := self._known.pop(identity, None)) is None:
            return
        place, _ = known
        self.ledger.release(place)
        birth = self.ledger.births[place]
        self._begin(storage, self.ledger.make(num_bytes, birth.operator, birth.shape, birth.dtype))

    def _see_all(self, outputs: object, operator: str) -> None:
        if isinstance(outputs, torch.Tensor):
            self._see(outputs, operator)
        elif isinstance(outputs, tuple | list):
            for output in outputs:
                self._see_all(output, operator)

    def _see(self, tensor: torch.Tensor, operator: str) -> None:
        storage = tensor.untyped_storage()
        identity = storage._cdata  # noqa: SLF001 - the storage's identity
        if identity in self._known or identity in self._left_out or tensor.device.type == "meta":
            return
        shape, dtype = tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")
        self._begin(storage, self.ledger.make(storage.nbytes(), operator, shape, dtype))

    def _leave_out(self, output: object) -> None:
        """Never count a storage, whatever writes into it later."""
        assert isinstance(output, torch.Tensor)  # noqa: S101 - what these operators return
        storage, left_out = output.untyped_storage(), self._left_out
        identity = storage._cdata  # noqa: SLF001 - the storage's identity
        left_out[identity] = weakref.ref(storage, lambda _: left_out.pop(identity, None))

    def _begin(self, storage: torch.UntypedStorage, place: int) -> None:
        identity = storage._cdata  # noqa: SLF001 - the storage's identity
        known, ledger = self._known, self.ledger

        def gone(reference: weakref.ref[Any]) -> None:
            # After a resize the same storage has a new place, and the old reference nothing to say.
            if (current := known.get(identity)) is not None and current[1] is reference:
                del known[identity]
                ledger.release(place)

        known[identity] = (place, weakref.ref(storage, gone))

    def _scratch(self, sizes: Sequence[int], operator: str) -> None:
        places = [self.ledger.make(size, operator, (size,), "uint8") for size in sizes]
        for place in places:
            self.ledger.release(place)


@contextmanager
def recording_storages(
    scratch: Mapping[object, Scratch] = SCRATCH, *, ledger: Ledger | None = None
) -> Iterator[StorageRecorder]:
    """Record what happens inside, into ``ledger`` or a new one; the marks of ``worker.probes.run.recorder`` divide it."""
    recorder = StorageRecorder(Ledger() if ledger is None else ledger, scratch)
    with listening(recorder.ledger.mark), _noticing_resizes(recorder), recorder:
        yield recorder


@contextmanager
def _noticing_resizes(recorder: StorageRecorder) -> Iterator[None]:
    """Sharded parameters are freed and filled by resizing their storage, which is no operator."""
    resize = torch.UntypedStorage.resize_

    def noticed(storage: torch.UntypedStorage, size: int) -> torch.UntypedStorage:
        before = storage.nbytes()
        result: torch.UntypedStorage = resize(storage, size)
        if size != before:
            recorder.resized(storage, size)
        return result

    torch.UntypedStorage.resize_ = noticed  # type: ignore[method-assign, assignment]  # put back below
    try:
        yield
    finally:
        torch.UntypedStorage.resize_ = resize  # type: ignore[method-assign]  # as it was


def _plain(func: Callable[..., object], *args: object, **kwargs: object) -> object:
    return func(*args, **kwargs)
