"""Bytes of a micro-batch on a stage's chunks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from service.estimator.backends.megatron.chunks import ChunkRecord
from service.estimator.backends.megatron.shape import RankShape, Switches
from service.estimator.backends.megatron.stages import StageLayers
from service.estimator.memory.phase_peaks import Parts
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Category, Section
from service.estimator.tape.sizes import Size

MAX_EVALUATED = 4096
Record = Callable[[StageLayers], ChunkRecord]
INSTANTS = {
    "forward": (Section.FORWARD,),
    "loss": (Section.LOSS_FORWARD, Section.LOSS_BACKWARD),
    "backward": (Section.BACKWARD,),
}


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
RunningChunks = list[tuple[ChunkBytes, int]]
"""Chunks of a stage, each with the number of its micro-batches that are kept."""


def find_highest_point(name: str, running: RunningChunks) -> tuple[ChunkPeak | None, int]:
    """Return the highest point of a phase over a stage's chunks.

    Any of the chunks may run; the second value is what is kept of the other micro-batches.
    """
    total = sum([chunk.retained * count for chunk, count in running])
    highest_point: tuple[ChunkPeak | None, int] = None, 0
    highest_bytes = -1
    for chunk, count in running:
        top = chunk.peaks[name] if count else None
        if top is not None and total - chunk.retained + top.bytes > highest_bytes:
            highest_point, highest_bytes = (
                (top, total - chunk.retained),
                total - chunk.retained + top.bytes,
            )
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
