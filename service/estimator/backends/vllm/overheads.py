"""What vLLM holds outside of PyTorch's tensors: libraries and communicators, CUDA graphs, the context. All measured."""

from service.estimator.backends.paged_pool.pool import Part, Place
from service.estimator.backends.paged_pool.rank_memory import Rank
from service.estimator.backends.vllm.release import Release
from service.estimator.memory.overheads.gpu_properties import Chip
from service.estimator.values.engine_versions import Version
from service.estimator.values.layout import Layout
from service.estimator.values.result import Basis
from service.estimator.values.units import GIB, MIB

_LOGS = "start-up logs of vLLM 0.19.0 on H100 80GB (jgchn/llm-d-planner, accuracy/results/v0.19.0)"
_OLD_LOGS = "start-up logs of vLLM 0.7 on GPUs of 12 to 44 GiB: 0.01 to 0.12 GiB"

_ONE_GPU = 250 * MIB
_ONE_GPU_BEFORE_TRIAL_GRAPHS = 130 * MIB
"""0.13 GiB in the logs of 0.15.0, 0.16.0 and 0.17.0, 0.25 since 0.18.0 captures a few graphs while it profiles."""
_TRIAL_GRAPHS = Version(0, 18)
_STAGES_ALONE = 70 * MIB
_BY_RANKS = {2: 2115 * MIB, 4: 2180 * MIB}
_MORE_RANKS = 2180 * MIB
"""One GPU 0.24 to 0.26 GiB (granite 0.46) in 30 logs, stages alone 0.07, two tensor-parallel ranks 2.06, four 2.13."""
_OLD_ONE_GPU = 80 * MIB
_OLD_COMMUNICATOR = 1830 * MIB
"""Two ranks against one on the same machine: 3.58 against 1.79 GiB (vLLM pull request 10511)."""
_JOINED = 1044 * MIB
"""78.68 GiB free at start of one H100, 77.66 of two and 77.64 of four tensor-parallel ranks, 77.76 of two stages."""
_OVER_PCIE = 250 * MIB
_OVER_PCIE_LOGS = "start-up logs of vLLM: two RTX 4090 0.25 GiB (number 13061), RTX 3090 0.20 GiB (pull request 14447)"
_WITHOUT_FABRIC = ("A10", "A10G", "A16", "A40", "L20", "L4", "L40", "L40S", "RTX", "T4")
"""Cards that reach each other over PCIe, or in pairs by a bridge: NCCL opens few channels, with a buffer for each."""

_GRAPHS_FIXED = 385 * MIB
_GRAPHS_PER_LAYER = 17 * MIB
"""67 sizes captured in pieces and whole: 0.51, 0.65 and 0.91 GiB for 8, 16 and 32 layers of Llama-3.1-8B."""
_OLD_GRAPHS = 190 * MIB
"""35 sizes captured whole: 0.17 to 0.20 GiB of Qwen2.5-1.5B."""


def non_torch(release: Release, chip: Chip, layout: Layout, gpu: str) -> Part:
    """Return what the driver holds beyond the context that existed before: kernels, libraries, communicators."""
    tensor = layout.tensor_parallel
    if tensor > 1 and gpu.partition("-")[0] in _WITHOUT_FABRIC:
        return _outside("communication_buffers", _OVER_PCIE, tensor, _OVER_PCIE_LOGS)
    if not release.compiles:
        point = _OLD_ONE_GPU + (_OLD_COMMUNICATOR if tensor > 1 else 0)
        return _outside("device_context" if tensor == 1 else "communication_buffers", point, tensor, _OLD_LOGS)
    if tensor == 1:
        return _outside("device_context", _alone(release, chip, layout), tensor, _LOGS)
    return _outside("communication_buffers", _BY_RANKS.get(tensor, _MORE_RANKS), tensor, _LOGS)


def _alone(release: Release, chip: Chip, layout: Layout) -> int:
    if layout.pipeline_parallel > 1:
        return _STAGES_ALONE
    if not chip.is_hopper_or_later:
        return _OLD_ONE_GPU
    return _ONE_GPU if release.version >= _TRIAL_GRAPHS else _ONE_GPU_BEFORE_TRIAL_GRAPHS


def graphs(release: Release, rank: Rank, layout: Layout, *, eager: bool) -> Part:
    """Return the CUDA graphs, which these releases capture after the pool has taken the budget: beside it."""
    point = _GRAPHS_FIXED + _GRAPHS_PER_LAYER * rank.num_layers if release.compiles else _OLD_GRAPHS
    if layout.tensor_parallel > 1 and release.compiles:
        point = point * 4 // 5
    if eager:
        point = 0
    return Part(
        name="cuda_graphs",
        bytes=point,
        low=point // 2,
        high=point * 3 // 2,
        place=Place.RESERVED,
        basis=Basis.MEASURED,
        formula=f"{rank.num_layers} layers captured for each batch size",
        source=_LOGS if release.compiles else _OLD_LOGS,
        budgeted=False,
    )


def joined_bytes(chip: Chip, layout: Layout, gpu: str) -> int:
    """Return what a rank's communicators hold once they are made, before any weight is loaded."""
    alone = layout.tensor_parallel * layout.pipeline_parallel == 1
    return 0 if alone or not chip.is_hopper_or_later or gpu.partition("-")[0] in _WITHOUT_FABRIC else _JOINED


def context(release: Release, chip: Chip, joined: int) -> Part:
    """Return the CUDA context: since 0.7 it exists before the engine looks at the GPU, and lies outside of its budget.

    So do communicators as they are ``joined``.
    """
    point = (520 * MIB if chip.is_hopper_or_later else 280 * MIB) + joined
    return Part(
        name="device_context",
        bytes=point,
        low=point // 2,
        high=800 * MIB + joined,
        place=Place.DEVICE,
        basis=Basis.MEASURED,
        formula="one context per process" + (", and communicators as they were made" if joined else ""),
        source="79.19 GiB total and 78.68 GiB free at start on H100 (vLLM 0.19.0); 0.35 GiB on RTX 3090 (0.6.4)",
        budgeted=release.counts_context,
    )


def _outside(name: str, point: int, tensor: int, source: str) -> Part:
    ranks = f"{tensor} ranks of one communicator" if tensor > 1 else "libraries and kernels of one process"
    return Part(
        name=name,
        bytes=point,
        low=point // 2,
        high=point + (GIB if tensor > 1 else 250 * MIB),
        place=Place.DEVICE,
        basis=Basis.MEASURED,
        formula=ranks,
        source=source,
    )
