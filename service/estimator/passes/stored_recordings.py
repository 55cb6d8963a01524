"""Recordings that somebody keeps between processes, made where they are missing."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from service.estimator.model.architecture import Architecture
from service.estimator.passes.config import PeakCandidates, TrainingPass
from service.estimator.passes.recorder import log_training, record_training
from service.estimator.passes.recording_codec import (
    decode_candidates,
    decode_events,
    encode_candidates,
    encode_events,
)
from service.estimator.tape.event_log import Events

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
    model: Architecture, config: TrainingPass, store: RecordingStore | None
) -> PeakCandidates:
    """Return the highest points of a training pass."""
    if store is None:
        return record_training(model, config)
    return _load(
        store,
        f"training {model.spec!r} {config!r}",
        lambda: record_training(model, config),
        (encode_candidates, decode_candidates),
    )


def load_training_log(
    model: Architecture, config: TrainingPass, store: RecordingStore | None
) -> Events:
    """Return the allocations and releases of a training pass."""
    if store is None:
        return log_training(model, config)
    return _load(
        store,
        f"log {model.spec!r} {config!r}",
        lambda: log_training(model, config),
        (encode_events, decode_events),
    )


def _load(
    store: RecordingStore,
    key: str,
    record: Callable[[], T],
    codec: tuple[Callable[[T], bytes], Callable[[bytes], T]],
) -> T:
    encode, decode = codec
    data = store.read(key)
    if data is not None:
        return decode(data)
    recording = record()
    store.write(key, encode(recording))
    return recording
