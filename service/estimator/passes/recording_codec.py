"""Encoding of recordings as bytes, and back.

The bytes are data only, so that nothing is run that was read.
"""

import json
import zlib
from array import array

from service.estimator.passes.config import PeakCandidates
from service.estimator.passes.padded_recordings import Moment, PaddedRecording
from service.estimator.passes.padded_units import Unit
from service.estimator.tape.event_log import Events
from service.estimator.tape.kernel_buffers import BufferKind, KernelBuffer
from service.estimator.tape.ledger import Category, Section, build_point
from service.estimator.tape.sizes import Size

_LEVEL = 1
"""Of compression: blocks repeat, so that more effort gains little."""
_INTEGERS = "i"
"""C ints of this machine: files do not move between machines, see ``recording_files``."""


def encode_candidates(candidates: PeakCandidates) -> bytes:
    """Return the highest points of a pass as bytes."""
    document = [
        [
            section.value,
            [point.live for point in points],
        ]
        for section, points in candidates.items()
    ]
    return json.dumps(document, separators=(",", ":")).encode()


def decode_candidates(data: bytes) -> PeakCandidates:
    """Return the highest points of a pass."""
    return {
        Section(section): tuple(
            build_point({Category(category): _to_size(size) for category, size in live})
            for live in points
        )
        for section, points in json.loads(data)
    }


def encode_padded(recording: PaddedRecording) -> bytes:
    """Return the moments of a step without filling as bytes.

    Its units are those of its model.
    """
    document = [
        [
            section.value,
            [[list(moment.live.items()), moment.factors, moment.bounds] for moment in moments],
        ]
        for section, moments in recording.moments.items()
    ]
    return json.dumps(document, separators=(",", ":")).encode()


def decode_padded(data: bytes, units: tuple[Unit, ...]) -> PaddedRecording:
    """Return a step without filling."""
    moments = {
        Section(section): tuple(
            Moment(
                {Category(category): _to_size(size) for category, size in live},
                tuple((Category(category), tuple(each)) for category, each in factors),
                tuple(bounds),
            )
            for live, factors, bounds in each_section
        )
        for section, each_section in json.loads(data)
    }
    return PaddedRecording(moments, units)


def encode_events(events: Events) -> bytes:
    """Return the events of a pass as bytes.

    They are a line of JSON, then two arrays.
    """
    header = {
        "sizes": events.sizes,
        "gradients": sorted(events.gradients),
        "shards": events.shards,
        "buffers": events.buffers,
        "streams": events.streams,
        "storages": len(events.kinds),
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    arrays = array(_INTEGERS, events.kinds).tobytes() + array(_INTEGERS, events.order).tobytes()
    return zlib.compress(text + b"\n" + arrays, _LEVEL)


def decode_events(data: bytes) -> Events:
    """Return the events of a pass."""
    text, _, arrays = zlib.decompress(data).partition(b"\n")
    header, numbers = json.loads(text), array(_INTEGERS)
    numbers.frombytes(arrays)
    storages = header["storages"]
    return Events(
        sizes=tuple(map(_to_size, header["sizes"])),
        kinds=tuple(numbers[:storages]),
        order=tuple(numbers[storages:]),
        gradients=frozenset(header["gradients"]),
        shards=tuple((index, elements) for index, elements in header["shards"]),
        buffers=tuple(
            (
                KernelBuffer(BufferKind(kind), _to_size(outputs), _to_size(rows), table_rows),
                tuple(indices),
            )
            for (kind, outputs, rows, table_rows), indices in header["buffers"]
        ),
        streams=tuple(header["streams"]),
    )


def _to_size(coefficients: list[int]) -> Size:
    a, b, c, d, e, f = coefficients
    return (a, b, c, d, e, f)
