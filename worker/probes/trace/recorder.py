"""Recorder of the storages of a run on fake tensors."""

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

from worker.probes.run.recorder import listen_to_marks
from worker.probes.trace.accumulation import is_in_place_accumulation
from worker.probes.trace.cuda_kernels import OUTPUTS, SCRATCH, Scratch
from worker.probes.trace.fake_calls import VIEWS, call_fake
from worker.probes.trace.ledger import Ledger

_aten = torch.ops.aten
_DEVICE = torch.ops.prim.device.default
"""Operator that asks for a tensor's device: two thirds of a step's calls."""
_WAITS = torch.ops._c10d_functional.wait_tensor.default  # noqa: SLF001 - an operator's name
"""Operator that waits for a collective and returns its input.

Its fake makes a tensor of its own.
"""
_ON_HOST = frozenset({_aten.lift_fresh.default})
"""Operators whose outputs are on the CPU, such as ``torch.tensor(3.0)``.

Optimizers count their steps with such tensors, unless they are fused.
"""


class StorageRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Dispatch mode above the fake tensors' own.

    There it sees what the device would be asked for, kernel by kernel.
    """

    def __init__(self, ledger: Ledger, scratch: Mapping[object, Scratch]) -> None:
        """Record into ``ledger``.

        ``scratch`` has what kernels take besides their outputs.
        """
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.ledger = ledger
        self._scratch_sizes = scratch
        self._tracked: dict[int, tuple[int, weakref.ref[Any]]] = {}
        self._ignored: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        """Run an operator and record the storages that are new."""
        if DTensor in types:
            # a distributed tensor takes itself apart, and this rank's part of it comes by here
            return NotImplemented
        if func is _DEVICE and type(args[0]) is FakeTensor:
            # what the fake mode would answer, without the way there
            return args[0].fake_device
        named = kwargs or {}
        if func in VIEWS:
            return call_fake(func, *args, **named)
        if func is _WAITS:
            return args[0]
        if func is _aten.add.Tensor and is_in_place_accumulation(args, named):
            return args[0]
        call: Callable[..., object] = OUTPUTS.get(func, call_fake)
        outputs = call(func, *args, **named)
        if func in _ON_HOST:
            self._ignore(outputs)
        else:
            self._record_outputs(outputs, str(func))
        if func in self._scratch_sizes:
            self._record_scratch(self._scratch_sizes[func](*args, **named), str(func))
        return outputs

    def find_place(self, tensor: torch.Tensor) -> int | None:
        """Return the ledger's position of a tensor's storage.

        None where it was not recorded.
        """
        local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
        entry = self._tracked.get(local.untyped_storage()._cdata)  # noqa: SLF001 - the storage's identity
        return None if entry is None else entry[0]

    def record_resize(self, storage: torch.UntypedStorage, num_bytes: int) -> None:
        """Record that a storage was released and allocated in another size."""
        identity = storage._cdata  # noqa: SLF001 - the storage's identity
        if (entry := self._tracked.pop(identity, None)) is None:
            return
        place, _ = entry
        self.ledger.release(place)
        birth = self.ledger.allocations[place]
        self._track(
            storage, self.ledger.allocate(num_bytes, birth.operator, birth.shape, birth.dtype)
        )

    def _record_outputs(self, outputs: object, operator: str) -> None:
        if isinstance(outputs, torch.Tensor):
            self._record_output(outputs, operator)
        elif isinstance(outputs, tuple | list):
            for output in outputs:
                self._record_outputs(output, operator)

    def _record_output(self, tensor: torch.Tensor, operator: str) -> None:
        storage = tensor.untyped_storage()
        identity = storage._cdata  # noqa: SLF001 - the storage's identity
        if identity in self._tracked or identity in self._ignored or tensor.device.type == "meta":
            return
        shape, dtype = tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")
        self._track(storage, self.ledger.allocate(storage.nbytes(), operator, shape, dtype))

    def _ignore(self, output: object) -> None:
        """Ignore a storage, whatever writes into it later."""
        assert isinstance(output, torch.Tensor)  # noqa: S101 - what these operators return
        storage, ignored = output.untyped_storage(), self._ignored
        identity = storage._cdata  # noqa: SLF001 - the storage's identity
        ignored[identity] = weakref.ref(storage, lambda _: ignored.pop(identity, None))

    def _track(self, storage: torch.UntypedStorage, place: int) -> None:
        identity = storage._cdata  # noqa: SLF001 - the storage's identity
        tracked, ledger = self._tracked, self.ledger

        def on_release(reference: weakref.ref[Any]) -> None:
            # After a resize the same storage has a new place, and the old reference nothing to say.
            if (current := tracked.get(identity)) is not None and current[1] is reference:
                del tracked[identity]
                ledger.release(place)

        tracked[identity] = (place, weakref.ref(storage, on_release))

    def _record_scratch(self, sizes: Sequence[int], operator: str) -> None:
        places = [self.ledger.allocate(size, operator, (size,), "uint8") for size in sizes]
        for place in places:
            self.ledger.release(place)


@contextmanager
def record_storages(
    scratch: Mapping[object, Scratch] = SCRATCH, *, ledger: Ledger | None = None
) -> Iterator[StorageRecorder]:
    """Record the storages of a block, into ``ledger`` or a new one.

    The marks of ``worker.probes.run.recorder`` divide it.
    """
    recorder = StorageRecorder(Ledger() if ledger is None else ledger, scratch)
    with listen_to_marks(recorder.ledger.mark), _record_resizes(recorder), recorder:
        yield recorder


@contextmanager
def _record_resizes(recorder: StorageRecorder) -> Iterator[None]:
    """Record the resizes of storages.

    Sharded parameters are freed and filled by resizing their storage, which is no operator.
    """
    resize = torch.UntypedStorage.resize_

    def resize_and_record(storage: torch.UntypedStorage, size: int) -> torch.UntypedStorage:
        before = storage.nbytes()
        result: torch.UntypedStorage = resize(storage, size)
        if size != before:
            recorder.record_resize(storage, size)
        return result

    torch.UntypedStorage.resize_ = resize_and_record  # type: ignore[method-assign, assignment]  # put back below
    try:
        yield
    finally:
        torch.UntypedStorage.resize_ = resize  # type: ignore[method-assign]  # as it was
