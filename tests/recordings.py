"""A recording of a small helium, as ``headroom models record`` wrote it, and shipped ones."""

import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from service.catalog.recorded_models import read_packed_recording
from service.estimator.model.recorded.architecture import RecordedArchitecture, RecordedBlock
from service.usecases.recordings.documents import read_document, unpack_document

HELIUM: dict[str, Any] = {
    "model_type": "helium",
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 9,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 1000,
}
"""Config that was recorded; no module is written for its type."""
PACKED = Path(__file__).parent / "data" / "recordings" / "helium.json.gz"


def make_document() -> dict[str, Any]:
    """Return the document of the recording."""
    return unpack_document(PACKED.read_bytes())


def make_recorded() -> RecordedArchitecture:
    """Return the architecture of the recording."""
    return read_document(make_document())


def change_layers(model: RecordedArchitecture, **changes: Any) -> RecordedArchitecture:  # noqa: ANN401 - fields of a layer
    """Return a recorded model whose layers are changed."""
    blocks = tuple(
        (replace(block, layer=replace(block.layer, **changes)), count)
        for block, count in model.blocks
        if isinstance(block, RecordedBlock)
    )
    return replace(model, blocks=blocks)


_GZIP = 31


class RecordingHead(msgspec.Struct, kw_only=True):
    """What a document says beside its programs, which are most of it and stay undecoded."""

    config: dict[str, Any]
    model_class: str
    model_type: str
    passes: dict[str, msgspec.Raw]
    outer_weights: tuple[tuple[Any, ...], ...]
    reads: dict[str, Any] | None = None


_HEADS = msgspec.json.Decoder(RecordingHead)


def read_recording_text(name: str) -> bytes:
    """Return the document of a shipped recording as JSON."""
    return zlib.decompress(read_packed_recording(name), wbits=_GZIP)


def read_recording_head(text: bytes) -> RecordingHead:
    """Return the head of a document."""
    return _HEADS.decode(text)
