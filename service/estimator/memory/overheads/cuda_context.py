"""Measured CUDA context sizes, by GPU.

They include what libraries and kernels add while a process runs. A context grows with the
multiprocessors of a chip and with the CUDA release; since CUDA 11.7 kernels are loaded when they
are first used (pytorch/pytorch pull request 86509: 274 MiB instead of 636 with a tensor of 20 MiB).
A chip without a reading gets the middle of those that have one, and an interval that holds nearly
all of them. Where whole runs of transformers were read, what they need beside the allocator is one
number for all models of a task: the same kernels and libraries are loaded.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from service.estimator.values.units import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaContext:
    """Bytes of a CUDA context with its loaded libraries.

    ``point`` is the middle of the readings, ``low`` and ``high`` are the ends of what is plausible.
    """

    point: int
    low: int
    high: int
    formula: str
    source: str


_KERNELS = (
    "kernels and libraries that a run loads: 0.24 to 0.46 GiB in 40 logs of vLLM 0.18 and 0.19 on "
    "H100"
)
_T4 = "T4: 133 to 147 MiB when empty (fitcheck), 0.01 GiB more in a run (vLLM 0.7 log)"
_ADA = (
    "RTX 6000 Ada: 426 MiB when empty (torch 2.10, CUDA 13.0; unslothai/unsloth-zoo pull request "
    "1053)"
)
_HOPPER = "H100: 79.19 GiB in all, 78.66 to 78.68 free with a context (vLLM 0.19 logs)"
_DEFAULT_SOURCE = "no reading of this GPU: between 133 MiB (T4) and 528 MiB (H100) when empty"
DEFAULT_CONTEXT = CudaContext(
    point=512 * MIB,
    low=256 * MIB,
    high=1000 * MIB,
    formula="512 MiB per process",
    source=f"{_DEFAULT_SOURCE}; {_KERNELS}",
)
_CONTEXTS: Mapping[str, CudaContext] = MappingProxyType(
    {
        "T4": CudaContext(
            point=150 * MIB,
            low=133 * MIB,
            high=400 * MIB,
            formula="140 MiB context + 10 MiB libraries and kernels",
            source=f"{_T4}; {_KERNELS}",
        ),
        **dict.fromkeys(
            ("L4", "L40S", "RTX-4090"),
            CudaContext(
                point=682 * MIB,
                low=426 * MIB,
                high=1000 * MIB,
                formula="426 MiB context + 256 MiB libraries and kernels",
                source=f"{_ADA}; {_KERNELS}",
            ),
        ),
        **dict.fromkeys(
            ("H100", "H200", "H20"),
            CudaContext(
                point=784 * MIB,
                low=528 * MIB,
                high=1012 * MIB,
                formula="528 MiB context + 256 MiB libraries and kernels",
                source=f"{_HOPPER}; {_KERNELS}",
            ),
        ),
    },
)
"""By the family of a GPU, the part of its name before the form of its board; Ada and Hopper have
one reading each.
"""


_READINGS = (
    "NVML less torch's reserved bytes, one process on H100 80GB HBM3 and H200 (driver 580.159, "
    "CUDA 13.0, torch 2.11, transformers 5.23)"
)
_HOPPER_TRAINING = CudaContext(
    point=758 * MIB,
    low=726 * MIB,
    high=790 * MIB,
    formula="518 MiB context + 240 MiB libraries and kernels of training",
    source=f"{_READINGS}: 758 MiB in 92 runs whose attention may be cuDNN's",
)
_HOPPER_WITHOUT_CUDNN = CudaContext(
    point=742 * MIB,
    low=710 * MIB,
    high=774 * MIB,
    formula="518 MiB context + 224 MiB libraries and kernels of training without cuDNN",
    source=f"{_READINGS}: 742 MiB in 9 runs in fp32 or with a named kernel of attention",
)
_HOPPER_SHARDED = CudaContext(
    point=828 * MIB,
    low=796 * MIB,
    high=860 * MIB,
    formula="518 MiB context + 310 MiB libraries, kernels and streams of sharded training",
    source=f"{_READINGS}: 828 MiB in 4 runs of FSDP2 ranks of two models",
)
_HOPPER_SERVING = CudaContext(
    point=686 * MIB,
    low=678 * MIB,
    high=692 * MIB,
    formula="518 MiB context + 168 MiB libraries and kernels of serving",
    source=f"{_READINGS}: 686 MiB in 21 plain loops, 678 to 692 in 4 runs of generate()",
)
WITHOUT_CUDNN, SHARDED_TRAINING = "training without cuDNN", "sharded"
_RUNS: Mapping[tuple[str, str], CudaContext] = MappingProxyType(
    {
        (gpu, kind): _HOPPER_TRAINING
        for gpu in ("H100-SXM5-80GB", "H200-SXM5-141GB")
        for kind in ("training", "adapters")
    }
    | {
        (gpu, kind): context
        for gpu in ("H100-SXM5-80GB", "H200-SXM5-141GB")
        for kind, context in (
            (WITHOUT_CUDNN, _HOPPER_WITHOUT_CUDNN),
            (SHARDED_TRAINING, _HOPPER_SHARDED),
            ("inference", _HOPPER_SERVING),
        )
    }
)
"""By the GPU and the kind of run, which is the kind of answer but for those named here."""


def find_context(gpu: str, kind: str = "") -> CudaContext:
    """Return the context on a GPU of this name.

    ``kind`` is the kind of run, where whole ones of it were read.
    """
    run = _RUNS.get((gpu, kind))
    if run is not None:
        return run
    names = (gpu, gpu.partition("-")[0])
    return next((_CONTEXTS[name] for name in names if name in _CONTEXTS), DEFAULT_CONTEXT)
