"""Kernels that a model does not run, and their rows."""

from service.estimator.model.architecture import Architecture
from service.estimator.tape.pass_shape import ROWS
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Attention


def list_attention_warnings(model: Architecture, attention: Attention) -> tuple[str, ...]:
    """Return warnings about a kernel that a model does not run."""
    if attention is Attention.EAGER or not (model.writes_out_attention or model.only_eager):
        return ()
    return (
        (
            f"attention {attention.value} has no effect: {model.family} runs the attention that "
            "its own code writes out"
        ),
    )


def resolve_row_padding(
    model: Architecture, attention: Attention, dtype: DType, length: int, *, masked: bool
) -> int:
    """Return the positions that a sequence lacks to whole rows.

    The memory-efficient kernel pads rows of masks, and what it keeps of its own. Others read both
    as they are.
    """
    is_efficient = attention is Attention.EFFICIENT or (
        attention in {Attention.SDPA, Attention.FLASH}
        and (masked or model.always_masked or dtype is DType.FP32)
    )
    return -length % ROWS if is_efficient else 0
