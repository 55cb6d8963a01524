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
RECORDED_CLASS = "replayed, of recorded families"
_SMALL_BYTES = 2 * GIB
SMALL_CLASS = "replayed, below 2 GiB"
_CLASSES = (
    (3, "replayed, at most 3 % spare"),
    (8, "replayed, at most 8 % spare"),
    (100, "replayed, more spare"),
)
"""The highest percentage of the reserved bytes that the peak leaves free, and its class."""


_RECORDED_GPUS = ("H100-SXM", "H200-SXM")


def is_judged_by_records(kind: str, gpu: str) -> bool:
    """Return whether recorded runs judge a kind of answer about a GPU.

    On other GPUs it is judged by what is published of them too, which leaves more open.
    """
    return kind in WHOLE_KINDS and gpu.startswith(_RECORDED_GPUS)


def select_replay_class(family: str, allocated_bytes: int, reserved_bytes: int) -> str:
    """Return the class of a replayed answer about a model type."""
    if family in RECORDED_FAMILIES:
        return RECORDED_CLASS
    if reserved_bytes < _SMALL_BYTES:
        return SMALL_CLASS
    percent = 100 * (reserved_bytes - allocated_bytes) / reserved_bytes
    return next(name for highest, name in _CLASSES if percent <= highest)
