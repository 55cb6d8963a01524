from typing import Literal

Method = Literal["full", "lora", "peft", "qlora"]

METHOD_VALUES: set[Method] = {
    "full",
    "lora",
    "peft",
    "qlora",
}


def check_method(value: str) -> Method:
    if value in METHOD_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {METHOD_VALUES!r}")
