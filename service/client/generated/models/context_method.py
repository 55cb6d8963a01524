from typing import Literal

ContextMethod = Literal["ring", "ulysses"]

CONTEXT_METHOD_VALUES: set[ContextMethod] = {
    "ring",
    "ulysses",
}


def check_context_method(value: str) -> ContextMethod:
    if value in CONTEXT_METHOD_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {CONTEXT_METHOD_VALUES!r}")
