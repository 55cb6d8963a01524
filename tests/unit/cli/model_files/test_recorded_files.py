"""Recordings that commands make and read."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from service.base.errors import InvalidRequestError
from service.cli.model_files import recorder
from service.cli.model_files.recordings import read_config_or_recording, read_recording
from service.cli.offline.fit import fit
from service.usecases.recordings.recorder import Recorded, Refused
from tests.recordings import HELIUM, PACKED, make_document

QUESTION = {
    "gpu": "H100-SXM5-80GB",
    "workload": {"task": "train", "sequence_length": 128},
    "remedies": False,
}


def write_config(folder: Path, config: dict[str, Any]) -> Path:
    """Write a config.json and return where."""
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return path


def make_options(path: Path, output: Path | None = None) -> argparse.Namespace:
    """Return the options of ``headroom models record``."""
    return argparse.Namespace(name=str(path), output=output, provided={})


def replace_recorder(monkeypatch: pytest.MonkeyPatch, outcome: Recorded | Refused) -> None:
    """Let every recorder end in one way."""
    monkeypatch.setattr(recorder, "list_missing_packages", lambda _names: [])
    monkeypatch.setattr(recorder, "record_config", lambda _config, **_settings: outcome)


@pytest.mark.parametrize("name", ["config.recording.json", "other.json.gz"])
def test_what_was_recorded_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A recording is written beside its config, or where somebody says, and answers offline."""
    replace_recorder(monkeypatch, Recorded(document=make_document()))
    target = tmp_path / name
    config = write_config(tmp_path, HELIUM)

    recorder.record(make_options(config, None if name.startswith("config") else target))

    answer = fit({"model": {"recording": read_recording(target)}, **QUESTION}, None)
    assert answer["verdict"] == "fits"
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".part"] == []


def test_a_config_takes_the_recording_beside_it(tmp_path: Path) -> None:
    """A type with a module of its own needs none, and another config's is refused."""
    config = write_config(tmp_path, HELIUM)
    (tmp_path / "config.recording.json").write_bytes(PACKED.read_bytes())

    assert read_config_or_recording(config) == {"recording": make_document()}

    write_config(tmp_path, {"model_type": "llama"})
    assert read_config_or_recording(config) == {"hf_config": {"model_type": "llama"}}
    write_config(tmp_path, HELIUM | {"vocab_size": 7})
    with pytest.raises(InvalidRequestError, match="another config"):
        read_config_or_recording(config)


def test_a_refusal_is_told_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The words are those of the recorder."""
    replace_recorder(monkeypatch, Refused(message="transformers has no such model"))
    config = write_config(tmp_path, HELIUM)

    with pytest.raises(InvalidRequestError, match="no such model"):
        recorder.record(make_options(config))

    assert list(tmp_path.iterdir()) == [config]


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without torch is told how it gets it, or who else records."""
    monkeypatch.setattr(recorder, "list_missing_packages", lambda _names: ["torch"])

    with pytest.raises(InvalidRequestError, match=r"needs torch.*gpu-headroom\[worker\]"):
        recorder.record(make_options(write_config(tmp_path, HELIUM)))


def test_another_head_of_a_recording_is_refused() -> None:
    """The class that ran had one."""
    model = {"recording": make_document(), "head": "none"}

    with pytest.raises(Exception, match="head of the class that ran"):
        fit({"model": model, **QUESTION}, None)
