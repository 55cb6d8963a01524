"""Classes of replayed answers, by family and spare bytes.

The replay errs by whole segments: one more or one less, as a block is split or not. So what is
full errs less than what is not, and small jobs, of few segments, more than large ones.
"""

from service.estimator.values.units import GIB

WHOLE_KINDS = frozenset({"training", "adapters", "inference"})
"""Kinds of answers whose questions were traced or recorded whole, on one stream."""
TENSORS_CLASS = "tensors of a pass"
"""Of these the allocated bytes are counted alike, operation by operation."""
RECORDED_FAMILIES = frozenset(
    {
        "bert",
        "falcon",
        "gemma3",
        "gemma3_text",
        "gpt2",
        "gpt_neox",
        "llama",
        "mistral",
        "olmoe",
        "opt",
        "phi",
        "qwen2",
        "qwen3",
    }
)
"""Model types that ran on an H100 or H200, by which a replay of theirs is judged; of others it is
judged by traces, whose order is not quite a GPU's.
"""
RECORDED_OPTIMIZERS = frozenset(
    {"adafactor", "adamw", "adamw_fused", "adamw_loop", "sgd", "sgd_momentum"}
)
"""Optimizers that these runs had."""
_GROUPED_FAMILIES = frozenset({"olmoe"})
"""Those whose experts are grouped products, which other GPUs than Hopper have other kernels for."""
RECORDED_CLASS = "replayed, of recorded families"
SERVED_CLASS = "replayed, served by recorded families"
"""Generations of these on a recorded GPU, whose thousands of small tensors come and go otherwise
than a step's. Few were recorded: it holds what they have shown, and is at least as wide as that of
recorded steps.
"""
ELSEWHERE_CLASS = "replayed, of recorded families on other GPUs"
"""The client, the allocator and their order are the same there. What kernels take of the allocator
is known by the GPU's processors and compute capability (``allocator/kernel_buffers.py``), and where
that is off by a block, segments come or go as they did at most in the recorded runs, and in what is
published of other GPUs: so much stands beside what the recorded runs are off by at a level.
"""
VARIANT_CLASS = "replayed, of recorded families run otherwise"
"""An optimizer, kernels, a loss or quantised weights that no recorded run had, on a recorded GPU.
Order and allocator are those of the family's recorded runs; what else may differ has no run of its
own, or one. So its width is borrowed: from all recorded runs and all traced steps of these
families, whose settings were not recorded either, every model with the same weight.
"""
RANKS_CLASS = "replayed, ranks of recorded families"
"""One rank of several on a recorded GPU: five such were recorded. Fewer than set a width of their
own, so it holds what they and the traced ranks have shown, and is at least as wide as that of
families run otherwise.
"""
_SMALL_BYTES = 2 * GIB
SMALL_CLASS = "replayed, below 2 GiB"
_CLASSES = (
    (3, "replayed, at most 3 % spare"),
    (8, "replayed, at most 8 % spare"),
    (100, "replayed, more spare"),
)
"""The highest percentage of the reserved bytes that the peak leaves free, and its class."""


_RECORDED_GPUS = ("H100-SXM", "H200-SXM")
_SLICED = "-MIG-"
"""A slice has fewer processors, which decide buffers of kernels: none was recorded."""


def is_recorded_gpu(gpu: str) -> bool:
    """Return whether whole runs were recorded on a GPU of this name."""
    return gpu.startswith(_RECORDED_GPUS) and _SLICED not in gpu


def select_replay_class(
    family: str,
    allocated_bytes: int,
    reserved_bytes: int,
    *,
    elsewhere: bool = False,
    served: bool = False,
) -> str:
    """Return the class of a replayed answer about a model type.

    ``elsewhere`` is a GPU on which nothing was recorded; ``served`` is a generation.
    """
    if elsewhere and family in RECORDED_FAMILIES - _GROUPED_FAMILIES:
        return ELSEWHERE_CLASS
    if family in RECORDED_FAMILIES and not elsewhere:
        return SERVED_CLASS if served else RECORDED_CLASS
    if reserved_bytes < _SMALL_BYTES:
        return SMALL_CLASS
    percent = 100 * (reserved_bytes - allocated_bytes) / reserved_bytes
    return next(name for highest, name in _CLASSES if percent <= highest)
