"""Turns what was run into the result that the service stores."""

import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from statistics import median, quantiles

import torch

from service.jobs.contract import InstantReading, Peaks, ProbeReading, ProbeResult, StepTime
from worker.probes import host
from worker.probes.extrapolate import Answer, instants_of
from worker.probes.kernels import Kernel
from worker.probes.plan import Plan
from worker.probes.session import Session

LOAD = "load"
_P95 = 18
"""Position of the 95th percentile among twentieths."""

_KERNEL_NOTES = {
    Kernel.FLASH: "attention ran the CPU's flash kernel, which keeps what CUDA's keeps: query, key, value, output, log-sum-exp",
    Kernel.EFFICIENT: "CUDA's memory-efficient attention has no CPU kernel; the flash kernel that ran keeps the same tensors",
}


def report(plan: Plan, sessions: tuple[Session, ...], answer: Answer, difference: str | None, *, kernel: Kernel) -> ProbeResult:
    """Return the result: peaks and instants of the asked model, and under ``probes`` what was really run.

    ``difference`` says what ran otherwise than on CUDA and could not be held to its choice.
    """
    own = None if plan.extrapolated else next(session for session in sessions if session.reading.point == plan.asked)
    kernel_note = (_KERNEL_NOTES[kernel],) if kernel in _KERNEL_NOTES else ()
    return ProbeResult(
        environment=environment(),
        peaks=Peaks(
            allocated_bytes=max(num_bytes for name, num_bytes in answer.instants.items() if name != LOAD),
            process_rss_bytes=None if own is None else own.resident_bytes,
        ),
        instants=_instants(answer.instants, {} if own is None else own.reading.allocator),
        probes=tuple(_probe(session) for session in sessions),
        extrapolated=plan.extrapolated,
        steady_bytes=answer.steady_bytes,
        step_time_s=None if own is None else _step_time(own.step_seconds),
        transferable=difference is None,
        notes=(*plan.notes, *kernel_note, *(() if difference is None else (difference,))),
    )


def environment() -> dict[str, str | int | None]:
    """Return what the numbers depend on."""
    return {
        "torch": str(torch.__version__),
        "transformers": version("transformers"),
        "peft": version("peft"),
        "python": platform.python_version(),
        "cpu": host.processor(),
        "threads": torch.get_num_threads(),
        "allocator": "torch DefaultCPUAllocator",
    }


def _probe(session: Session) -> ProbeReading:
    reading, point = session.reading, session.reading.point
    instants = {LOAD: reading.load_bytes} | instants_of(reading.live)
    return ProbeReading(
        num_layers=point.num_layers,
        micro_batch_size=point.micro_batch_size,
        sequence_length=point.sequence_length + point.output_tokens,
        output_tokens=point.output_tokens,
        instants=_instants(instants, reading.allocator),
        steady_bytes=reading.steady_bytes,
        process_rss_bytes=session.resident_bytes,
        step_time_s=_step_time(session.step_seconds),
    )


def _instants(live: Mapping[str, int], allocator_stretches: Mapping[str, int]) -> tuple[InstantReading, ...]:
    allocator = instants_of(allocator_stretches)
    return tuple(
        InstantReading(name=name, allocated_bytes=num_bytes, allocator_bytes=allocator.get(name))
        for name, num_bytes in live.items()
    )


def _step_time(seconds: Iterable[float]) -> StepTime | None:
    ordered = sorted(seconds)
    if not ordered:
        return None
    high = quantiles(ordered, n=20, method="inclusive")[_P95] if len(ordered) > 1 else ordered[0]
    return StepTime(median=round(median(ordered), 6), p95=round(high, 6))
