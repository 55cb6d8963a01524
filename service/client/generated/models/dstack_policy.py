from typing import Literal

DstackPolicy = Literal["on_fleet_apply", "on_gateway_apply", "on_run_apply", "on_volume_apply"]

DSTACK_POLICY_VALUES: set[DstackPolicy] = {
    "on_fleet_apply",
    "on_gateway_apply",
    "on_run_apply",
    "on_volume_apply",
}


def check_dstack_policy(value: str) -> DstackPolicy:
    if value in DSTACK_POLICY_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {DSTACK_POLICY_VALUES!r}")
