from typing import Literal

Attention = Literal["eager", "efficient", "flash", "math", "sdpa"]

ATTENTION_VALUES: set[Attention] = {
    "eager",
    "efficient",
    "flash",
    "math",
    "sdpa",
}


def check_attention(value: str) -> Attention:
    if value in ATTENTION_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {ATTENTION_VALUES!r}")
