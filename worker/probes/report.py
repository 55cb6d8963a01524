"""Turns what was run into the result that the service stores."""

import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from statistics import median, quantiles

import torch

from service.jobs.contract import InstantReading, Peaks, ProbeDevice, ProbeReading, ProbeResult, StepTime
from service.jobs.ranks import shares_work
from service.probing.plan import Plan
from worker.probes.answer import is_linear
from worker.probes.attention.names import Kernel
from worker.probes.ranks.parallelize import rank_notes
from worker.probes.run.backend import Backend, Session, Subject
from worker.probes.run.extrapolate import Answer, instants_of

LOAD = "load"
_P95 = 18
"""Position of the 95th percentile among twentieths."""

_KERNEL_NOTES = {
    Kernel.FLASH: "attention ran the CPU's flash kernel, which keeps what CUDA's keeps: query, key, value, output, log-sum-exp",
    Kernel.EFFICIENT: "attention ran CUDA's memory-efficient operator in matrix products: it makes and keeps the same tensors",
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
        peaks=_peaks(max(num_bytes for name, num_bytes in answer.instants.items() if name != LOAD), own),
        instants=_instants(answer.instants, {} if own is None else own.reading.allocator),
        probes=tuple(_probe(session) for session in sessions),
        extrapolated=plan.extrapolated,
        steady_bytes=answer.steady_bytes,
        step_time_s=None if own is None else _step_time(own.step_seconds),
        transferable=_transferable(sessions, answer, ran),
        notes=(*plan.notes, *answer.notes, *_rank_notes(ran), *_kernel_notes(ran), *own_notes, *difference),
    )


def exhausted(plan: Plan, sessions: Sequence[Session], ran: Ran) -> ProbeResult:
    """Return the result of a plan whose last session ran out of memory: what was held then, and nothing beyond."""
    last = sessions[-1]
    held = last.out_of_memory_at
    assert held is not None  # noqa: S101 - what makes it the last
    point = last.reading.point
    where = f"{point.num_layers} of {plan.asked.num_layers} layers with {point.num_tokens} tokens"
    return ProbeResult(
        environment=environment(ran),
        peaks=_peaks(held, last),
        instants=_instants(instants_of(last.reading.live), last.reading.allocator),
        probes=tuple(_probe(session) for session in sessions),
        extrapolated=point != plan.asked,
        transferable=False,
        notes=(f"memory ran out with {where}: the bytes are those that were held then", *last.notes),
    )


def _peaks(allocated_bytes: int, own: Session | None) -> Peaks:
    """Return the highest readings; beside the allocated bytes only a run of the asked model itself has any."""
    if own is None:
        return Peaks(allocated_bytes=allocated_bytes)
    return Peaks(
        allocated_bytes=allocated_bytes,
        reserved_bytes=max(own.reserved.values()) if own.reserved else None,
        device_bytes=own.device_bytes,
        device_total_used_bytes=own.device_total_used_bytes,
        process_rss_bytes=own.resident_bytes,
        out_of_memory=own.out_of_memory_at is not None,
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
        out_of_memory=session.out_of_memory_at is not None,
        layers=point.layers,
        reserved_bytes=max(session.reserved.values()) if session.reserved else None,
        device_bytes=session.device_bytes,
        context_bytes=session.context_bytes,
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
