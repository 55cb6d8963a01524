from typing import Literal

ChangeKind = Literal["added", "changed", "removed"]

CHANGE_KIND_VALUES: set[ChangeKind] = {
    "added",
    "changed",
    "removed",
}


def check_change_kind(value: str) -> ChangeKind:
    if value in CHANGE_KIND_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {CHANGE_KIND_VALUES!r}")
