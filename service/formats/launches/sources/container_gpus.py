"""GPUs that a container is given, by who starts it.

Docker's ``--gpus`` (docker/cli 28, ``opts/gpus.go``), devices of a compose service (its
specification, ``deploy.md``) and the variable of NVIDIA's runtime.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from service.formats.launches.values.settings import Setting

_OPTION = "--gpus"
_DEVICE = "--device"
_VARIABLE = "NVIDIA_VISIBLE_DEVICES"
_CDI = "nvidia.com/gpu="
_ALL = frozenset({"all", "void", "-1"})
_KEYS = frozenset({"count", "device", "driver", "capabilities", "options"})
_MAX_GPUS = 65_536
_PARTS = re.compile(r"[,\"'\s]+")


def count_option(options: Sequence[str], where: str) -> Setting | None:
    """Return the GPUs that options of ``docker run`` give.

    None where they do not say: ``all`` are the machine's. Of the container device interface each is
    named.
    """
    values = list(_list_values(options, _OPTION))
    if values:
        return _make_setting(_OPTION, _count_text(values[-1]), where)
    named = [value for value in _list_values(options, _DEVICE) if value.startswith(_CDI)]
    devices = [value.removeprefix(_CDI) for value in named]
    number = None if not devices or _ALL.intersection(devices) else len(devices)
    return _make_setting(_DEVICE, number, where)


def count_variable(environment: Mapping[str, str], where: str) -> Setting | None:
    """Return the GPUs that the runtime's variable lists."""
    text = environment.get(_VARIABLE, "").strip()
    is_listed = text and text.casefold() not in _ALL | {"none"} and "$" not in text
    number = len([device for device in text.split(",") if device.strip()]) if is_listed else None
    return _make_setting(_VARIABLE, number, where)


def count_service(service: Mapping[str, object], where: str) -> Setting | None:
    """Return the GPUs of a compose service, if it says."""
    gpus = service.get("gpus")
    if isinstance(gpus, str):
        return _make_setting("gpus", _count_text(gpus), where)
    requests, key = gpus, "gpus"
    if not isinstance(requests, list):
        value: object = service
        for name in ("deploy", "resources", "reservations", "devices"):
            value = value.get(name) if isinstance(value, Mapping) else None
        requests, key = value, "reservations.devices"
    counts = [
        _count_request(request)
        for request in (requests if isinstance(requests, list) else ())
        if isinstance(request, Mapping) and (key == "gpus" or _is_gpu(request))
    ]
    numbers = [count for count in counts if count is not None]
    return _make_setting(key, sum(numbers) if len(numbers) == len(counts) else None, where)


def _is_gpu(request: Mapping[str, object]) -> bool:
    """Return whether a reserved device is a GPU."""
    capabilities = request.get("capabilities")
    return "gpu" in str(capabilities) or request.get("driver") in {"nvidia", "cdi"}


def _count_request(request: Mapping[str, object]) -> int | None:
    """Return the GPUs of one request, None for all of them."""
    devices = request.get("device_ids")
    if isinstance(devices, list) and devices:
        is_open = any("$" in str(device) or str(device).endswith("all") for device in devices)
        return None if is_open else len(devices)
    return _count_text(str(request.get("count", "all")))


def _count_text(text: str) -> int | None:
    """Return the GPUs of ``2`` or ``device=0,1``, else None."""
    parts = [part for part in _PARTS.split(text.strip()) if part]
    devices, takes_devices = 0, False
    for word in parts:
        key, equals, value = word.partition("=")
        if equals and key in _KEYS:
            takes_devices = key == "device"
            devices += takes_devices
            if key == "count":
                return _read_count(value)
        elif takes_devices:
            devices += 1
        else:
            return _read_count(word)
    return devices or None


def _read_count(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < len(str(_MAX_GPUS)) else None


def _make_setting(key: str, number: int | None, where: str) -> Setting | None:
    return Setting(key=key, value=number, where=where) if number else None


def _list_values(options: Sequence[str], name: str) -> Iterator[str]:
    """Yield the values of an option, also after ``=``."""
    for index, word in enumerate(options):
        if word == name:
            yield from options[index + 1 : index + 2]
        elif word.startswith(f"{name}="):
            yield word.partition("=")[2]
