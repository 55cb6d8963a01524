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
