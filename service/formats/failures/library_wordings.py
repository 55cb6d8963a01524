"""Wordings of CUDA's libraries and of frameworks beside PyTorch: the GPU's memory.

PyTorch: c10/cuda/CUDAException.cpp and CUDACachingAllocator.cpp, whose out-of-memory path asks
NVML. NCCL: src/include/alloc.h, src/include/checks.h. bitsandbytes: csrc/pythonInterface.cpp.
TensorRT-LLM: cpp/include/tensorrt_llm/common/cudaUtils.h. Paddle:
paddle/phi/core/memory/allocation/cuda_allocator.cc. bitsandbytes' refusal of weights on the host:
transformers/quantizers/quantizer_bnb_4bit.py. Gaudi: what PyTorch's bridge raised in milabench
(github.com/mila-iqia/milabench/issues/301). XLA: xla/pjrt and xla/stream_executor, of
JAX and TensorFlow, whose tensors on the host core/framework/op_kernel.cc words. Triton:
runtime/errors.py.
"""

from service.formats.failures.failure import FailedMemory, FailureQuantity, FailureSpeaker
from service.formats.failures.system_wordings import word_failure
from service.formats.failures.wording import COUNT, NUMBER

MARKS = (
    "to CUDA ",
    "Cuda failure",
    "_STATUS_",
    "CUDA error",
    "HIP error",
    "cudaErrorMemory",
    "OUT_OF_MEMORY",
    "Xid",
    "ESOURCE_EXHAUSTED",
    "esource exhausted",
    "Failed to allocate request",
    "OOM when allocating",
    "CUDA runtime error",
    "OutOfResources",
    "ut of memory",
    "CUDA driver error",
    "NVML_SUCCESS",
    "PT_DEVMEM",
    "Allocation on device",
    "Cannot allocate ",
    "Some modules are dispatched",
)
"""Of every wording a text that is in its line."""
WORDINGS = (
    word_failure(
        FailureSpeaker.TORCH,
        FailedMemory.GPU,
        "allocation",
        r"NVML_SUCCESS == r INTERNAL ASSERT FAILED",
    ),
    word_failure(
        FailureSpeaker.TORCH,
        FailedMemory.GPU,
        "allocation",
        r"Allocation on device ?+[0-9]{0,3}+ {0,3}+$",
    ),
    word_failure(
        FailureSpeaker.TORCH,
        FailedMemory.GPU,
        "dispatched",
        r"Some modules are dispatched on the CPU or the disk\. Make sure you have enough GPU RAM",
        subject="weights",
    ),
    word_failure(
        FailureSpeaker.TORCH,
        FailedMemory.GPU,
        "allocation",
        rf"MODULE:PT_DEVMEM Allocation failed for size::{COUNT} \([0-9]{{1,9}}+\)MB",
        (FailureQuantity.REQUESTED, "bytes"),
    ),
    word_failure(
        FailureSpeaker.PADDLE,
        FailedMemory.GPU,
        "allocation",
        rf"Cannot allocate {NUMBER}(B|KB|MB|GB) memory on GPU [0-9]{{1,3}}+, ",
        (FailureQuantity.REQUESTED, ""),
    ),
    word_failure(
        FailureSpeaker.NCCL,
        FailedMemory.GPU,
        "communicator",
        rf"Failed to CUDA (?:calloc|malloc|host alloc)(?: async)?+ {COUNT} bytes",
        (FailureQuantity.REQUESTED, "bytes"),
        subject="communication_buffers",
    ),
    word_failure(
        FailureSpeaker.NCCL,
        FailedMemory.GPU,
        "communicator",
        r"Cuda failure (?:[0-9]{1,3}+ )?+'out of memory'",
        subject="communication_buffers",
    ),
    word_failure(
        FailureSpeaker.CUDA,
        FailedMemory.GPU,
        "library",
        r"(?:CUBLAS|CUDNN|CUSOLVER|CUFFT|CUSPARSE|HIPBLAS|MIOPEN)_STATUS_ALLOC_FAILED",
        subject="library_workspaces",
    ),
    word_failure(
        FailureSpeaker.CUDA,
        FailedMemory.GPU,
        "library_handle",
        r"(?:CUBLAS|CUDNN)_STATUS_NOT_INITIALIZED",
        subject="library_workspaces",
    ),
    word_failure(
        FailureSpeaker.CUDA,
        FailedMemory.GPU,
        "outside_the_allocator",
        r"(?:CUDA|HIP)(?: driver)?+ error: out of memory|cudaErrorMemoryAllocation"
        r"|CUDA_ERROR_OUT_OF_MEMORY|Error out of memory at line [0-9]{1,5}+ in file",
        subject="device_context",
    ),
    word_failure(
        FailureSpeaker.TENSORRT_LLM,
        FailedMemory.GPU,
        "outside_the_allocator",
        r"CUDA runtime error in [^:]{0,60}+(?:::)?+[^:]{0,200}+: out of memory",
    ),
    word_failure(
        FailureSpeaker.XLA,
        FailedMemory.GPU,
        "xla_allocation",
        rf"ut of memory while trying to allocate {COUNT} bytes",
        (FailureQuantity.REQUESTED, "bytes"),
    ),
    word_failure(
        FailureSpeaker.XLA,
        FailedMemory.GPU,
        "xla_allocation",
        rf"ut of memory while trying to allocate {NUMBER} ?+(KiB|MiB|GiB|TiB)",
        (FailureQuantity.REQUESTED, ""),
    ),
    word_failure(
        FailureSpeaker.XLA,
        FailedMemory.GPU,
        "xla_allocation",
        rf"Failed to allocate request for [0-9.]{{1,12}}+[KMGT]?+i?+B \({COUNT}B\)",
        (FailureQuantity.REQUESTED, "bytes"),
    ),
    word_failure(
        FailureSpeaker.XLA,
        FailedMemory.HOST,
        "host_allocation",
        r"OOM when allocating tensor with shape[^ ]{0,200}+(?: (?!by )[^ ]{1,200}+){0,8}+"
        r" by allocator (?:mkl)?+cpu\b",
    ),
    word_failure(
        FailureSpeaker.XLA,
        FailedMemory.GPU,
        "xla_allocation",
        r"OOM when allocating tensor with shape",
    ),
    word_failure(
        FailureSpeaker.CUDA,
        FailedMemory.NONE,
        "kernel_resources",
        r"OutOfResources: out of resource: (?:shared memory|registers)",
    ),
    word_failure(
        FailureSpeaker.CUDA,
        FailedMemory.NONE,
        "other_error",
        r"(?:CUDA|HIP) error: (an illegal memory access was encountered|illegal memory access"
        r"|device-side assert triggered|misaligned address|unspecified launch failure"
        r"|invalid device ordinal|no kernel image is available|invalid argument"
        r"|uncorrectable ECC error|invalid configuration argument|the launch timed out"
        r"|initialization error|driver shutting down|operation not supported|device kernel image)",
    ),
    word_failure(
        FailureSpeaker.CUDA,
        FailedMemory.NONE,
        "other_error",
        r"Xid \([^()]{1,40}+\): (?:31|43|45|48|63|64|74|79|94|95)\b",
    ),
)
