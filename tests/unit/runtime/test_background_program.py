"""A program beside a server."""

from pathlib import Path

from service.api.recording_lifespans import make_recording_lifespans
from service.runtime.background_program import BackgroundProgram
from service.runtime.recording_files import RecordingFiles


def test_a_program_ends_with_its_server() -> None:
    """One that would go on is ended, and one that was never started needs no end."""
    program = BackgroundProgram("http.server", ["--bind", "127.0.0.1", "0"])
    program.stop()
    program.start()
    process = program._process  # noqa: SLF001 - what a server never looks at

    program.stop()

    assert process is not None
    assert process.returncode is not None


def test_a_server_records_ahead_where_recordings_are_kept(tmp_path: Path) -> None:
    """Without a folder it starts nothing, nor where all recordings are kept."""
    before = make_recording_lifespans(tmp_path)
    RecordingFiles(tmp_path).mark_complete()

    after = make_recording_lifespans(tmp_path)

    assert make_recording_lifespans(None) == ()
    assert (len(before), len(after)) == (1, 0)
