from typing import Literal

PlacementRequestStatus = Literal["placed"]

PLACEMENT_REQUEST_STATUS_VALUES: set[PlacementRequestStatus] = {
    "placed",
}


def check_placement_request_status(value: str) -> PlacementRequestStatus:
    if value in PLACEMENT_REQUEST_STATUS_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {PLACEMENT_REQUEST_STATUS_VALUES!r}")
