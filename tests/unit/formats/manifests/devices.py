"""Devices as NVIDIA's DRA driver tells of them, and CEL over them as Kubernetes evaluates it.

Class expressions: ``deployments/helm/dra-driver-nvidia-gpu/templates/deviceclass-*.yaml`` of
kubernetes-sigs/dra-driver-nvidia-gpu.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import cel

from service.catalog.gpu_entries import GpuEntry
from service.catalog.gpus import list_gpus

_DRIVER = "gpu.nvidia.com"
_CLASS = "device.driver == '{driver}' && device.attributes['{driver}'].type == '{kind}'"


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeDevice:
    """A GPU or slice on a node; ``memory`` is None where the driver tells none."""

    entry: GpuEntry
    usable_bytes: int
    product: str
    memory: int | None
    profile: str | None = None


def describe_device(product: str, profile: str | None, memory: int | None) -> dict[str, Any]:
    """Return what CEL calls ``device``."""
    kind = {"type": "gpu"} if profile is None else {"type": "mig", "profile": profile}
    return {
        "driver": _DRIVER,
        "attributes": {_DRIVER: {"productName": product, **kind}},
        "capacity": {_DRIVER: {} if memory is None else {"memory": memory}},
    }


def list_devices() -> tuple[FakeDevice, ...]:
    """Return every NVIDIA GPU of the catalogue with its slices, one device each."""
    return tuple(_iter_devices())


def select(devices: tuple[FakeDevice, ...], request: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the devices that a request's class and selectors pick."""
    kind = str(request["deviceClassName"]).partition(".")[0]
    selectors = [selector["cel"]["expression"] for selector in request["selectors"]]
    programs = [
        _compile(expression)
        for expression in (_CLASS.format(driver=_DRIVER, kind=kind), *selectors)
    ]
    return frozenset(
        f"{device.entry.name} {device.profile or ''}".strip()
        for device in devices
        if all(_evaluate(program, device) for program in programs)
    )


def _iter_devices() -> Iterator[FakeDevice]:
    for entry in list_gpus():
        product = next(iter(entry.aliases.get("nvml", ())), None)
        if entry.vendor != "nvidia" or product is None:
            continue
        memory = None if entry.has_unified_memory else entry.capacity_bytes
        yield FakeDevice(
            entry=entry, usable_bytes=entry.usable_bytes, product=product, memory=memory
        )
        for profile in entry.mig_profiles:
            num_bytes = entry.slice_usable_bytes(profile)
            yield FakeDevice(
                entry=entry,
                usable_bytes=num_bytes,
                product=product,
                memory=num_bytes,
                profile=profile.name,
            )


_compile = cache(cel.compile)


def _evaluate(program: Any, device: FakeDevice) -> bool:  # noqa: ANN401 - no types
    return program.execute(_make_context(device.product, device.profile, device.memory)) is True


@cache
def _make_context(product: str, profile: str | None, memory: int | None) -> Any:  # noqa: ANN401 - no types
    """Return the variables and functions of expressions over a device."""
    context = cel.Context()
    context.add_function("quantity", int)
    context.add_function("compareTo", lambda left, right: (left > right) - (left < right))
    context.add_variable("device", describe_device(product, profile, memory))
    return context
