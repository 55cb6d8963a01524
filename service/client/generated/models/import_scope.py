from typing import Literal

ImportScope = Literal["cluster", "named", "source"]

IMPORT_SCOPE_VALUES: set[ImportScope] = {
    "cluster",
    "named",
    "source",
}


def check_import_scope(value: str) -> ImportScope:
    if value in IMPORT_SCOPE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {IMPORT_SCOPE_VALUES!r}")
