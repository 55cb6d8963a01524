"""Traffic and launches of an optimizer's step.

Each row counts, in the order of the library's own code, how often the step reads or writes a tensor
of the size of the weights, and how many kernels that takes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from types import MappingProxyType

TENSORS_PER_LAUNCH = 36
"""Tensors that one launch over four lists takes (ATen ``MultiTensorApply.cuh``,
``depth_to_max_tensors``).
"""
ELEMENTS_PER_LAUNCH = 320 * 65536
"""Blocks of a launch times elements of a chunk (the same)."""


class Form(Enum):
    """Ways to go over all tensors."""

    LISTS = auto()
    """operations on lists of tensors (``foreach``, ``fused``)"""
    LOOP = auto()
    """tensor after tensor"""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTraffic:
    """Reads and writes of one step, per element.

    ``temporaries`` are in the optimizer's dtype unless their bytes are given; ``kernels`` are
    operations of a list, or of each tensor in a loop; ``views`` is the Python around one tensor, in
    calls that launch nothing.
    """

    weights: float
    gradients: float
    states: float
    """Accesses of each state."""
    temporaries: float = 0
    temporary_bytes: int | None = None
    kernels: int
    form: Form = Form.LISTS
    views: int = 2

    def count_kernels(self, num_tensors: float, num_elements: float) -> float:
        """Return the kernels of a step over so many tensors."""
        if self.form is Form.LOOP:
            return self.kernels * num_tensors
        return self.kernels * (
            num_tensors / TENSORS_PER_LAUNCH + num_elements / ELEMENTS_PER_LAUNCH
        )


_ADAMW = UpdateTraffic(weights=4, gradients=2, states=4, temporaries=6, kernels=8)
"""``mul_(p)``, ``lerp_(m, g)``, ``mul_(v)``, ``addcmul_(v, g, g)``, ``sqrt(v)``, ``div_``,
``add_``, ``addcdiv_(p, m, ·)`` (torch/optim/adam.py ``_multi_tensor_adam``; the second read of the
gradient in ``addcmul_`` hits the cache).
"""
_BLOCKWISE = UpdateTraffic(weights=2, gradients=1, states=2, kernels=1, form=Form.LOOP, views=8)
"""One kernel for each tensor, called over ctypes (bitsandbytes ``optim/optimizer.py``)."""

_ROWS: Mapping[str, UpdateTraffic] = MappingProxyType(
    {
        "adamw": _ADAMW,
        "schedule_free_adamw": _ADAMW,
        "adamw_loop": replace(_ADAMW, form=Form.LOOP, views=8),
        "adamw_fused": UpdateTraffic(weights=2, gradients=1, states=2, kernels=1),
        "sgd": UpdateTraffic(weights=2, gradients=1, states=0, kernels=1, views=1),
        "sgd_momentum": UpdateTraffic(weights=2, gradients=1, states=5, kernels=3, views=1),
        "adagrad": UpdateTraffic(weights=2, gradients=2, states=3, temporaries=6, kernels=5),
        "rmsprop": UpdateTraffic(weights=2, gradients=2, states=5, temporaries=5, kernels=5),
        # fp32 casts of gradient and weight (2 accesses), the weight's norm (1), the square and its
        # sum with epsilon (4), two means (2), the outer product (1), the gradient's product (3),
        # the update's norm, quotient and rate (5), and the weight's difference and copy (6), with
        # eleven kernels over rows, columns and scalars (transformers 5.23 optimization.py,
        # ``Adafactor.step``; Trainer has no ``scale_parameter``, which would wait for the GPU).
        "adafactor": UpdateTraffic(
            weights=2,
            gradients=1,
            states=2,
            temporaries=24,
            temporary_bytes=4,
            kernels=27,
            form=Form.LOOP,
            views=4,
        ),
        **dict.fromkeys(
            (
                "adamw_8bit",
                "paged_adamw_8bit",
                "adamw_bnb",
                "paged_adamw",
                "lion",
                "lion_8bit",
                "paged_lion_8bit",
            ),
            _BLOCKWISE,
        ),
    }
)
_OTHER = UpdateTraffic(weights=3, gradients=3, states=3, kernels=8)
"""Optimizers whose step nobody counted: each tensor is read, written, and read again."""


def get_update_traffic(optimizer: str) -> UpdateTraffic:
    """Return the traffic of an optimizer's step."""
    return _ROWS.get(optimizer, _OTHER)
