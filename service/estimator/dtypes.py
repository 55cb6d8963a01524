"""Number formats and the bytes of one element."""

from enum import StrEnum


class DType(StrEnum):
    """A dense number format; block formats with scales live in ``quantization``."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"

    @property
    def bytes_per_element(self) -> int:
        """Bytes that one element occupies."""
        return _BYTES[self]


_BYTES = {DType.FP32: 4, DType.BF16: 2, DType.FP16: 2, DType.FP8: 1}
