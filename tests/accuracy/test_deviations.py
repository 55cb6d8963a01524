"""The reasons that ``docs/accuracy.md`` gives for what it could not meet, shown on PyTorch itself."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from service.estimator.estimate import PlanCache
from service.estimator.modules.feedforward import ACTIVATIONS
from service.estimator.tape.elementwise import from_input
from tests.accuracy.found import traced
from tests.accuracy.scoring import score_training


class _Log(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Writes down which operations reach the backend."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.operations: list[str] = []

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        del types
        self.operations.append(str(func))
        return func(*args, **(kwargs or {}))


def test_a_device_runs_one_kernel_for_the_backward_of_silu() -> None:
    """On a real backend ``silu_backward`` is one operation, so that only its result is allocated."""
    x = torch.zeros(2, 3, requires_grad=True)
    y = torch.nn.functional.silu(x)
    grad = torch.ones_like(y)

    with _Log() as log:
        y.backward(grad)  # type: ignore[no-untyped-call]  # torch leaves it untyped

    assert [name for name in log.operations if "detach" not in name] == ["aten.silu_backward.default"]


def test_the_composite_backward_of_silu_makes_six_tensors() -> None:
    """Where no kernel is registered, ATen computes sigmoid, ``1 - s``, two products, a sum and the gradient one by one."""
    x = torch.zeros(2, 3, device="meta")

    with _Log() as log:
        torch.ops.aten.silu_backward.default.decompose(x, x)

    in_place = {"aten.fill_.Scalar", "aten.sub_.Tensor"}
    assert [name for name in log.operations if name not in in_place] == [
        "aten.sigmoid.default",
        "aten.empty_like.default",
        "aten.mul.Tensor",
        "aten.add.Scalar",
        "aten.mul.Tensor",
        "aten.mul.Tensor",
    ]


def test_counting_the_composite_is_an_upper_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the fused kernel no answer is higher, and none is lower by more than the documentation says."""
    composite = traced()
    monkeypatch.setitem(ACTIVATIONS, "silu", from_input)

    fused = score_training(PlanCache())

    for quantity, most in (("training, peak", 0.011), ("FSDP2 rank, peak", 0.052)):
        pairs = zip(composite.of(quantity), fused.of(quantity), strict=True)
        excess = [ours.predicted / theirs.predicted - 1 for ours, theirs in pairs]
        assert min(excess) == 0
        assert most - 0.002 < max(excess) <= most
