"""What stands in for a worker that has told nothing of itself yet: what was measured elsewhere, or what a GPU's maker says.

Measured 2026-11 on two cores of a virtual machine with torch 2.13, by what every probe asks of its own host
(``worker.probes.trace.speed``, ``worker.probes.run.session.matrix_flops``); the median of three.
"""

from service.catalog.gpus import GpuEntry
from service.estimator.values.dtypes import DType
from service.jobs.host import Host
from service.probing.plan import NUM_ROUNDS

TRACED_OPERATORS_PER_SECOND = 17_400.0
CPU_FLOPS = {DType.FP32: 1.65e11, DType.BF16: 1.45e11, DType.FP16: 1.75e11}
CPU_SCRATCH_FACTOR = 1.25
"""Room for the scratch of CPU kernels over live tensors; llama-3.2-1b with two layers and 256 tokens took 1.07."""
CPU_STATE_BYTES_PER_SECOND = 3e9
"""What a CPU rewrites per second in an optimizer step: two busy cores took 7 s for 384 million parameters."""


def tracing_host() -> Host:
    """Return a host that traces."""
    return Host(operators_per_second=TRACED_OPERATORS_PER_SECOND)


def processor_host(dtype: DType) -> Host:
    """Return a host that computes; how much memory is free is not known, and bounds nothing."""
    return Host(
        flops_per_second=CPU_FLOPS.get(dtype, CPU_FLOPS[DType.FP32]),
        state_bytes_per_second=CPU_STATE_BYTES_PER_SECOND,
        scratch_factor=CPU_SCRATCH_FACTOR,
    )


def gpu_host(gpu: GpuEntry, dtype: DType) -> Host:
    """Return an idle GPU at the speed of its data sheet, which no run is faster than."""
    flops = gpu.peak_flops.get(dtype.value)
    return Host(
        available_bytes=gpu.usable_bytes,
        flops_per_second=None if flops is None else float(flops),
        state_bytes_per_second=float(gpu.bandwidth_bytes_per_second),
        reserves=True,
        num_steps=NUM_ROUNDS,
    )
