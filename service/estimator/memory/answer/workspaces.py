"""Workspaces that PyTorch gives cuBLAS, which come out of the caching allocator.

They are no tensors: ``torch.cuda.max_memory_allocated`` counts them, a sum of tensors does not.
Each thread that multiplies has a handle, and each handle a workspace that is never freed
(``CublasHandlePool.cpp``, ``getChosenWorkspaceSize``).
"""

from service.estimator.memory.allocator.kernel_buffers import find_kernel_buffers
from service.estimator.memory.allocator.replay import ReplayResult
from service.estimator.memory.overheads.overheads import Overhead
from service.estimator.values.device import Device
from service.estimator.values.memo import keep_latest

_NUM_THREADS = {"inference": 1, "megatron": 0}
"""Megatron's own temporaries have the workspaces of PyTorch and of Transformer Engine."""
_TRAINING_THREADS = 2
"""Forward's and backward's."""
_SOURCE = (
    "PyTorch gives each thread's cuBLAS handle a workspace (CublasHandlePool.cpp); 32 MiB a thread "
    "read on H100 and H200"
)


def get_workspaces(
    device: Device | None, kind: str, replayed: ReplayResult | None = None
) -> Overhead:
    """Return the workspaces of a process.

    They are those of a replay, where there is one. None are known on a GPU that is only a number of
    bytes.
    """
    kernels = None if device is None else find_kernel_buffers(device)
    if replayed is not None:
        num_bytes = replayed.workspace_bytes
    elif kernels is None:
        num_bytes = 0
    else:
        num_bytes = kernels.cublas_bytes * _NUM_THREADS.get(kind, _TRAINING_THREADS)
    return _make_workspaces(num_bytes)


@keep_latest(256)
def _make_workspaces(num_bytes: int) -> Overhead:
    return Overhead(
        point=num_bytes,
        low=num_bytes,
        high=num_bytes,
        formula=f"{num_bytes:,} B of the threads that multiply",
        source=_SOURCE,
    )
