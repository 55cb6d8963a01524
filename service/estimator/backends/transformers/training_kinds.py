"""Kinds of training: of answers, and of contexts."""

from service.estimator.memory.overheads.cuda_context import FP32_TRAINING, SHARDED_TRAINING
from service.estimator.memory.static import StaticMemory
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Method


def get_answer_kind(static_memory: StaticMemory) -> str:
    """Return the kind of answer whose residuals make the intervals."""
    if static_memory.setup.workload.lora is not None:
        return "adapters"
    return "sharded" if static_memory.gathers else "training"


def get_context_kind(static_memory: StaticMemory) -> str | None:
    """Return the kind of run whose kernels and streams a job loads.

    None where that is the kind of its answer.
    """
    if static_memory.gathers:
        return SHARDED_TRAINING
    workload = static_memory.setup.workload
    precision = workload.precision
    dtypes = {precision.param_dtype, precision.compute_dtype, precision.grad_dtype}
    is_fp32 = workload.method is Method.FULL and dtypes == {DType.FP32}
    return FP32_TRAINING if is_fp32 and not precision.autocast else None
