from typing import Literal

ProbeDevice = Literal["cpu", "cuda", "trace"]

PROBE_DEVICE_VALUES: set[ProbeDevice] = {
    "cpu",
    "cuda",
    "trace",
}


def check_probe_device(value: str) -> ProbeDevice:
    if value in PROBE_DEVICE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {PROBE_DEVICE_VALUES!r}")
