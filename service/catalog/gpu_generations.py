"""Names of generations, which people say in place of a GPU.

NVIDIA's by compute capability (https://developer.nvidia.com/cuda-gpus and the CUDA C++ Programming
Guide, "Compute Capabilities"), AMD's by LLVM's target
(https://llvm.org/docs/AMDGPUUsage.html#processors).
"""

from collections.abc import Mapping, Sequence

from service.catalog.gpu_entries import GpuEntry

_TARGETS: Mapping[str, tuple[str, ...]] = {
    "pascal": ("6.0", "6.1"),
    "volta": ("7.0",),
    "turing": ("7.5",),
    "ampere": ("8.0", "8.6", "8.7"),
    "ada": ("8.9",),
    "ada lovelace": ("8.9",),
    "lovelace": ("8.9",),
    "hopper": ("9.0",),
    "blackwell": ("10.0", "10.3", "11.0", "12.0", "12.1"),
    "cdna2": ("gfx90a",),
    "cdna3": ("gfx942",),
    "cdna4": ("gfx950",),
}


def explain_generation(name: str, gpus: Sequence[GpuEntry]) -> str | None:
    """Return which GPUs a generation has.

    Those of servers come first; None for any other name.
    """
    word = " ".join(name.casefold().replace("-", " ").replace("_", " ").split())
    targets = _TARGETS.get(word.removeprefix("nvidia ").removeprefix("amd "))
    if targets is None:
        return None
    chosen = [gpu for gpu in gpus if {gpu.compute_capability, gpu.gfx_target} & set(targets)]
    servers = dict.fromkeys(gpu.family for gpu in chosen if gpu.form == "server")
    num_others = sum(gpu.form != "server" for gpu in chosen)
    remainder = f", or one of {num_others} for workstations, desktops, laptops and modules"
    return (
        f"{name!r} is a generation of GPUs: name one of {', '.join(servers)}"
        f"{remainder if num_others else ''}; `headroom gpus` and GET /v1/gpus list them."
    )
