"""A traced run against the same run with real tensors, whose allocator says what happened."""

from collections.abc import Callable

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from worker.probes.run.recorder import mark, record_allocations
from worker.probes.trace.ledger import compute_stretches
from worker.probes.trace.recorder import record_storages

SIZE = 64
Graph = Callable[[torch.Tensor], torch.Tensor]


def three_uses(x: torch.Tensor) -> torch.Tensor:
    """Return a sum of three functions: two gradients are added into the first one."""
    return x.sin() + x.cos() + x.exp()


def residual(x: torch.Tensor) -> torch.Tensor:
    """Return a sum whose gradient goes two ways at once, so that nobody may add into it."""
    return x + x.sin()


def deep_residual(x: torch.Tensor) -> torch.Tensor:
    """Return a residual whose gradient is its buffer's alone by the time the other one comes."""
    return (x + x.exp().sin()) * 2


def two_layers(x: torch.Tensor) -> torch.Tensor:
    """Return products whose gradients are views, which autograd does not add into."""
    first, second = (torch.ones(SIZE, SIZE) for _ in range(2))
    return x @ first + x @ second


def run(graph: Graph) -> None:
    """Run forward and backward under marks."""
    x = torch.ones(4, SIZE, SIZE, requires_grad=True)
    hidden = x * 2
    mark("forward")
    loss = graph(hidden).sum()
    mark("backward")
    loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    mark("end")


@pytest.mark.parametrize("graph", [three_uses, residual, deep_residual, two_layers])
def test_gradients_meet_in_a_trace_as_they_do_in_a_run(graph: Graph) -> None:
    """Live bytes of forward and backward are those of a real run, but for the scalars that kernels
    make for themselves.
    """
    with record_allocations() as recorded:
        run(graph)
    real = {stretch.name: stretch.live_peak for stretch in recorded.stretches()}
    with FakeTensorMode(), record_storages() as recorder:
        run(graph)
    ledger = recorder.ledger
    traced = {
        stretch.name: stretch.live_peak for stretch in compute_stretches(ledger, ledger.live())
    }

    assert traced == pytest.approx(real, abs=64)


def test_a_storage_that_is_resized_is_given_back_and_taken_anew() -> None:
    """Sharded parameters are freed by resizing their storage to nothing, which no operator
    shows.
    """
    with FakeTensorMode(), record_storages() as recorder:
        tensor = torch.empty(SIZE)
        tensor.untyped_storage().resize_(0)
        tensor.untyped_storage().resize_(2 * SIZE)

    assert recorder.ledger.live()[:5] == [4 * SIZE, 0, 0, 0, 2 * SIZE]


def test_counters_on_the_host_are_left_out() -> None:
    """Optimizers count their steps in tensors of the CPU, also after they were written into."""
    with FakeTensorMode(), record_storages() as recorder:
        step = torch.tensor(0.0)
        step += 1

    assert not recorder.ledger.allocations


def test_layer_norm_keeps_its_statistics_in_fp32() -> None:
    """CUDA's does under bf16; a CPU's keeps them in bf16."""
    with FakeTensorMode(), record_storages() as recorder:
        torch.native_layer_norm(
            torch.empty(8, SIZE, dtype=torch.bfloat16), (SIZE,), None, None, 1e-5
        )

    statistics = [birth for birth in recorder.ledger.allocations if birth.shape == (8, 1)]
    assert [birth.dtype for birth in statistics] == ["float32", "float32"]


VIEWS: dict[str, Graph] = {
    "detach": torch.Tensor.detach,
    "t": torch.Tensor.t,
    "view": lambda x: x.view(-1, 2, 3),
    "transpose": lambda x: x.transpose(0, 1),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "expand": lambda x: x[:, :1].expand(4, 5),
    "slice": lambda x: x[1:3],
    "select": lambda x: x[2],
    "permute": lambda x: x.permute(1, 0),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_the_one_that_fake_tensors_give(name: str) -> None:
    """It has the shape, strides and device of a fake mode alone, and the storage that it is of."""
    with FakeTensorMode():
        expected = VIEWS[name](torch.ones(4, 6, dtype=torch.bfloat16))
    with FakeTensorMode() as mode, record_storages() as recorder:
        x = torch.ones(4, 6, dtype=torch.bfloat16)
        view = VIEWS[name](x)

    assert isinstance(view, FakeTensor)
    assert view.fake_mode is mode
    assert describe(view) == describe(expected)
    assert recorder.find_place(view) == recorder.find_place(x)
    assert len(recorder.ledger.allocations) == 1


def describe(x: torch.Tensor) -> tuple[object, ...]:
    """Return what a tensor says of itself."""
    return x.shape, x.stride(), x.storage_offset(), x.dtype, x.device


def test_a_view_that_no_strides_have_is_refused() -> None:
    """A trace fails where the model's own code would."""
    with FakeTensorMode(), record_storages():
        columns = torch.ones(4, 6).t()

        with pytest.raises(RuntimeError, match="view size is not compatible"):
            columns.view(24)
