from typing import Literal

CrossEntropyFusion = Literal["native", "te"]

CROSS_ENTROPY_FUSION_VALUES: set[CrossEntropyFusion] = {
    "native",
    "te",
}


def check_cross_entropy_fusion(value: str) -> CrossEntropyFusion:
    if value in CROSS_ENTROPY_FUSION_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {CROSS_ENTROPY_FUSION_VALUES!r}")
