"""Recordings that the release ships: whole, of the pinned releases, and small."""

import json
import tomllib
from hashlib import sha256
from pathlib import Path

import pytest

from service.catalog import recorded_models
from service.catalog.models import (
    ModelEntry,
    find_model,
    list_model_names,
    list_models,
    list_recorded_models,
    load_architecture,
    load_config,
)
from service.catalog.recorded_models import read_recordings_index
from service.estimator.model.families.registry import list_model_types
from service.estimator.model.recorded.architecture import RecordedArchitecture
from tests.recordings import read_recording_head, read_recording_text

FOLDER = Path(recorded_models.__file__).with_name("recordings")
MAX_BYTES = 10 * 2**20
"""By which the wheel may grow."""
SAMPLED = 9
"""One of so many recordings is decoded."""


def test_every_file_is_listed_and_every_listed_recording_has_its_files() -> None:
    """A config, and the document that was made of it."""
    files = {path.name for path in FOLDER.iterdir() if path.name != "__pycache__"}

    names = list(read_recordings_index())
    assert names == sorted(names)
    assert files == {"__init__.py", "index.json"} | {
        f"{name}.{kind}" for name in names for kind in ("json", "json.gz")
    }


WITHOUT_BF16 = frozenset({"fnet"})
"""``torch.fft`` takes no bfloat16."""


def test_every_recording_has_the_digest_and_the_config_of_the_index() -> None:
    """No program is decoded: there are many. The digest is that of the bytes, which are written in
    the one form that a document has.
    """
    for entry in list_recorded_models():
        text = read_recording_text(entry.name)
        head = read_recording_head(text)

        assert entry.recording == sha256(text).hexdigest()
        assert head.config == load_config(entry)
        assert load_config(entry)["architectures"] == [head.model_class]
        assert head.model_type == entry.model_type
        weights = "fp32" if entry.model_type in WITHOUT_BF16 else "half"
        needed = [{weights, "autocast"}] if head.reads is None else [{"half"}, {"half/forward"}]
        assert any(names <= head.passes.keys() for names in needed)


@pytest.mark.parametrize("entry", list_recorded_models()[::SAMPLED], ids=lambda entry: entry.name)
def test_a_decoded_recording_is_what_the_index_says(entry: ModelEntry) -> None:
    """A sample of them, since each takes a fraction of a second to decode; a decoded one has the
    digest of its content, whatever the order of its bytes.
    """
    model = load_architecture(entry)

    assert isinstance(model, RecordedArchitecture)
    assert model.recorded.digest == entry.recording
    assert model.recorded.model_type == entry.model_type
    assert model.counts.total == read_recordings_index()[entry.name]["parameters"]


def test_recordings_are_of_the_releases_that_a_worker_installs() -> None:
    """Another transformers may run another step: then they are recorded anew."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    pins = dict(
        line.split("==")
        for line in project["project"]["optional-dependencies"]["worker"]
        if "==" in line
    )

    releases = {(line["transformers"], line["torch"]) for line in read_recordings_index().values()}

    assert {torch.partition("+")[0] for _, torch in releases} == {pins["torch"]}
    assert {f"{release.rpartition('.')[0]}.*" for release, _ in releases} == {pins["transformers"]}


def test_no_recording_takes_a_name_or_a_type_of_others() -> None:
    """Names are found whatever their case, and written types stay with their modules."""
    written = {name.casefold() for entry in list_models() for name in (entry.name, *entry.aliases)}
    names = [
        name.casefold() for entry in list_recorded_models() for name in (entry.name, *entry.aliases)
    ]

    assert len(names) == len(set(names))
    assert not written & set(names)
    assert set(names) <= {name.casefold() for name in list_model_names()}
    assert not {entry.model_type for entry in list_recorded_models()} & set(list_model_types())
    assert find_model(names[0].upper()) == list_recorded_models()[0]


def test_the_wheel_stays_small() -> None:
    """All files together, and the index, which is read for a name that is not known."""
    sizes = [path.stat().st_size for path in FOLDER.glob("*.json*")]

    assert sum(sizes) <= MAX_BYTES
    assert len(json.dumps(dict(read_recordings_index()))) <= 2**17
