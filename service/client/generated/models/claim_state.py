from typing import Literal

ClaimState = Literal["approved", "held", "pending", "withdrawn"]

CLAIM_STATE_VALUES: set[ClaimState] = {
    "approved",
    "held",
    "pending",
    "withdrawn",
}


def check_claim_state(value: str) -> ClaimState:
    if value in CLAIM_STATE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {CLAIM_STATE_VALUES!r}")
