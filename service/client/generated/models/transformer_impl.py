from typing import Literal

TransformerImpl = Literal["local", "transformer_engine"]

TRANSFORMER_IMPL_VALUES: set[TransformerImpl] = {
    "local",
    "transformer_engine",
}


def check_transformer_impl(value: str) -> TransformerImpl:
    if value in TRANSFORMER_IMPL_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {TRANSFORMER_IMPL_VALUES!r}")
