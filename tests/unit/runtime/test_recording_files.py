"""Files of recordings: whole or gone, of one state of the source, and not too many."""

import logging
import os
from pathlib import Path

import pytest

from service.runtime import recording_files
from service.runtime.recording_files import RecordingFiles, make_recording_store


def _list_files(cache_dir: Path) -> list[Path]:
    return [path for path in cache_dir.rglob("*") if path.is_file()]


def test_what_was_written_is_read_by_another_process(tmp_path: Path) -> None:
    """Under its own key and no other."""
    RecordingFiles(tmp_path).write("key", b"data")

    assert RecordingFiles(tmp_path).read("key") == b"data"
    assert RecordingFiles(tmp_path).read("other") is None


def test_a_file_that_was_changed_is_dropped_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One byte is enough; nothing of it is used, and the next writer makes it anew."""
    files = RecordingFiles(tmp_path)
    files.write("key", b"data")
    (path,) = _list_files(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])

    with caplog.at_level(logging.WARNING):
        data = files.read("key")

    assert data is None
    assert not path.exists()
    assert str(path) in caplog.text


def test_another_state_of_the_source_reads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recording never outlives the code that made it; two releases side by side keep theirs."""
    RecordingFiles(tmp_path).write("key", b"data")
    monkeypatch.setattr(recording_files, "compute_source_digest", lambda: "changed")
    files = RecordingFiles(tmp_path)

    assert files.read("key") is None
    files.write("other", b"data")
    assert len({path.parent.name for path in _list_files(tmp_path)} - {"changed"}) == 1


def test_what_nobody_writes_any_more_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another state's folder, and what a writer of this one left unfinished, after a week."""
    RecordingFiles(tmp_path).write("key", b"data")
    monkeypatch.setattr(recording_files, "compute_source_digest", lambda: "changed")
    RecordingFiles(tmp_path).write("key", b"data")
    (tmp_path / "recordings" / "changed" / ".left").write_bytes(b"half")
    for path in _list_files(tmp_path):
        os.utime(path, (0, 0))

    RecordingFiles(tmp_path).write("other", b"data")

    assert {path.parent.name for path in _list_files(tmp_path)} == {"changed"}
    assert len(_list_files(tmp_path)) == 2


def test_bytes_under_another_key_are_not_believed(tmp_path: Path) -> None:
    """The digest is of the key too."""
    files = RecordingFiles(tmp_path)
    files.write("key", b"data")
    (path,) = _list_files(tmp_path)
    files.write("other", b"other")
    (other,) = set(_list_files(tmp_path)) - {path}
    other.write_bytes(path.read_bytes())

    assert files.read("other") is None
    assert files.read("key") == b"data"


def test_what_is_complete_goes_with_its_recordings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark is of one state of the source, and no recording."""
    files = RecordingFiles(tmp_path)
    files.mark_complete()

    assert files.is_complete()
    monkeypatch.setattr(recording_files, "compute_source_digest", lambda: "changed")
    assert not files.is_complete()


def test_the_digest_is_of_every_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more line in one file, and it is another."""
    (tmp_path / "__init__.py").write_text("")
    module = tmp_path / "tape" / "sizes.py"
    module.parent.mkdir()
    monkeypatch.setattr("service.estimator.__file__", str(tmp_path / "__init__.py"))
    digests = set()
    for text in ("ZERO = 0", "ZERO = 1"):
        module.write_text(text)
        digests.add(recording_files.compute_source_digest.__wrapped__())

    assert len(digests) == 2


def test_the_oldest_files_go_once_there_are_too_many(tmp_path: Path) -> None:
    """What stays is less than the limit, and the latest is among it."""
    files = RecordingFiles(tmp_path, max_bytes=1000)
    for number in range(20):
        files.write(str(number), bytes(100))
        for age, path in enumerate(sorted(_list_files(tmp_path), key=os.path.getmtime)):
            os.utime(path, (age, age))

    assert files.read("19") == bytes(100)
    assert files.read("0") is None
    assert sum(path.stat().st_size for path in _list_files(tmp_path)) <= 1000


def test_a_folder_that_cannot_be_written_stops_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file stands where the folder should be: that is said, and nothing is kept."""
    (tmp_path / "recordings").write_text("")
    files = RecordingFiles(tmp_path)

    with caplog.at_level(logging.WARNING):
        files.write("key", b"data")

    assert files.read("key") is None
    assert "not kept" in caplog.text


def test_without_a_folder_nothing_is_kept(tmp_path: Path) -> None:
    """None is the default of the settings."""
    assert make_recording_store(None) is None
    assert make_recording_store(tmp_path) is not None
