from typing import Literal

Basis = Literal["exact", "extrapolated", "formula", "measured"]

BASIS_VALUES: set[Basis] = {
    "exact",
    "extrapolated",
    "formula",
    "measured",
}


def check_basis(value: str) -> Basis:
    if value in BASIS_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {BASIS_VALUES!r}")
