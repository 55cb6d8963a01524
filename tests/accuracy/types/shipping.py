"""Recordings of default configs as files of the catalogue; no torch."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.catalog import recorded_models
from service.estimator.model.recorded.architecture import RecordedArchitecture, build_recorded
from service.estimator.model.recorded.decoding import decode_recording
from service.estimator.model.recorded.encoding import compute_digest
from service.usecases.recordings.documents import pack_document
from tests.accuracy.types.subjects import Subject

FOLDER = Path(recorded_models.__file__).with_name("recordings")
LIMIT = 10_000
"""Part of a plain pass by which a shipped recording may miss it, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Bytes of steps of all layers that made no recording, traced and recorded.

    ``large`` and ``small`` are peaks, ``gradients`` what a step leaves of these, none where no
    weight is trained.
    """

    large: tuple[int, int]
    small: tuple[int, int]
    gradients: tuple[int, int]

    @property
    def agree(self) -> bool:
        """Whether none of them is off by more than a part in ``LIMIT``."""
        pairs = (self.large, self.small, self.gradients)
        return all(abs(recorded - traced) <= traced // LIMIT for traced, recorded in pairs)


Compare = Callable[[RecordedArchitecture, Mapping[str, Any]], Steps]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Plain steps beside those of a recording, and its name where it is shipped."""

    name: str | None
    steps: Steps


def ship(
    document: Mapping[str, Any], subject: Subject, compare: Compare, folder: Path = FOLDER
) -> Proof:
    """Write a recording beside the others, unless it misses too much.

    What the recorder compared is a pass of few layers, whose peak is where the logits are: that of
    all layers may be elsewhere.
    """
    model = build_recorded(decode_recording(document))
    steps = compare(model, document["config"])
    misses = document.get("difference", 0) > 2 * model.counts.total // LIMIT or not steps.agree
    if not misses:
        _write(document, subject, folder)
    return Proof(name=None if misses else subject.name, steps=steps)


def _write(document: Mapping[str, Any], subject: Subject, folder: Path) -> None:
    """Write a recording with its config and its line of the index."""
    config = {"architectures": [document["model_class"]], **document["config"]}
    document = {**document, "config": config}
    name = subject.name
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json.gz").write_bytes(pack_document(document))
    (folder / f"{name}.json").write_text(write_json(config))
    index = read_index(folder) | {name: _describe(document, subject)}
    (folder / "index.json").write_text(write_json(dict(sorted(index.items()))))


def _describe(document: Mapping[str, Any], subject: Subject) -> dict[str, object]:
    release = document["transformers"]
    return {
        "model_type": document["model_type"],
        "source": subject.source.format(transformers=release),
        "aliases": list(subject.ids),
        "recording": compute_digest(document),
        "transformers": release,
        "torch": document["torch"],
        "parameters": build_recorded(decode_recording(document)).counts.total,
        **({"required": list(subject.required)} if subject.required else {}),
    }


def read_index(folder: Path) -> dict[str, Any]:
    """Return what the catalogue says of each recording."""
    path = folder / "index.json"
    index: dict[str, Any] = json.loads(path.read_bytes()) if path.is_file() else {}
    return index


def write_json(value: object) -> str:
    """Return the text of a JSON file."""
    return f"{json.dumps(value, indent=1)}\n"
