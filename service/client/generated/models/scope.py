from typing import Literal

Scope = Literal["admin", "field", "measure", "plan", "read"]

SCOPE_VALUES: set[Scope] = {
    "admin",
    "field",
    "measure",
    "plan",
    "read",
}


def check_scope(value: str) -> Scope:
    if value in SCOPE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {SCOPE_VALUES!r}")
