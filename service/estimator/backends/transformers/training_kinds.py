"""Kinds of training: of answers, and of contexts."""

from service.estimator.memory.overheads.cuda_context import SHARDED_TRAINING, WITHOUT_CUDNN
from service.estimator.memory.static import StaticMemory
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Attention


def get_answer_kind(static_memory: StaticMemory) -> str:
    """Return the kind of answer whose residuals make the intervals."""
    if static_memory.setup.workload.lora is not None:
        return "adapters"
    return "sharded" if static_memory.gathers else "training"


def get_context_kind(static_memory: StaticMemory) -> str | None:
    """Return the kind of run whose libraries and streams a job loads.

    None where that is the kind of its answer. SDPA takes cuDNN's attention in 16 bits alone, unless
    a kernel is named.
    """
    if static_memory.gathers:
        return SHARDED_TRAINING
    workload = static_memory.setup.workload
    is_fp32 = workload.precision.compute_dtype is DType.FP32
    takes_cudnn = workload.attention is Attention.SDPA and not is_fp32
    return None if takes_cudnn else WITHOUT_CUDNN
