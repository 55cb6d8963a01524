"""The reasons that ``docs/accuracy.md`` gives for what it could not meet, shown on PyTorch
itself.
"""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.model.modules.mlp.activations import ACTIVATIONS
from service.estimator.tape.ops.elementwise import activate_saving_input
from service.estimator.values.device import Device
from service.estimator.values.errors import EstimatorError
from service.estimator.values.units import GIB
from tests.accuracy.cases import StepCase, architecture_of, rank_cases, training_cases
from tests.accuracy.contract import NotInContractError, Question, question_of_rank, question_of_step

DEVICE = Device(name="any", capacity_bytes=1024 * GIB, usable_bytes=1024 * GIB)


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
    """On a real backend ``silu_backward`` is one operation, so that only its result is
    allocated.
    """
    x = torch.zeros(2, 3, requires_grad=True)
    y = torch.nn.functional.silu(x)
    grad = torch.ones_like(y)

    with _Log() as log:
        y.backward(grad)  # type: ignore[no-untyped-call]  # torch leaves it untyped

    assert [name for name in log.operations if "detach" not in name] == [
        "aten.silu_backward.default"
    ]


def test_the_composite_backward_of_silu_makes_six_tensors() -> None:
    """Where no kernel is registered, ATen computes sigmoid, ``1 - s``, two products, a sum and the
    gradient one by one.
    """
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
    """With the fused kernel no answer is higher, and none is lower by more than the documentation
    says.
    """
    composite = _peaks()
    monkeypatch.setitem(ACTIVATIONS, "silu", activate_saving_input)

    fused = _peaks()

    for ours, theirs, most in zip(composite, fused, (0.011, 0.052), strict=True):
        excess = [high / low - 1 for high, low in zip(ours, theirs, strict=True)]
        assert min(excess) == 0
        assert most - 0.002 < max(excess) <= most


def _peaks() -> tuple[list[int], list[int]]:
    """Return the peak of every training step that has an answer, and of every rank; without
    replays, which count no tensors.
    """
    plans = PlanCache()
    steps = [_peak(case, question_of_step, plans) for case in training_cases()]
    ranks = [_peak(case, question_of_rank, plans) for case in rank_cases()]
    return [each for each in steps if each is not None], [
        each for each in ranks if each is not None
    ]


def _peak(
    case: StepCase, question_of: Callable[[StepCase], Question], plans: PlanCache
) -> int | None:
    try:
        model, question = architecture_of(case), question_of(case)
        return estimate(
            model, question.workload, layout=question.layout, device=DEVICE, plans=plans
        ).allocated_bytes
    except (EstimatorError, NotInContractError):
        return None
