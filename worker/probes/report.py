"""Turns what was run into the result that the service stores."""

import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from statistics import median, quantiles

import torch

from service.jobs.contract import InstantReading, Peaks, ProbeDevice, ProbeReading, ProbeResult, StepTime
from service.jobs.ranks import shares_work
from worker.probes.answer import is_linear
from worker.probes.backend import Backend, Session, Subject
from worker.probes.extrapolate import Answer, instants_of
from worker.probes.kernels import Kernel
from worker.probes.plan import Plan
from worker.probes.ranks.parallelize import rank_notes

LOAD = "load"
_P95 = 18
"""Position of the 95th percentile among twentieths."""

_KERNEL_NOTES = {
    Kernel.FLASH: "attention ran the CPU's flash kernel, which keeps what CUDA's keeps: query, key, value, output, log-sum-exp",
    Kernel.EFFICIENT: "CUDA's memory-efficient attention has no CPU kernel; the flash kernel that ran keeps the same tensors",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What ran and where; ``difference`` says what ran otherwise than on CUDA and could not be held to its choice."""

    subject: Subject
    backend: Backend
    difference: str | None = None


def report(plan: Plan, sessions: tuple[Session, ...], answer: Answer, ran: Ran) -> ProbeResult:
    """Return the result: peaks and instants of the asked model, and under ``probes`` what was really run."""
    own = None if plan.extrapolated else next(session for session in sessions if session.reading.point == plan.asked)
    own_notes = tuple(dict.fromkeys(note for session in sessions for note in session.notes))
    difference = () if ran.difference is None else (ran.difference,)
    return ProbeResult(
        environment=environment(ran),
        peaks=Peaks(
            allocated_bytes=max(num_bytes for name, num_bytes in answer.instants.items() if name != LOAD),
            process_rss_bytes=None if own is None else own.resident_bytes,
        ),
        instants=_instants(answer.instants, {} if own is None else own.reading.allocator),
        probes=tuple(_probe(session) for session in sessions),
        extrapolated=plan.extrapolated,
        steady_bytes=answer.steady_bytes,
        step_time_s=None if own is None else _step_time(own.step_seconds),
        transferable=_transferable(sessions, answer, ran),
        notes=(*plan.notes, *answer.notes, *_rank_notes(ran), *_kernel_notes(ran), *own_notes, *difference),
    )


def environment(ran: Ran) -> dict[str, str | int | None]:
    """Return what the numbers depend on."""
    versions = {
        "torch": str(torch.__version__),
        "transformers": version("transformers"),
        "peft": version("peft"),
        "python": platform.python_version(),
    }
    layout = ran.subject.layout
    ranks = {"rank": ran.subject.rank, "ranks": layout.num_gpus} if shares_work(layout) else {}
    return versions | ran.backend.environment() | ranks


def _transferable(sessions: tuple[Session, ...], answer: Answer, ran: Ran) -> bool:
    """Say whether the bytes may correct an estimate, which is for the rank that holds most: the first."""
    undisturbed = ran.difference is None and all(session.transferable for session in sessions)
    return undisturbed and is_linear(answer) and ran.subject.rank == 0


def _rank_notes(ran: Ran) -> tuple[str, ...]:
    layout = ran.subject.layout
    return rank_notes(layout, ran.subject.rank) if shares_work(layout) else ()


def _kernel_notes(ran: Ran) -> tuple[str, ...]:
    if ran.backend.device is not ProbeDevice.CPU or ran.subject.kernel not in _KERNEL_NOTES:
        return ()
    return (_KERNEL_NOTES[ran.subject.kernel],)


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
        at_peak=session.at_peak,
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
