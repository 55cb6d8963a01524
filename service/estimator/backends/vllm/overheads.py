"""Memory that vLLM holds outside of PyTorch's tensors, as measured.

Libraries and communicators, CUDA graphs, the context.
"""

from dataclasses import dataclass

from service.estimator.backends.paged_pool.memory_parts import MemoryLedger, MemoryPart
from service.estimator.backends.paged_pool.rank_memory import Rank
from service.estimator.backends.vllm.release import VllmRelease
from service.estimator.memory.overheads.gpu_properties import GpuProperties, get_gpu_properties
from service.estimator.values.device import UNKNOWN_VENDOR, Device
from service.estimator.values.engine_versions import Version
from service.estimator.values.layout import Layout
from service.estimator.values.result import Basis
from service.estimator.values.units import GIB, MIB

_LOGS = "start-up logs of vLLM 0.19.0 on H100 80GB (jgchn/llm-d-planner, accuracy/results/v0.19.0)"
_OLD_LOGS = "start-up logs of vLLM 0.7 on GPUs of 12 to 44 GiB: 0.01 to 0.12 GiB"

_ONE_GPU = 250 * MIB
_ONE_GPU_BEFORE_TRIAL_GRAPHS = 130 * MIB
"""0.13 GiB in the logs of 0.15.0, 0.16.0 and 0.17.0, 0.25 since 0.18.0 captures a few graphs while
it profiles.
"""
_TRIAL_GRAPHS = Version(0, 18)
_STAGES_ALONE = 70 * MIB
_BY_RANKS = {2: 2115 * MIB, 4: 2180 * MIB}
_MORE_RANKS = 2180 * MIB
"""One GPU 0.24 to 0.26 GiB (granite 0.46) in 30 logs, stages alone 0.07, two tensor-parallel ranks
2.06, four 2.13.
"""
_OLD_ONE_GPU = 80 * MIB
_OLD_COMMUNICATOR = 1830 * MIB
"""Two ranks against one on the same machine: 3.58 against 1.79 GiB (vLLM pull request 10511)."""
_COMMUNICATORS = 1044 * MIB
"""78.68 GiB free at start of one H100, 77.66 of two and 77.64 of four tensor-parallel ranks, 77.76
of two stages.
"""
_OVER_PCIE = 250 * MIB
_OVER_PCIE_LOGS = (
    "start-up logs of vLLM: two RTX 4090 0.25 GiB (number 13061), RTX 3090 0.20 GiB (pull request "
    "14447)"
)
_WITHOUT_FABRIC = frozenset(
    {
        *("A2", "A10", "A10G", "A16", "A40", "L2", "L20", "L4", "L40", "L40S"),
        *("P4", "P40", "Quadro", "RTX", "T4", "TITAN"),
    }
)
"""Cards that reach each other over PCIe, or in pairs by a bridge: NCCL opens few channels, with a
buffer for each.
"""
_SMALLEST_WITH_FABRIC = 36 * GIB
"""All cards of the catalogue below this but P100 and V100 have none: neither has one of which only
the memory is known.
"""

_MEASURED_SIZES = 51
_WHOLE_GRAPHS = 385 * MIB
_PIECES_OF_LAYER, _PIECES_OF_LAYER_BEFORE_HOPPER = 17 * MIB, 12 * MIB
"""All 51 sizes to 512, whole and in pieces: 0.51, 0.65 and 0.91 GiB for 8, 16 and 32 layers of
Llama-3.1-8B on H100; on L40S 15 sizes of 64 layers in pieces alone 0.22 GiB (vLLM 0.24.0).
"""
_LARGEST_CAPTURE, _LARGEST_BLACKWELL_CAPTURE = 512, 1024
_WIDER_CAPTURES = Version(0, 28)
_FLASHINFER_WORKSPACE = 394 * MIB
"""``VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE``'s default."""
_OLD_GRAPHS = 190 * MIB
"""35 sizes captured whole: 0.17 to 0.20 GiB of Qwen2.5-1.5B."""


