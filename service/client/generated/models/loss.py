from typing import Literal

Loss = Literal[
    "chunked",
    "chunked_nll",
    "dft",
    "flash_cross_entropy",
    "full_logits",
    "fused_cross_entropy",
    "fused_linear",
    "nll",
    "selective",
]

LOSS_VALUES: set[Loss] = {
    "chunked",
    "chunked_nll",
    "dft",
    "flash_cross_entropy",
    "full_logits",
    "fused_cross_entropy",
    "fused_linear",
    "nll",
    "selective",
}


def check_loss(value: str) -> Loss:
    if value in LOSS_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {LOSS_VALUES!r}")
