"""Precision policies: number formats of each copy of a parameter.

16, 18 and 20 bytes per parameter differ only in where the fp32 gradient lives and whether it
persists, so a policy has a name and a value, never a bare number of bytes.
"""

from dataclasses import dataclass

from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Number formats of one training run.

    ``autocast``: weights stay in ``param_dtype`` and autocast keeps copies in ``compute_dtype``
    until backward is over; weights that are in it already are not copied. Without it, a
    ``compute_dtype`` other than ``param_dtype`` is a cast when sharded parameters are gathered.
    ``main_grad_dtype``: the gradient that the optimizer reads; made just before the step and freed
    at zero_grad, unless ``main_grad_persistent``; when it equals ``grad_dtype`` both are one
    buffer. ``master_dtype``: the optimizer's own copy of the weights, ``None`` when there is none.
    """

    name: str
    param_dtype: DType
    compute_dtype: DType
    grad_dtype: DType
    optimizer_dtype: DType
    autocast: bool = False
    master_dtype: DType | None = None
    main_grad_dtype: DType | None = None
    main_grad_persistent: bool = False
    reduce_dtype: DType | None = None

    def __post_init__(self) -> None:
        """Refuse a persistent main gradient that does not exist."""
        if self.main_grad_persistent and self.main_grad_dtype is None:
            message = "main_grad_persistent needs a main_grad_dtype"
            raise InvalidInputError(message, field="workload.precision.main_grad_persistent")

    @property
    def bytes_per_param(self) -> int:
        """Bytes per trained parameter between backward and the step.

        AdamW's two moments are included.
        """
        grads = self.grad_dtype.bytes_per_element + self.main_grad_bytes_per_param
        master = self.master_dtype.bytes_per_element if self.master_dtype else 0
        return (
            self.param_dtype.bytes_per_element
            + grads
            + master
            + 2 * self.optimizer_dtype.bytes_per_element
        )

    @property
    def main_grad_bytes_per_param(self) -> int:
        """Bytes per parameter of a separate main gradient buffer."""
        if self.main_grad_dtype is None or self.main_grad_dtype is self.grad_dtype:
            return 0
        return self.main_grad_dtype.bytes_per_element


def _make_pure(name: str, dtype: DType) -> Precision:
    return Precision(
        name=name, param_dtype=dtype, compute_dtype=dtype, grad_dtype=dtype, optimizer_dtype=dtype
    )


def _make_autocast(name: str, dtype: DType, *, weights: DType) -> Precision:
    return Precision(
        name=name,
        param_dtype=weights,
        compute_dtype=dtype,
        grad_dtype=weights,
        optimizer_dtype=weights,
        autocast=True,
    )


def _make_master(
    name: str, dtype: DType, *, main_grad: DType | None, persistent: bool
) -> Precision:
    return Precision(
        name=name,
        param_dtype=dtype,
        compute_dtype=dtype,
        grad_dtype=dtype,
        optimizer_dtype=DType.FP32,
        master_dtype=DType.FP32,
        main_grad_dtype=main_grad,
        main_grad_persistent=persistent,
    )


_MEGATRON = Precision(
    name="megatron_bf16",
    param_dtype=DType.BF16,
    compute_dtype=DType.BF16,
    grad_dtype=DType.FP32,
    optimizer_dtype=DType.FP32,
    master_dtype=DType.FP32,
    main_grad_dtype=DType.FP32,
    main_grad_persistent=True,
)

POLICIES: dict[str, Precision] = {
    policy.name: policy
    for policy in (
        _make_pure("fp32", DType.FP32),
        _make_pure("bf16", DType.BF16),
        _make_pure("fp16", DType.FP16),
        _make_autocast("amp_bf16", DType.BF16, weights=DType.FP32),
        _make_autocast("amp_fp16", DType.FP16, weights=DType.FP32),
        _make_autocast("bf16_autocast", DType.BF16, weights=DType.BF16),
        _make_autocast("fp16_autocast", DType.FP16, weights=DType.FP16),
        _make_master("bf16_mixed", DType.BF16, main_grad=None, persistent=False),
        _make_master("fp16_mixed", DType.FP16, main_grad=None, persistent=False),
        _MEGATRON,
        _make_master("deepspeed_bf16", DType.BF16, main_grad=DType.FP32, persistent=True),
    )
}
"""Named policies of the HTTP contract.

Bytes per parameter are 16, 8, 8, 16, 16, 8, 8, 16, 16, 18 and 20. ``bf16_autocast`` is what
transformers' Trainer makes of ``bf16=True`` over a model that was loaded in bf16.
"""
