"""What runs the points of a plan: one backend for each device that a probe can be asked for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol

from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Workload
from service.jobs.contract import AtPeak, FailureKind, ProbeDevice, Sample
from service.jobs.host import Host
from service.probing.plan import Point
from service.probing.refusal import Refusal
from worker.probes.attention.names import Kernel
from worker.probes.run.extrapolate import Reading

Tell = Callable[[str], None]
Keep = Callable[[object], None]
"""Takes a memory snapshot, in the form that PyTorch's own have; the next one takes its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What every point of a plan has in common; ``rank`` is the one of the layout that is run."""

    config: Mapping[str, object]
    workload: Workload
    kernel: Kernel
    layout: Layout = field(default_factory=Layout)
    rank: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One point that was run; what a device cannot tell is None.

    ``reserved`` has the allocator's bytes by stretch. ``device_bytes`` is what NVML shows of this process,
    ``device_total_used_bytes`` what it shows of the GPU less what was there before, ``context_bytes`` the part that is there
    before the first tensor. ``out_of_memory_at`` is what was held when memory ran out; the reading then ends there.
    """

    reading: Reading
    step_seconds: tuple[float, ...]
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
        """Which device this is."""

    def host(self, dtype: DType) -> Host:
        """Return what the device can bear when it computes in ``dtype``."""

    def run(self, subject: Subject, point: Point, *, tell: Tell, keep: Keep | None = None) -> Session:
        """Build, run and measure one point; nothing of it is left afterwards but what ``keep`` gets. Raises Refusal."""

    def environment(self) -> dict[str, str | int | None]:
        """Return what the numbers depend on."""


_BACKENDS = {
    ProbeDevice.CPU: ("worker.probes.cpu.backend", "CpuBackend"),
    ProbeDevice.TRACE: ("worker.probes.trace.backend", "TraceBackend"),
    ProbeDevice.CUDA: ("worker.probes.cuda.backend", "CudaBackend"),
}


def backend_for(device: ProbeDevice) -> Backend:
    """Return the backend of a device, loading what only it needs; raises Refusal where this version has none."""
    module, name = _BACKENDS[device]
    if not _exists(module):
        message = f"this version does not measure on device {device.value} yet; it measures on {_available()}"
        raise Refusal(FailureKind.NOT_AVAILABLE_YET, message)
    backend: Backend = getattr(import_module(module), name)()
    return backend


def _available() -> str:
    return ", ".join(device.value for device, (module, _) in _BACKENDS.items() if _exists(module))


def _exists(module: str) -> bool:
    package, _, _ = module.rpartition(".")
    return find_spec(package) is not None and find_spec(module) is not None
