"""Out-of-memory events of a memory snapshot.

``torch.cuda.memory._dump_snapshot()`` lists segments and blocks at its end and what the allocator
did before; an event ``oom`` has the bytes that were requested (``size``) and what the GPU had free
(``device_free``; torch/csrc/cuda/memory_snapshot.cpp).
"""

from collections.abc import Iterator, Mapping, Sequence

from service.formats.failures.failure import (
    Amount,
    FailedMemory,
    Failure,
    FailureLog,
    FailureQuantity,
    FailureSpeaker,
    Frame,
    Span,
)
from service.formats.measured.snapshot import (
    ALLOCATES,
    RESERVES,
    ROUNDING_BYTES,
    parse_snapshot,
)

_FREE_STATES = frozenset({"inactive", "active_pending_free"})

Json = Mapping[str, object]


def read_snapshot_failures(document: Json, *, size: int) -> FailureLog:
    """Return the last out-of-memory event of each GPU.

    Raises MeasuredFormatError for a document that is no snapshot.
    """
    notes = parse_snapshot(document, size=size).notes
    traces, segments = document["device_traces"], _get_list(document, "segments")
    failures = [
        failure
        for device, trace in enumerate(traces if isinstance(traces, list) else ())
        if (
            failure := _find_event(
                trace, [s for s in segments if s.get("device", 0) == device], device
            )
        )
        is not None
    ]
    return FailureLog(failures=tuple(failures), notes=notes)


def _find_event(trace: Sequence[Json], segments: Sequence[Json], device: int) -> Failure | None:
    """Return the last event of a GPU, by walking back its trace."""
    reserved = sum(_get_count(segment, "total_size") for segment in segments)
    blocks = [block for segment in segments for block in _get_list(segment, "blocks")]
    allocated = sum(
        _get_count(block, "size")
        for block in blocks
        if _get_text(block, "state") == "active_allocated"
    )
    changed = False
    for entry in reversed(trace):
        action = _get_text(entry, "action")
        if action == "oom":
            amounts = dict(_iter_event(entry, allocated=allocated, reserved=reserved))
            if not changed:
                # The blocks are those of the snapshot's end: of the event only where it ends there.
                amounts[FailureQuantity.LARGEST_FREE_BLOCK] = max(
                    (
                        _get_count(b, "size")
                        for b in blocks
                        if _get_text(b, "state") in _FREE_STATES
                    ),
                    default=0,
                )
            return _make_failure(amounts, entry, device)
        if action in RESERVES:
            reserved -= RESERVES[action] * _get_count(entry, "size")
            changed = True
        elif action in ALLOCATES:
            allocated -= ALLOCATES[action] * _round(_get_count(entry, "size"))
            changed = True
    return None


def _iter_event(
    entry: Json, *, allocated: int, reserved: int
) -> Iterator[tuple[FailureQuantity, int]]:
    yield FailureQuantity.REQUESTED, _get_count(entry, "size")
    if "device_free" in entry:
        yield FailureQuantity.FREE, _get_count(entry, "device_free")
    yield FailureQuantity.ALLOCATED, max(allocated, 0)
    yield FailureQuantity.RESERVED, max(reserved, 0)


def _make_failure(amounts: Mapping[FailureQuantity, int], entry: Json, device: int) -> Failure:
    return Failure(
        speaker=FailureSpeaker.SNAPSHOT,
        memory=FailedMemory.GPU,
        kind="allocation",
        line=None,
        amounts=tuple(
            Amount(
                quantity=quantity,
                span=Span(low=value, value=value, high=value),
                line=None,
                text=f"{value:,} bytes",
            )
            for quantity, value in amounts.items()
        ),
        frames=tuple(_iter_frames(entry)),
        gpu=device,
    )


def _iter_frames(entry: Json) -> Iterator[Frame]:
    """Yield the stack of an event, outermost first."""
    for frame in reversed(_get_list(entry, "frames")[:200]):
        file, function = frame.get("filename"), frame.get("name")
        if isinstance(file, str) and isinstance(function, str):
            yield Frame(file=file[:500], function=function[:200])


def _round(size: int) -> int:
    return -(-size // ROUNDING_BYTES) * ROUNDING_BYTES


def _get_count(document: Json, name: str) -> int:
    value = document.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _get_text(document: Json, name: str) -> str:
    value = document.get(name)
    return value if isinstance(value, str) else ""


def _get_list(document: Json, name: str) -> list[Json]:
    value = document.get(name)
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