_WHOLE_ALONE = frozenset({"whisper"})
"""Families of which no pieces are captured."""


def estimate_non_torch(
    release: VllmRelease, gpu: GpuProperties, layout: Layout, device: Device
) -> MemoryPart:
    """Return the driver's memory beyond the initial context.

    It is kernels, libraries and communicators.
    """
    num_ranks = layout.tensor_parallel
    if num_ranks > 1 and is_without_fabric(device):
        return _make_part("communication_buffers", _OVER_PCIE, num_ranks, _OVER_PCIE_LOGS)
    if not release.compiles:
        size = _OLD_ONE_GPU + (_OLD_COMMUNICATOR if num_ranks > 1 else 0)
        return _make_part(
            "device_context" if num_ranks == 1 else "communication_buffers",
            size,
            num_ranks,
            _OLD_LOGS,
        )
    if num_ranks == 1:
        return _make_part(
            "device_context", _get_single_rank_bytes(release, gpu, layout), num_ranks, _LOGS
        )
    return _make_part(
        "communication_buffers", _BY_RANKS.get(num_ranks, _MORE_RANKS), num_ranks, _LOGS
    )


def _get_single_rank_bytes(release: VllmRelease, gpu: GpuProperties, layout: Layout) -> int:
    if layout.pipeline_parallel > 1:
        return _STAGES_ALONE
    if not gpu.is_hopper_or_later:
        return _OLD_ONE_GPU
    return _ONE_GPU if release.version >= _TRIAL_GRAPHS else _ONE_GPU_BEFORE_TRIAL_GRAPHS


@dataclass(frozen=True, slots=True)
class CapturedSizes:
    """Number of batches that are captured, in pieces and whole."""

    pieces: int
    full: int


def count_captured_sizes(
    release: VllmRelease, max_num_sequences: int, device: Device
) -> CapturedSizes:
    """Return the number of batches that CUDA graphs are captured for.

    They are 1, 2, 4, multiples of 8 below 256 and of 16 from there, to twice the sequences or 512
    (1024 on data-centre Blackwells since 0.28); whole to as many tokens as there are sequences
    (``config/vllm.py``, ``_set_cudagraph_sizes``; ``v1/cudagraph_dispatcher.py``).
    """
    wide = release.version >= _WIDER_CAPTURES and device.is_blackwell
    most = min(2 * max_num_sequences, _LARGEST_BLACKWELL_CAPTURE if wide else _LARGEST_CAPTURE)
    sizes = [
        size for size in (1, 2, 4, *range(8, 256, 8), *range(256, most + 1, 16)) if size <= most
    ]
    return CapturedSizes(len(sizes), sum(size <= max_num_sequences for size in sizes))


def estimate_cuda_graphs(
    release: VllmRelease,
    rank: Rank,
    layout: Layout,
    device: Device,
    *,
    sequences: int | None,
    has_adapters: bool = False,
) -> MemoryPart:
    """Return the memory of the CUDA graphs.

    They are of batches to so many sequences, None is without. Until 0.19 they were captured
    after the pool had taken the budget: beside it. Of a model that pools, pieces alone are captured
    ("Pooling models do not support full cudagraphs", ``config/vllm.py``), of an encoder-decoder the
    whole of decode steps (``FULL_DECODE_ONLY``). With slots of adapters
    all are captured twice, with and without (``v1/cudagraph_dispatcher.py``, ``_get_lora_cases``).
    """
    size, formula = _OLD_GRAPHS, f"{rank.num_layers} layers captured for each batch size"
    if release.compiles and sequences is not None:
        sizes = count_captured_sizes(release, sequences, device)
        full = sizes.full if rank.model.generates else 0
        of_layer = (
            _PIECES_OF_LAYER
            if get_gpu_properties(device).is_hopper_or_later
            else _PIECES_OF_LAYER_BEFORE_HOPPER
        )
        num_pieces = 0 if rank.model.family in _WHOLE_ALONE else sizes.pieces
        pieces = of_layer * rank.num_layers * num_pieces
        size = (_WHOLE_GRAPHS * full + pieces) // _MEASURED_SIZES
        size = size * 4 // 5 if layout.tensor_parallel > 1 else size
        formula = (
            f"{rank.num_layers} layers captured in pieces for {num_pieces} batch sizes, whole "
            f"for {full}"
        )
    if has_adapters:
        size, formula = 2 * size, f"{formula}, with adapters and without"
    size = 0 if sequences is None else size
    return MemoryPart(
        name="cuda_graphs",
        bytes=size,
        low=size // 2,
        high=size * 3 // 2,
        ledger=MemoryLedger.RESERVED,
        basis=Basis.MEASURED,
        formula=formula,
        source=_LOGS if release.compiles else _OLD_LOGS,
        budgeted=release.budgets_graphs,
    )


