"""Device ``cpu``: real tensors on this processor, every allocation recorded."""

import torch

from service.estimator.values.dtypes import DType
from service.jobs.artifacts import NO_SNAPSHOT
from service.jobs.contract import FailureKind, ProbeDevice
from service.jobs.host import Host
from service.probing.plan import Point
from service.probing.reference import CPU_SCRATCH_FACTOR, CPU_STATE_BYTES_PER_SECOND
from service.probing.refusal import Refusal
from worker.probes.attention.mem_efficient_attention import use_mem_efficient_kernels
from worker.probes.cpu.matmul_rate import use_fp32_products
from worker.probes.run import host
from worker.probes.run.backend import OnStep, PointResult, ProbeSetup, SaveSnapshot
from worker.probes.run.session import measure_matrix_flops, run_point

_INTERPRETER_BYTES = 900 * 1024**2


class CpuBackend:
    """Runs points with real tensors on this machine's processor."""

    device = ProbeDevice.CPU

    def host(self, dtype: DType) -> Host:
        """Return this machine's free memory and matrix speed in ``dtype``."""
        with use_fp32_products():
            flops_per_second = measure_matrix_flops(dtype)
        return Host(
            available_bytes=max(0, host.read_available_bytes() - _INTERPRETER_BYTES),
            flops_per_second=flops_per_second,
            state_bytes_per_second=CPU_STATE_BYTES_PER_SECOND,
            scratch_factor=CPU_SCRATCH_FACTOR,
        )

    def run(
        self,
        setup: ProbeSetup,
        point: Point,
        *,
        on_step: OnStep,
        save_snapshot: SaveSnapshot | None = None,
    ) -> PointResult:
        """Build, run and measure one point.

        Nothing of it is left afterwards. Raises Refusal where a snapshot is to be saved.
        """
        if save_snapshot is not None:
            raise Refusal(FailureKind.UNSUPPORTED, NO_SNAPSHOT)
        with use_fp32_products(), use_mem_efficient_kernels():
            return run_point(setup, point, on_step=on_step)

    def environment(self) -> dict[str, str | int | None]:
        """Return the processor, its threads and its allocator."""
        return {
            "cpu": host.read_processor_name(),
            "threads": torch.get_num_threads(),
            "allocator": "torch DefaultCPUAllocator",
        }
