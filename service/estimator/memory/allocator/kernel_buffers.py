"""Sizes of the buffers that kernels take of the allocator, by GPU."""

from dataclasses import dataclass, replace
from typing import Any, TypeVar

from service.estimator.memory.overheads.gpu_properties import find_gpu_properties
from service.estimator.passes.config import ServingPass, TrainingPass
from service.estimator.passes.losses import LossPass
from service.estimator.tape import sizes
from service.estimator.tape.kernel_buffers import BufferKind, KernelBuffer
from service.estimator.tape.sizes import Size
from service.estimator.values.device import Device
from service.estimator.values.memo import keep_latest
from service.estimator.values.units import GIB, MIB, ceil_div

P = TypeVar("P", TrainingPass, ServingPass)

CUBLASLT_BYTES = 1 * MIB
"""PyTorch 2.11, ``CUDABlas.cpp``, ``_parseChosenWorkspaceSize``: 1024 KiB unless
``CUBLASLT_WORKSPACE_SIZE`` says otherwise; read so on H100.
"""
_SMALL_CARD_BYTES = 49 * GIB // 2
"""unsloth_zoo 2026.10 ``fused_losses/fused_linear.py``, ``_SMALL_CARD_BYTES``."""
_MAX_THREADS = 512
_VECTOR = 4
_WARP = 32
_LEAST_VALUES, _MOST_VALUES = 16, 256
_SUM_BYTES = 4
_UNSORTED_INDICES, _INDICES_PER_SUM = 3072, 10
_THREADS_PER_PROCESSOR = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelBuffers:
    """Properties of a GPU that decide the buffers of its kernels."""

    cublas_bytes: int
    num_processors: int
    prefers_cudnn: bool
    """Whether SDPA takes cuDNN's attention before flash attention."""
    tiles_few_rows: bool = False
    """Whether Unsloth's loss goes by tiles whatever the number of rows."""

    def count_bytes(self, buffer: KernelBuffer, values: Size) -> int:
        """Return the bytes of a buffer for one batch and sequence."""
        if buffer.kind is BufferKind.CUBLAS:
            return self.cublas_bytes
        if buffer.kind is BufferKind.CUBLASLT:
            return CUBLASLT_BYTES
        outputs, rows = (sizes.evaluate(size, values) for size in (buffer.outputs, buffer.rows))
        if buffer.kind is BufferKind.EMBEDDING:
            return count_embedding_bytes(outputs, rows, buffer.table_rows)
        return count_reduction_bytes(outputs, rows, self.num_processors)


def find_kernel_buffers(device: Device) -> KernelBuffers | None:
    """Return the properties of an NVIDIA GPU that the table has."""
    if device.vendor != "nvidia":
        return None
    is_small = device.capacity_bytes <= _SMALL_CARD_BYTES
    return _find(device.name, device.compute_capability, device.num_processors, is_small)


def select_kernels(config: P, kernels: KernelBuffers | None) -> P:
    """Return a pass with the kernels of a known GPU."""
    if kernels is None:
        return config
    changes: dict[str, Any] = {"on_gpu": True, "cudnn": kernels.prefers_cudnn}
    loss: LossPass | None = getattr(config, "loss", None)
    if loss is not None and loss.rows is not None and kernels.tiles_few_rows:
        changes["loss"] = replace(loss, rows=replace(loss.rows, tiles=True))
    return replace(config, **changes)


@keep_latest(64)
def _find(
    gpu: str,
    compute_capability: str | None,
    num_processors: int | None,
    is_small: bool,  # noqa: FBT001 - part of a key
) -> KernelBuffers | None:
    properties = find_gpu_properties(gpu)
    if properties is None:
        return None
    return KernelBuffers(
        cublas_bytes=properties.workspace_bytes,
        num_processors=num_processors or properties.num_processors,
        # ``check_prefer_cudnn_attention`` of ``cuda/sdp_utils.cpp``: Hopper and Blackwell of data
        # centres.
        prefers_cudnn=compute_capability in {"9.0", "10.0"},
        tiles_few_rows=is_small and properties.supports_flash,
    )


def count_embedding_bytes(width: int, indices: int, table_rows: int) -> int:
    """Return the sums of an embedding's gradient.

    PyTorch 2.11, ``cuda/Embedding.cu`` and ``cuda/EmbeddingBackwardKernel.cu``: more than 3,072
    indices are sorted, and each stretch of ten equal ones has a sum in fp32.
    """
    if indices <= _UNSORTED_INDICES:
        return 0
    sums = indices // _INDICES_PER_SUM + min(indices, table_rows)
    return _SUM_BYTES * sums * ceil_div(width, _WARP) * _WARP


def count_reduction_bytes(outputs: int, rows: int, num_processors: int) -> int:
    """Return the bytes of a sum's partial sums.

    It adds up ``rows`` rows of ``outputs`` contiguous elements (PyTorch 2.11, ``cuda/Reduce.cuh``,
    ``setReduceConfig`` and ``global_memory_size``). Where a thread would add up 256 values and
    more, several thread blocks share the rows, and each of their threads has a place for every
    output.
    """
    vector = next(width for width in (_VECTOR, 2, 1) if outputs % width == 0)
    columns, threads = outputs // vector, _MAX_THREADS // vector
    width, height = _round_down(columns, threads), _round_down(rows, threads)
    block_width = min(width, _WARP)
    block_height = min(height, threads // block_width)
    block_width = min(width, threads // block_height)
    per_thread = rows
    if per_thread >= min(block_height * _LEAST_VALUES, _MOST_VALUES):
        per_thread = ceil_div(rows, block_height)
        grid = ceil_div(columns, block_width)
    else:
        return 0
    target = num_processors * (_THREADS_PER_PROCESSOR // (block_width * block_height))
    if per_thread < _MOST_VALUES or grid > target:
        return 0
    shared = max(
        min(ceil_div(target, grid), ceil_div(per_thread, _LEAST_VALUES)),
        ceil_div(per_thread, _MOST_VALUES),
    )
    return _SUM_BYTES * outputs * shared * block_width * vector if shared > 1 else 0


def _round_down(number: int, limit: int) -> int:
    """Return the largest power of two within both numbers."""
    return 1 << (min(number, limit).bit_length() - 1)
