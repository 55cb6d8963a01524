"""Backends that run the points of a plan, one for each device."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol

from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Workload
from service.jobs.contract import FailureKind, ProbeDevice, Sample
from service.jobs.host import Host
from service.jobs.readings import AtPeak
from service.probing.plan import Point
from service.probing.refusal import Refusal
from worker.probes.attention.names import Kernel
from worker.probes.run.extrapolate import PointReading

OnStep = Callable[[str], None]
SaveSnapshot = Callable[[object], None]
"""Callback that saves a memory snapshot in PyTorch's own form; the next one replaces it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSetup:
    """Settings that all points of a plan share.

    ``rank`` is the rank of the layout that is run.
    """

    config: Mapping[str, object]
    workload: Workload
    kernel: Kernel
    layout: Layout = field(default_factory=Layout)
    rank: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PointResult:
    """Measurements of one point that was run.

    What a device cannot measure is None. ``reserved`` has the allocator's bytes by stretch.
    ``device_bytes`` is what NVML shows of this process, ``device_total_used_bytes`` what it shows
    of the GPU less what was there before, ``context_bytes`` the part that is there before the first
    tensor. ``out_of_memory_at`` is what was allocated when memory ran out; the reading then ends
    there.
    """

    reading: PointReading
    step_seconds: tuple[float, ...]
    prefill_seconds: tuple[float, ...] = ()
    resident_bytes: int | None = None
    reserved: Mapping[str, int] | None = None
    device_bytes: int | None = None
    device_total_used_bytes: int | None = None
    context_bytes: int | None = None
    out_of_memory_at: int | None = None
    samples: tuple[Sample, ...] = ()
    notes: tuple[str, ...] = ()
    at_peak: AtPeak | None = None
    transferable: bool = True
    """Whether nothing disturbed what was measured, such as other processes on the GPU."""


class Backend(Protocol):
    """Runs points on one device."""

    @property
    def device(self) -> ProbeDevice:
        """The device that points run on."""

    def host(self, dtype: DType) -> Host:
        """Return the device's memory and its speed in ``dtype``."""

    def run(
        self,
        setup: ProbeSetup,
        point: Point,
        *,
        on_step: OnStep,
        save_snapshot: SaveSnapshot | None = None,
    ) -> PointResult:
        """Build, run and measure one point.

        Nothing of it is left afterwards but what ``save_snapshot`` gets. Raises Refusal.
        """

    def environment(self) -> dict[str, str | int | None]:
        """Return the environment that the measurements depend on."""


_BACKENDS = {
    ProbeDevice.CPU: ("worker.probes.cpu.backend", "CpuBackend"),
    ProbeDevice.TRACE: ("worker.probes.trace.backend", "TraceBackend"),
    ProbeDevice.CUDA: ("worker.probes.cuda.backend", "CudaBackend"),
}


def load_backend(device: ProbeDevice) -> Backend:
    """Load the backend of a device and its dependencies.

    Raises Refusal where this version has none.
    """
    module, name = _BACKENDS[device]
    if not _has_module(module):
        message = (
            f"this version does not measure on device {device.value} yet; it measures on "
            f"{_list_available()}"
        )
        raise Refusal(FailureKind.NOT_AVAILABLE_YET, message)
    backend: Backend = getattr(import_module(module), name)()
    return backend


def _list_available() -> str:
    return ", ".join(
        device.value for device, (module, _) in _BACKENDS.items() if _has_module(module)
    )


def _has_module(module: str) -> bool:
    package, _, _ = module.rpartition(".")
    return find_spec(package) is not None and find_spec(module) is not None
