"""Recordings that somebody keeps between processes, made where they are missing."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from service.estimator.model.architecture import Architecture
from service.estimator.passes.config import PeakCandidates, TrainingPass
from service.estimator.passes.padded_recordings import (
    PaddedLog,
    PaddedRecording,
    SharedRecordings,
    record_unpadded,
)
from service.estimator.passes.padded_units import list_units
from service.estimator.passes.recorder import log_training, record_training
from service.estimator.passes.recording_codec import (
    decode_candidates,
    decode_events,
    decode_padded,
    encode_candidates,
    encode_events,
    encode_padded,
)
from service.estimator.tape.event_log import Events
from service.estimator.values.memo import check_making

T = TypeVar("T")


class RecordingStore(Protocol):
    """Store of recorded bytes by key.

    The keeper sees to it that they are not stale.
    """

    def read(self, key: str) -> bytes | None:
        """Return the bytes of a key, None where there are none."""

    def write(self, key: str, data: bytes) -> None:
        """Keep the bytes of a key, if there is room."""


def load_training(
    model: Architecture,
    config: TrainingPass,
    store: RecordingStore | None,
    shared: SharedRecordings[PaddedRecording],
) -> PeakCandidates:
    """Return the highest points of a training pass.

    What is recorded of it may be ``shared`` with passes of other padding.
    """

    def record() -> PeakCandidates:
        recording = shared.find(model, config)
        if recording is None or config.gathering is None:
            return record_training(model, config)
        return recording.pad(config.gathering)

    if store is None:
        return record()
    key = f"training {model.spec!r} {config!r}"
    return _load(store, key, record, (encode_candidates, decode_candidates))


def load_training_log(
    model: Architecture,
    config: TrainingPass,
    store: RecordingStore | None,
    shared: SharedRecordings[PaddedLog],
) -> Events:
    """Return the allocations and releases of a training pass.

    What is logged of it may be ``shared`` with passes of other padding.
    """

    def log() -> Events:
        recording = shared.find(model, config)
        if recording is None or config.gathering is None:
            return log_training(model, config)
        return recording.pad(config.gathering)

    if store is None:
        return log()
    return _load(store, f"log {model.spec!r} {config!r}", log, (encode_events, decode_events))


def share_recordings(
    store: RecordingStore | None, *, capacity: int
) -> SharedRecordings[PaddedRecording]:
    """Return recordings that passes of all paddings share.

    They are kept in a store where there is one.
    """
    if store is None:
        return SharedRecordings(record_unpadded, capacity=capacity)

    def read(model: Architecture, config: TrainingPass) -> PaddedRecording | None:
        check_making()
        data = store.read(_name_unpadded(model, config))
        return None if data is None else decode_padded(data, list_units(model, config))

    def record(model: Architecture, config: TrainingPass) -> PaddedRecording:
        recording = record_unpadded(model, config)
        store.write(_name_unpadded(model, config), encode_padded(recording))
        return recording

    return SharedRecordings(record, capacity=capacity, read=read)


def _name_unpadded(model: Architecture, config: TrainingPass) -> str:
    return f"unpadded {model.spec!r} {config!r}"


def _load(
    store: RecordingStore,
    key: str,
    record: Callable[[], T],
    codec: tuple[Callable[[T], bytes], Callable[[bytes], T]],
) -> T:
    check_making()
    encode, decode = codec
    data = store.read(key)
    if data is not None:
        return decode(data)
    recording = record()
    store.write(key, encode(recording))
    return recording