def estimate_attention_workspace(release: VllmRelease, device: Device) -> MemoryPart:
    """Return the workspace of FlashInfer's kernels.

    They are the default of data-centre Blackwells, and get it when the pool is there already.
    """
    size = _FLASHINFER_WORKSPACE if release.compiles and device.is_blackwell else 0
    return MemoryPart(
        name="library_workspaces",
        bytes=size,
        low=size,
        high=size,
        ledger=MemoryLedger.RESERVED,
        basis=Basis.EXACT,
        formula="FlashInfer's workspace",
        source="vLLM 0.33.0, envs.py, VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE",
        budgeted=False,
    )


def is_without_fabric(device: Device) -> bool:
    """Return whether such cards reach each other over PCIe alone."""
    if device.vendor == UNKNOWN_VENDOR:
        return device.usable_bytes < _SMALLEST_WITH_FABRIC
    return device.name.partition("-")[0] in _WITHOUT_FABRIC


def communicator_bytes(gpu: GpuProperties, layout: Layout, device: Device) -> int:
    """Return the bytes of a rank's communicators as they are made.

    They are made before any weight is loaded.
    """
    single_rank = layout.tensor_parallel * layout.pipeline_parallel == 1
    return (
        0
        if single_rank or not gpu.is_hopper_or_later or is_without_fabric(device)
        else _COMMUNICATORS
    )


def estimate_context(
    release: VllmRelease, gpu: GpuProperties, communicator_size: int
) -> MemoryPart:
    """Return the memory of the CUDA context.

    Since 0.7 it exists before the engine looks at the GPU, and lies outside of its budget. So do
    communicators as they are made, of ``communicator_size`` bytes.
    """
    size = (520 * MIB if gpu.is_hopper_or_later else 280 * MIB) + communicator_size
    return MemoryPart(
        name="device_context",
        bytes=size,
        low=size // 2,
        high=800 * MIB + communicator_size,
        ledger=MemoryLedger.DEVICE,
        basis=Basis.MEASURED,
        formula="one context per process"
        + (", and communicators as they were made" if communicator_size else ""),
        source=(
            "79.19 GiB total and 78.68 GiB free at start on H100 (vLLM 0.19.0); 0.35 GiB on RTX "
            "3090 (0.6.4)"
        ),
        budgeted=release.counts_context,
    )


def _make_part(name: str, size: int, num_ranks: int, source: str) -> MemoryPart:
    ranks = (
        f"{num_ranks} ranks of one communicator"
        if num_ranks > 1
        else "libraries and kernels of one process"
    )
    return MemoryPart(
        name=name,
        bytes=size,
        low=size // 2,
        high=size + (GIB if num_ranks > 1 else 250 * MIB),
        ledger=MemoryLedger.DEVICE,
        basis=Basis.MEASURED,
        formula=ranks,
        source=source,
    )
