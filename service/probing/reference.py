"""Default hosts for workers that have not reported their own.

Their speeds were measured elsewhere, or are those of a GPU's data sheet.

Measured 2026-11 on two cores of a virtual machine with torch 2.13, by what every probe asks of its
own host (``worker.probes.trace.speed``, ``worker.probes.run.session.measure_matrix_flops``); the
median of three.
"""

from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.jobs.host import Host
from service.probing.plan import NUM_ROUNDS

TRACED_OPERATORS_PER_SECOND = 17_400.0
CPU_FLOPS = {DType.FP32: 1.65e11, DType.BF16: 1.45e11, DType.FP16: 1.75e11}
CPU_SCRATCH_FACTOR = 1.25
"""Allowance for the scratch of CPU kernels over live tensors.

llama-3.2-1b with two layers and 256 tokens took 1.07.
"""
CPU_STATE_BYTES_PER_SECOND = 3e9
"""Bytes per second that a CPU rewrites in an optimizer step.

Two busy cores took 7 s for 384 million parameters.
"""


def make_tracing_host() -> Host:
    """Return a host that traces."""
    return Host(operators_per_second=TRACED_OPERATORS_PER_SECOND)


def make_cpu_host(dtype: DType) -> Host:
    """Return a host that computes, with unknown free memory.

    Unknown memory bounds nothing.
    """
    return Host(
        flops_per_second=CPU_FLOPS.get(dtype, CPU_FLOPS[DType.FP32]),
        state_bytes_per_second=CPU_STATE_BYTES_PER_SECOND,
        scratch_factor=CPU_SCRATCH_FACTOR,
    )


def make_gpu_host(gpu: Device, dtype: DType) -> Host:
    """Return an idle GPU at the peak speed of its data sheet."""
    flops = gpu.peak_flops.get(dtype.value)
    return Host(
        available_bytes=gpu.usable_bytes,
        flops_per_second=None if flops is None else float(flops),
        state_bytes_per_second=None
        if gpu.bandwidth_bytes_per_second is None
        else float(gpu.bandwidth_bytes_per_second),
        reserves=True,
        num_steps=NUM_ROUNDS,
    )
