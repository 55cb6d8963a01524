"""The program that records the catalogue's models ahead of time."""

import fcntl
from pathlib import Path

import pytest

from service.cli.offline import record
from service.cli.offline.fit import fit
from service.cli.offline.record import list_documents, record_catalogue


@pytest.fixture(autouse=True)
def _single_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record the shapes of one model: the others take minutes."""
    documents = [each for each in list_documents() if each["model"] == "llama-3.2-1b"]
    monkeypatch.setattr(record, "list_documents", lambda: iter(documents))


def test_every_shape_is_recorded_once(tmp_path: Path) -> None:
    """It rests after each question, and a second start finds that all is there."""
    rests: list[float] = []

    num_asked = record_catalogue(tmp_path, rest=rests.append)

    assert num_asked == len(rests) == 2 * len(record.SHAPES)
    assert all(seconds >= 0 for seconds in rests)
    assert record_catalogue(tmp_path, rest=rests.append) == 0


def test_a_question_of_the_command_line_profits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is recorded for another length of a model that was, and the answer is the same."""
    document = next(record.list_documents())
    document |= {"workload": document["workload"] | {"sequence_length": 2048}}
    expected = fit(document, None)
    record_catalogue(tmp_path, rest=lambda _seconds: None)
    monkeypatch.setenv("HEADROOM_CACHE_DIR", str(tmp_path))
    monkeypatch.delattr("service.estimator.passes.stored_recordings.record_training")

    assert fit(document, None) == expected


def test_a_second_process_leaves_it_to_the_first(tmp_path: Path) -> None:
    """Each process of a server starts one."""
    with (tmp_path / "recording.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        assert record_catalogue(tmp_path, rest=lambda _seconds: None) == 0
