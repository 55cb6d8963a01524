"""Number formats and the bytes of one element."""

from enum import StrEnum

_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1}


class DType(StrEnum):
    """A dense number format; block formats with scales live in ``quantization``."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"

    def __init__(self, value: str) -> None:
        """Store the bytes of one element.

        Every answer reads them dozens of times.
        """
        self.bytes_per_element = _BYTES[value]


_BLOCK_BYTES = {"q8_0": 34, "q5_1": 24, "q5_0": 22, "q4_1": 20, "q4_0": 18, "iq4_nl": 18}
BLOCK_ELEMENTS = 32
"""Elements of a block of any of these formats (ggml, ``ggml-common.h``)."""


class CacheType(StrEnum):
    """Blocks that llama.cpp keeps keys and values in (``common/arg.cpp``, ``kv_cache_types``)."""

    Q8_0 = "q8_0"
    Q5_1 = "q5_1"
    Q5_0 = "q5_0"
    Q4_1 = "q4_1"
    Q4_0 = "q4_0"
    IQ4_NL = "iq4_nl"

    def __init__(self, value: str) -> None:
        """Store the bytes of a block."""
        self.block_bytes = _BLOCK_BYTES[value]
