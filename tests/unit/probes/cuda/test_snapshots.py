"""The allocator's snapshot that a CUDA probe keeps on request: its place is sure before the run, its loss costs nothing."""

from pathlib import Path

import pytest

from tests.fake_cuda import FakeDriver
from tests.fake_nvml import FakeGpu
from tests.unit.probes.cuda.test_backend import POINT, SERVING, TRAINING, backend_on, silent, subject
from worker.probes.cuda.backend import SNAPSHOT_VARIABLE
from worker.probes.refusal import Refusal


def test_a_snapshot_is_kept_where_it_was_asked_for(tmp_path: Path) -> None:
    """One file for each point, named in the notes."""
    backend = backend_on(FakeGpu(uuid="GPU-1111"), environ={SNAPSHOT_VARIABLE: str(tmp_path)})
    session = backend.run(subject(TRAINING), POINT, tell=silent)
    (kept,) = tmp_path.iterdir()

    assert any(kept.name in note for note in session.notes)


def test_a_snapshot_has_its_directory_made(tmp_path: Path) -> None:
    """A measurement is not lost for want of it."""
    kept = tmp_path / "not" / "yet"
    backend_on(FakeGpu(uuid="GPU-1111"), environ={SNAPSHOT_VARIABLE: str(kept)}).run(subject(SERVING), POINT, tell=silent)

    assert [path.read_bytes() for path in kept.iterdir()] == [b"history"]


def test_a_snapshot_that_can_go_nowhere_is_refused_at_once(tmp_path: Path) -> None:
    """Before CUDA has started, in words that name the variable."""
    (tmp_path / "file").touch()
    driver = FakeDriver()
    backend = backend_on(FakeGpu(uuid="GPU-1111"), driver, environ={SNAPSHOT_VARIABLE: str(tmp_path / "file" / "in")})

    with pytest.raises(Refusal, match=SNAPSHOT_VARIABLE):
        backend.run(subject(SERVING), POINT, tell=silent)
    assert driver.calls == []


def test_a_snapshot_that_fails_costs_no_measurement(tmp_path: Path) -> None:
    """It is told beside what was measured."""

    class Full(FakeDriver):
        def dump_history(self, path: Path) -> None:
            raise OSError(28, "No space left on device", str(path))

    backend = backend_on(FakeGpu(uuid="GPU-1111"), Full(), environ={SNAPSHOT_VARIABLE: str(tmp_path)})
    session = backend.run(subject(SERVING), POINT, tell=silent)

    assert session.reading.live
    assert any("snapshot was not kept: " in note and "No space left" in note for note in session.notes)
