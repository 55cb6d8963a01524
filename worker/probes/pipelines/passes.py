"""Several runs of a pass as one log, or as its peaks."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from service.estimator.pipelines.decoding import read_pass
from service.estimator.pipelines.extents import Extents
from service.estimator.pipelines.logs import Log, Polynomial, evaluate
from service.estimator.pipelines.phases import find_peak
from service.estimator.pipelines.residence import Residence
from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from worker.probes.pipelines.fitting import fit_sizes
from worker.probes.pipelines.tracing import Trace, is_workspace

_SIDES = ((2, 20, 24), (3, 24, 22), (2, 32, 18), (4, 26, 36), (3, 22, 38), (5, 34, 30))
"""Videos, heights and widths at which decoders of videos are run."""
_LINES = (4, 9)
"""Frames of latents of short and of long videos; each with the next determines a line."""
_PROVED_FRAMES = (7, 31)
_PROVED_SIDES = (14, 16)


def to_rows(polynomial: Polynomial) -> list[Any]:
    """Return a polynomial as a document has it."""
    return [[list(powers), value] for powers, value in polynomial]


def fit_log(
    run: Callable[[Extents], Trace], extents: Sequence[Extents], proof: Sequence[Extents]
) -> dict[str, Any]:
    """Return the log that all runs share, its sizes proved."""
    traces = [run(part) for part in (*extents, *proof)]
    events = [_encode_events(traced) for traced in traces]
    first = events[0]
    if any(other[0] != first[0] or other[1] != first[1] for other in events):
        message = "these passes run other operations at other sizes: they cannot be recorded"
        raise Refusal(FailureKind.UNSUPPORTED, message)
    fitted: dict[tuple[int, ...], Polynomial] = {}
    kinds: dict[tuple[Polynomial, bool], int] = {}
    all_extents = (*extents, *proof)
    places = []
    flags = [is_workspace(allocation) for allocation in traces[0].ledger.allocations]
    for sizes, flag in zip(zip(*(other[2] for other in events), strict=True), flags, strict=False):
        if sizes not in fitted:
            fitted[sizes] = fit_sizes(sizes, all_extents)
        places.append(kinds.setdefault((fitted[sizes], flag), len(kinds)))
    numbers = iter(places)
    return {
        "kinds": [[[list(powers), value] for powers, value in kind] for kind, _ in kinds],
        "workspaces": [place for (_, flag), place in kinds.items() if flag],
        "events": [3 * next(numbers) if event % 3 == 0 else event for event in first[0]],
        "modules": first[1],
    }


def fit_peaks(run: Callable[[Extents], Trace], *, single: bool) -> dict[str, Any]:
    """Return the highest live bytes of runs whose events vary.

    Each frame of a loop takes what the one before took and what its result adds, so that the
    highest bytes are the greater of straight lines: one of short videos, one of long ones, and
    videos between them prove it.
    """
    lines: dict[str, list[Polynomial]] = {"peak": [], "bound": []}
    for first in _LINES:
        parts = [
            Extents(batch=1 if single else batch, height=height, width=width, frames=frames)
            for batch, height, width in _SIDES
            for frames in (first, first + 1)
        ]
        peaks = [run(part).compute_peaks() for part in parts]
        for name, column in zip(lines, zip(*peaks, strict=True), strict=True):
            lines[name].append(fit_sizes(column, parts))
    for frames in _PROVED_FRAMES:
        proof = Extents(
            batch=1 if single else 5, height=_PROVED_SIDES[0], width=_PROVED_SIDES[1], frames=frames
        )
        for name, traced in zip(lines, run(proof).compute_peaks(), strict=True):
            highest = max(evaluate(line, proof) for line in lines[name])
            if highest != traced:
                message = f"{name} of {frames} frames is {traced} bytes, not {highest}: not kept"
                raise Refusal(FailureKind.UNSUPPORTED, message)
    return {
        name: [[[list(powers), value] for powers, value in line] for line in polynomials]
        for name, polynomials in lines.items()
    } | {"min_frames": _LINES[0]}


def _encode_events(traced: Trace) -> tuple[list[int], list[str], list[int]]:
    """Return events up to the caller's end, modules, and sizes."""
    ledger = traced.ledger
    modules: dict[str, int] = {}
    calls = iter([*traced.calls, (-1, "", False)])
    call = next(calls)
    events: list[int] = []
    count = 0
    last = traced.stays[0] if traced.stays else len(ledger.order)
    for place in range(last + 1):
        while call[0] == place:
            number = modules.setdefault(call[1], len(modules))
            events.append(3 * (2 * number + (not call[2])) + 2)
            call = next(calls)
        if place == last:
            break
        event = ledger.order[place]
        if event >= 0:
            count += 1
            events.append(0)
        else:
            events.append(3 * (count - 1 - ~event) + 1)
    sizes = [allocation.num_bytes for allocation in ledger.allocations[:count]]
    return events, list(modules), sizes


def prove_depth(recorded: Mapping[str, Any], traced: Trace, extents: Extents) -> None:
    """Refuse a recording that a run of all blocks does not confirm."""
    log = read_pass(recorded)
    assert isinstance(log, Log)  # noqa: S101 - a loop has its order of events
    peak = find_peak(log, extents, Residence(by_module={})).peak_bytes
    full = traced.compute_peaks()[0]
    if peak != full:
        message = f"a few blocks take {peak} bytes where all of them take {full}: not kept"
        raise Refusal(FailureKind.UNSUPPORTED, message)
