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

FOLDER = Path(recorded_models.__file__).with_name("recordings")
CHECKPOINTS: Mapping[str, list[str]] = json.loads(
    Path(__file__).with_name("checkpoints.json").read_bytes()
)
"""Hub ids by the type whose default config they have.

Their published totals are those of the default config, and so are layers, heads and widths, as the
package llmfit 1.1.17 gives them, whose catalogue holds what the hub says of each.
"""

LIMIT = 10_000
"""Part of a plain pass by which a shipped recording may miss it, at most."""
Compare = Callable[[RecordedArchitecture, str], tuple[int, int]]
"""Peaks of a step of all layers that made no recording: of a plain pass, and of a recording."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Peaks of a plain step and of a recording, and its name where it is shipped."""

    name: str | None
    traced: int
    recorded: int


def ship(document: Mapping[str, Any], compare: Compare, folder: Path = FOLDER) -> Proof:
    """Write a recording beside the others, unless it misses too much.

    What the recorder compared is a pass of few layers, whose peak is where the logits are: that of
    all layers may be elsewhere.
    """
    model = build_recorded(decode_recording(document))
    traced, recorded = compare(model, document["model_type"])
    misses = (
        document.get("difference", 0) > 2 * model.counts.total // LIMIT
        or abs(recorded - traced) > traced // LIMIT
    )
    name = None if misses else _write(document, folder)
    return Proof(name=name, traced=traced, recorded=recorded)


def _write(document: Mapping[str, Any], folder: Path) -> str:
    """Write a recording with its config and its line of the index; returns its name."""
    config = {**document["config"], "architectures": [document["model_class"]]}
    document = {**document, "config": config}
    name = name_recording(document["model_type"])
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json.gz").write_bytes(pack_document(document))
    (folder / f"{name}.json").write_text(_write_json(config))
    index = _read_index(folder) | {name: _describe(document)}
    (folder / "index.json").write_text(_write_json(dict(sorted(index.items()))))
    return name


def name_recording(model_type: str) -> str:
    """Return the catalogue's name of a type's default config."""
    checkpoints = CHECKPOINTS.get(model_type)
    if checkpoints is None:
        return f"{model_type.replace('_', '-')}-default"
    return checkpoints[0].rpartition("/")[2].lower()


def _describe(document: Mapping[str, Any]) -> dict[str, object]:
    model_type, release = document["model_type"], document["transformers"]
    aliases = CHECKPOINTS.get(model_type, [])
    source = f"the default config of {model_type} in transformers {release}"
    if aliases:
        source += (
            "; its total is that of the published weights of the aliases, and its numbers are "
            "theirs in the package llmfit 1.1.17, whose catalogue holds what the hub says"
        )
    return {
        "model_type": model_type,
        "source": source,
        "aliases": aliases,
        "recording": compute_digest(document),
        "transformers": release,
        "torch": document["torch"],
        "parameters": build_recorded(decode_recording(document)).counts.total,
    }


def _read_index(folder: Path) -> dict[str, Any]:
    path = folder / "index.json"
    index: dict[str, Any] = json.loads(path.read_bytes()) if path.is_file() else {}
    return index


def _write_json(value: object) -> str:
    return f"{json.dumps(value, indent=1)}\n"
