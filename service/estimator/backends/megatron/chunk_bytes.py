"""Bytes of a micro-batch on a stage's chunks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from service.estimator.backends.megatron.chunks import ChunkRecord
from service.estimator.backends.megatron.shape import RankShape, Switches
from service.estimator.backends.megatron.stages import StageLayers
from service.estimator.memory.phase_peaks import Parts
from service.estimator.memory.step_prices import INSTANTS
from service.estimator.model.pipelines.in_flight import Moment
from service.estimator.model.pipelines.passes import PassKind
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Category, Section
from service.estimator.tape.sizes import Size

MAX_EVALUATED = 4096
Record = Callable[[StageLayers], ChunkRecord]


class ChunkPeak(NamedTuple):
    """Highest point of a phase while a chunk runs.

    It has its bytes, and its parts with their sum.
    """

    bytes: int
    parts: Parts
    part_bytes: int
    activations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkBytes:
    """Bytes of a micro-batch on a chunk.

    What it keeps, and the chunk's highest point of each phase while it runs.
    """

    retained: int
    peaks: dict[str, ChunkPeak | None]


@dataclass(frozen=True, slots=True)
class ShapeRecording:
    """Recordings of a shape's chunks.

    ``evaluated`` are the bytes of its chunks at batches and sequences that were asked about.
    """

    record: Record
    evaluated: dict[tuple[StageLayers, Size], ChunkBytes]


Recorder = Callable[[RankShape, Switches], ShapeRecording]
_KINDS = {
    "forward": frozenset({PassKind.FORWARD}),
    "loss": frozenset({PassKind.FORWARD, PassKind.BACKWARD}),
    "backward": frozenset({PassKind.BACKWARD}),
}
"""Passes during which an instant is."""


class RunningChunks(NamedTuple):
    """Chunks of a stage, and the moments of its schedule."""

    chunks: tuple[ChunkBytes, ...]
    moments: tuple[Moment, ...]


class HighestPoint(NamedTuple):
    """Highest point of a phase, and what other micro-batches keep.

    ``counts`` are the micro-batches of each chunk, the one that runs included.
    """

    top: ChunkPeak | None = None
    waiting_bytes: int = 0
    counts: tuple[int, ...] = ()


def find_highest_point(name: str, running: RunningChunks) -> HighestPoint:
    """Return the highest point of a phase over a stage's moments."""
    highest_point = HighestPoint()
    highest_bytes, chunks = -1, running.chunks
    for moment in running.moments:
        chunk = chunks[moment.chunk]
        top = chunk.peaks[name]
        if top is None or moment.kind not in _KINDS[name]:
            continue
        waiting = -chunk.retained
        for other, count in zip(chunks, moment.counts, strict=True):
            waiting += other.retained * count
        if waiting + top.bytes > highest_bytes:
            highest_point = HighestPoint(top, waiting, moment.counts)
            highest_bytes = waiting + top.bytes
    return highest_point


def evaluate_chunk(recording: ShapeRecording, layers: StageLayers, values: Size) -> ChunkBytes:
    """Return a micro-batch's bytes on a chunk at a sequence length."""
    evaluated, key = recording.evaluated, (layers, values)
    chunk_bytes = evaluated.get(key)
    if chunk_bytes is None:
        if len(evaluated) >= MAX_EVALUATED:
            evaluated.clear()
        record = recording.record(layers)
        peaks = {
            name: _evaluate_peak(record, members, values) for name, members in INSTANTS.items()
        }
        chunk_bytes = evaluated[key] = ChunkBytes(
            retained=sizes.evaluate(record.retained, values), peaks=peaks
        )
    return chunk_bytes


def _evaluate_peak(
    record: ChunkRecord, sections: tuple[Section, ...], values: Size
) -> ChunkPeak | None:
    points = [point for section in sections for point in record.peak_candidates.get(section, ())]
    if not points:
        return None
    top = max(points, key=lambda point: sizes.evaluate(point.bytes, values))
    parts: Parts = {}
    for category, size in top.live:
        if category is not Category.GRADIENTS:
            parts[category.value] = parts.get(category.value, 0) + sizes.evaluate(size, values)
    return ChunkPeak(
        sizes.evaluate(top.bytes, values),
        parts,
        sum(parts.values()),
        parts.get("activations", 0),
    )
