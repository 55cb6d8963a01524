"""Recordings that a release ships.

They are of types that no module is written for. Each lies in ``recordings`` beside the config.json
that it was made of. Nothing is read before a name or a type is asked for that the rest of the
catalogue does not have.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from service.base.gzip_json import decode_gzip_json
from service.estimator.model.architecture import Architecture
from service.estimator.values.memo import keep_latest

_FOLDER = Path(__file__).with_name("recordings")
_PACKED = Path(__file__).with_name("packed_models.json")
_MAX_DECODED = 32
"""Recordings that a process keeps decoded, a megabyte or two each."""


@cache
def read_recordings_index() -> Mapping[str, Mapping[str, Any]]:
    """Return what is known of every shipped recording, by name."""
    index: dict[str, dict[str, Any]] = json.loads((_FOLDER / "index.json").read_bytes())
    return index


@cache
def read_packed_index() -> Mapping[str, Mapping[str, Any]]:
    """Return the models whose weights are packed, each with its recording.

    By name. ``base`` names the recording of the same model in 16 bits, and
    ``quantization_config`` is what the checkpoint's config.json says of its weights.
    """
    recorded = read_recordings_index()
    index: dict[str, dict[str, Any]] = json.loads(_PACKED.read_bytes())
    return {
        name: {
            "model_type": recorded[packed["base"]]["model_type"],
            "recording": recorded[packed["base"]]["recording"],
            **packed,
        }
        for name, packed in index.items()
    }


def read_packed_config(name: str) -> Mapping[str, object]:
    """Return the config.json of a model with packed weights."""
    packed = read_packed_index()[name]
    fields = {"quantization_config": packed["quantization_config"]}
    return {**read_recorded_config(packed["base"]), **fields}


def read_recorded_config(name: str) -> Mapping[str, object]:
    """Return the config.json that a shipped recording was made of."""
    config: dict[str, object] = json.loads((_FOLDER / f"{name}.json").read_bytes())
    return config


def read_packed_recording(name: str) -> bytes:
    """Return the document of a shipped recording, compressed."""
    return (_FOLDER / f"{name}.json.gz").read_bytes()


@keep_latest(_MAX_DECODED)
def load_recorded_architecture(name: str) -> Architecture:
    """Return the architecture of a shipped recording."""
    # A cold command that names another model does not pay for this.
    recorded = import_module("service.estimator.model.recorded.architecture")
    decoding = import_module("service.estimator.model.recorded.decoding")
    document = decode_gzip_json(read_packed_recording(name))
    architecture: Architecture = recorded.build_recorded(decoding.decode_recording(document))
    return architecture


@keep_latest(_MAX_DECODED)
def load_packed_architecture(name: str) -> Architecture:
    """Return the architecture of a model with packed weights."""
    quantized = import_module("service.estimator.model.quantization.configs")
    base = load_recorded_architecture(read_packed_index()[name]["base"])
    return replace(base, quantization=quantized.read_quantization(read_packed_config(name)))
