"""The recorder counts every byte of every storage, and takes the scratch of kernels for what it
is.
"""

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from worker.probes.run.recorder import Recording, RecordingError, Stretch, mark, record_allocations

KIB = 1024


def stretch(recorded: Recording, name: str) -> Stretch:
    """Return the stretch of a recording that has this name."""
    return next(found for found in recorded.stretches() if found.name == name)


def test_counts_what_is_made_and_what_is_freed() -> None:
    """Start, peak and end of a stretch follow from the sizes of the tensors."""
    with record_allocations() as recorded:
        kept = torch.zeros(KIB)
        mark("work")
        dropped = torch.zeros(2 * KIB)
        del dropped
        second = torch.zeros(KIB)
        mark("after")
        del kept, second

    work = stretch(recorded, "work")
    assert (work.start, work.live_peak, work.end) == (4 * KIB, 12 * KIB, 8 * KIB)
    assert stretch(recorded, "after").end == 0


def test_a_training_step_by_hand() -> None:
    """A linear layer without bias: weights, saved input, output, gradients, all as arithmetic
    says.
    """
    batch, width = 8, 64
    square, rows = width * width * 4, batch * width * 4
    with record_allocations() as recorded:
        layer = torch.nn.Linear(width, width, bias=False)
        data = torch.zeros(batch, width)
        mark("forward")
        hidden = layer(data)
        loss = hidden.sum()
        del hidden
        mark("backward")
        loss.backward()
        mark("end")

    assert stretch(recorded, "forward").start == square + rows
    assert stretch(recorded, "forward").live_peak == square + 2 * rows + 4
    assert stretch(recorded, "forward").end == square + rows + 4
    # The gradient of the sum is one number seen through an expanded view; the product is all that
    # is made.
    assert stretch(recorded, "backward").live_peak == 2 * square + rows + 2 * 4
    assert stretch(recorded, "end").start == 2 * square + rows + 4


def test_scratch_of_a_kernel_is_not_live() -> None:
    """What a kernel takes and gives back is the allocator's peak and no tensor's."""
    wide = torch.zeros(KIB, dtype=torch.bfloat16)
    narrow = torch.zeros(KIB, dtype=torch.float32)
    with record_allocations() as recorded:
        mark("promote")
        narrow.add_(wide)
        mark("end")

    assert stretch(recorded, "promote").live_peak == 0
    assert stretch(recorded, "promote").allocator_peak >= 4 * KIB


def test_views_hold_one_storage() -> None:
    """A view allocates nothing and keeps its base alive."""
    with record_allocations() as recorded:
        mark("work")
        view = torch.zeros(KIB, KIB)[0]
        mark("after")
        del view

    assert stretch(recorded, "after").start == KIB * KIB * 4


def test_what_is_older_than_the_recording_does_not_count() -> None:
    """Storages of an earlier recording may die in this one."""
    with record_allocations():
        old = torch.zeros(KIB)
    with record_allocations() as recorded:
        mark("work")
        del old
        new = torch.zeros(KIB)
        mark("after")
        del new

    assert stretch(recorded, "work").live_peak == 4 * KIB


def test_a_recording_can_be_read_when_it_is_over() -> None:
    """There is nothing to read while it runs."""
    with record_allocations() as recorded, pytest.raises(RecordingError, match="not over"):
        recorded.stretches()


class _LiveStorages(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """A second, independent count: storages of all outputs, by finalizers."""

    def __init__(self, older: Sequence[torch.Tensor] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.live = self.peak = 0
        self._known = {tensor.untyped_storage()._cdata for tensor in older}  # noqa: SLF001 - the identity has no public name

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        del types
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else (out,):
            if isinstance(tensor, torch.Tensor):
                self._watch(tensor.untyped_storage())
        return out

    def _watch(self, storage: torch.UntypedStorage) -> None:
        if storage._cdata in self._known:  # noqa: SLF001 - see above
            return
        self._known.add(storage._cdata)  # noqa: SLF001 - see above
        self.live += storage.nbytes()
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._forget, storage._cdata, storage.nbytes())  # noqa: SLF001 - see above

    def _forget(self, identity: int, num_bytes: int) -> None:
        self._known.discard(identity)
        self.live -= num_bytes


def _perceptron_step(data: torch.Tensor, layers: Sequence[torch.nn.Linear]) -> None:
    hidden = data
    for layer in layers:
        hidden = torch.nn.functional.gelu(layer(hidden))
    hidden.square().mean().backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped


def test_agrees_with_a_dispatch_mode_where_nothing_is_used_twice() -> None:
    """Two ways to count give the same peak when autograd has nothing to accumulate in place."""
    layers = [torch.nn.Linear(32, 32) for _ in range(3)]
    data = torch.zeros(16, 32)
    older = [data, *(parameter.data for layer in layers for parameter in layer.parameters())]
    with _LiveStorages(older) as counted:
        _perceptron_step(data, layers)
    for layer in layers:
        layer.zero_grad()

    with record_allocations() as recorded:
        mark("step")
        _perceptron_step(data, layers)
        mark("end")

    assert stretch(recorded, "step").live_peak == counted.peak


def _used_thrice() -> torch.Tensor:
    hidden = torch.zeros(KIB, KIB, requires_grad=True) * 1
    return (hidden * 2 + hidden * 3 + hidden * 4).sum()


def test_sees_gradients_accumulate_in_place() -> None:
    """Autograd adds the gradients of one tensor in place, but not under a dispatch mode: what
    really runs needs less.
    """
    one_gradient = KIB * KIB * 4
    watched, free = _used_thrice(), _used_thrice()
    with _LiveStorages([watched]) as counted:
        watched.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped

    with record_allocations() as recorded:
        mark("backward")
        free.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        mark("end")

    assert counted.peak // one_gradient == 3
    assert stretch(recorded, "backward").live_peak // one_gradient == 2
