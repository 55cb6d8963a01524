"""Remembered outputs on fake tensors, held against those of the fake mode."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from worker.probes.trace.fake_calls import REMEMBERED, call_fake

_aten = torch.ops.aten
Arguments = Callable[[torch.Tensor], tuple[object, ...]]


def _copy(x: torch.Tensor) -> tuple[object, ...]:
    return x, torch.empty_like(x)


CALLS: Mapping[str, tuple[Arguments, ...]] = {
    "_softmax.default": (lambda x: (x, -1, False),),
    "_softmax_backward_data.default": (lambda x: (x, x, -1, x.dtype),),
    "_to_copy.default": (lambda x: (x,),),
    "add.Tensor": (_copy, lambda x: (x, 2), lambda x: (x, 2.5), lambda x: (x, x[0].double())),
    "addmm.default": (lambda x: (x[0], x, x.new_empty(x.shape[1], x.shape[1])),),
    "bmm.default": (lambda x: (x[None], x.t()[None]),),
    "cat.default": (lambda x: ([x, x],), lambda x: ([x, x, x], 1), lambda x: ([x, x[:0]],)),
    "clone.default": (lambda x: (x,), lambda x: (x[1:, ::2],)),
    "cumsum.default": (lambda x: (x, 1), lambda x: (x.bool(), 1)),
    "div.Scalar": (lambda x: (x, 3), lambda x: (x.long(), 3)),
    "div.Tensor": (_copy, lambda x: (x, 2)),
    "embedding.default": (lambda x: (x, torch.zeros(3, 5, dtype=torch.long)),),
    "embedding_dense_backward.default": (
        lambda x: (x, torch.zeros(x.shape[0], dtype=torch.long), 9, -1, False),
    ),
    "exp.default": (lambda x: (x,), lambda x: (x.long(),)),
    "mean.dim": (lambda x: (x, [-1], True), lambda x: (x, [0])),
    "mm.default": (lambda x: (x, x.t()),),
    "mul.Scalar": (lambda x: (x, 2), lambda x: (x.long(), 2.5), lambda x: (x.bool(), True)),
    "mul.Tensor": (
        _copy,
        lambda x: (x, x[:1]),
        lambda x: (x, x.float()),
        lambda x: (x.long(), 2.0),
    ),
    "ne.Scalar": (lambda x: (x, 0),),
    "neg.default": (lambda x: (x,), lambda x: (x[:, 1:],)),
    "pow.Tensor_Scalar": (lambda x: (x, 2), lambda x: (x.long(), 0.5)),
    "relu.default": (lambda x: (x,),),
    "rsqrt.default": (lambda x: (x,), lambda x: (x.long(),)),
    "select_backward.default": (lambda x: (x, [4, *x.shape], 0, 1),),
    "sigmoid.default": (lambda x: (x,),),
    "silu.default": (lambda x: (x,),),
    "silu_backward.default": (_copy,),
    "slice_backward.default": (lambda x: (x, [9, x.shape[1]], 0, 1, 1 + x.shape[0], 1),),
    "sub.Tensor": (_copy, lambda x: (x, 1)),
    "sum.dim_IntList": (lambda x: (x, [0]), lambda x: (x, None), lambda x: (x.bool(), [1], True)),
    "threshold_backward.default": (lambda x: (x, x, 0),),
    "where.self": (lambda x: (x > 0, x, x.float()), lambda x: (x > 0, x, x[0])),
    "zeros_like.default": (lambda x: (x,), lambda x: (x[:, ::2],)),
}
"""Arguments of every remembered operator, made of a matrix."""
WORDS: Mapping[str, tuple[Mapping[str, object], ...]] = {
    "_to_copy.default": (
        {"dtype": torch.float32},
        {"dtype": torch.float32, "device": torch.device("cpu")},
        {"memory_format": torch.contiguous_format},
    ),
    "add.Tensor": ({"alpha": 2},),
    "clone.default": ({"memory_format": torch.contiguous_format},),
    "cumsum.default": ({"dtype": torch.float32},),
    "mean.dim": ({"dtype": torch.float32},),
    "sum.dim_IntList": ({"dtype": torch.float32},),
    "zeros_like.default": ({"dtype": torch.bool}, {"memory_format": torch.preserve_format}),
}
"""Keywords with which operators are called besides none."""
MATRICES: Mapping[str, Callable[[], torch.Tensor]] = {
    "bfloat16": lambda: torch.empty(4, 6, dtype=torch.bfloat16),
    "float32": lambda: torch.empty(4, 6),
    "transposed": lambda: torch.empty(6, 4).t(),
    "part": lambda: torch.empty(9, 8)[1:5, 2:8],
    "expanded": lambda: torch.empty(4, 1).expand(4, 6),
    "wide": lambda: torch.empty(5, 7, dtype=torch.bfloat16),
}


def describe(output: object) -> tuple[object, ...]:
    """Return all that a fake tensor says of itself."""
    assert isinstance(output, FakeTensor)
    storage = output.untyped_storage()
    return (
        tuple(output.shape),
        output.stride(),
        output.storage_offset(),
        output.dtype,
        output.fake_device,
        output.device,
        output.requires_grad,
        output.constant,
        storage.nbytes(),
    )


def iterate_calls(operator: str) -> Iterator[tuple[tuple[object, ...], Mapping[str, object]]]:
    """Yield arguments of an operator, in the fake mode that is on."""
    for make in MATRICES.values():
        for arguments in CALLS[operator]:
            for words in ({}, *WORDS.get(operator, ())):
                yield arguments(make()), words


def find(operator: str) -> Callable[..., Any]:
    """Return an operator by its name."""
    packet, _, overload = operator.partition(".")
    found: Callable[..., Any] = getattr(getattr(_aten, packet), overload)
    return found


def test_calls_of_every_remembered_operator_are_compared() -> None:
    """An operator that is added here is one that is compared."""
    assert {find(operator) for operator in CALLS} == REMEMBERED


@pytest.mark.parametrize("operator", CALLS)
def test_an_output_is_the_one_of_the_fake_mode(operator: str) -> None:
    """It is so at the first call, and when it is remembered, also in another mode."""
    func = find(operator)
    with FakeTensorMode():
        plain = [describe(func(*args, **words)) for args, words in iterate_calls(operator)]

    remembered = []
    for _ in range(2):
        with FakeTensorMode() as mode:
            outputs = [call_fake(func, *args, **words) for args, words in iterate_calls(operator)]
            remembered.append([describe(output) for output in outputs])
            assert all(isinstance(out, FakeTensor) and out.fake_mode is mode for out in outputs)

    assert remembered == [plain, plain]


def test_each_output_has_a_storage_of_its_own() -> None:
    """What is remembered is what a tensor is like, and no tensor."""
    with FakeTensorMode():
        x = torch.empty(3, 3)
        first, second = (call_fake(_aten.add.Tensor, x, 1) for _ in range(2))

    assert isinstance(first, torch.Tensor)
    assert isinstance(second, torch.Tensor)
    assert first.untyped_storage()._cdata != second.untyped_storage()._cdata  # noqa: SLF001 - its identity


def test_a_default_dtype_is_part_of_what_is_remembered() -> None:
    """A quotient of integers has it."""
    dtypes = []
    for dtype in (torch.float32, torch.bfloat16):
        with FakeTensorMode():
            numbers = torch.ones(3, dtype=torch.long)
            torch.set_default_dtype(dtype)
            try:
                quotient = call_fake(_aten.div.Scalar, numbers, 2)
            finally:
                torch.set_default_dtype(torch.float32)
        assert isinstance(quotient, torch.Tensor)
        dtypes.append(quotient.dtype)

    assert dtypes == [torch.float32, torch.bfloat16]


def test_known_values_stay_known() -> None:
    """A number that code wrote into a tensor is read, and computed with."""
    with FakeTensorMode():
        three = torch.tensor(3.0)
        five = call_fake(_aten.add.Tensor, three, 2)

        read = call_fake(_aten._local_scalar_dense.default, three)  # noqa: SLF001 - an operator's name

    assert read == 3.0
    assert isinstance(five, FakeTensor)
    assert five.constant is not None


def test_a_write_into_a_known_value_is_one_of_the_fake_mode() -> None:
    """Optimizers count their steps in lists of tensors of the CPU."""
    with FakeTensorMode():
        counter, weight = torch.tensor(3.0), torch.empty(2, 2)

        for tensors in ([counter], [weight]):
            call_fake(_aten._foreach_add_.Scalar, tensors, 1)

        assert counter.item() == 4.0
        assert tuple(weight.shape) == (2, 2)


def test_real_tensors_are_refused_as_the_fake_mode_refuses_them() -> None:
    """Nothing is remembered of what is no fake."""
    real = torch.ones(3)
    with FakeTensorMode():
        fake = torch.empty(3)

        with pytest.raises(Exception, match="convert all Tensors to FakeTensors"):
            call_fake(_aten.add.Tensor, fake, real)
