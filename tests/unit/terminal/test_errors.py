"""How a command fails: in one line, never with the code that means "does not fit", and quietly when
nobody reads.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from service.__main__ import main
from service.cli.views.tables import make_console
from service.terminal.errors import describe_error

FIT = ("fit", "gpt2", "--gpu", "A100-SXM4-80GB", "--task", "train", "--sequence-length", "128")


def headroom(
    *arguments: str, stdout: int, stderr: int = subprocess.PIPE, **changes: str
) -> subprocess.CompletedProcess[str]:
    """Run a command whose outputs go where a test wants them."""
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HEADROOM_", "DATABASE_"))
    }
    command = [sys.executable, "-m", "service", *arguments]
    return subprocess.run(
        command,
        stdout=stdout,
        stderr=stderr,
        text=True,
        check=False,
        timeout=120,
        env={**ours, **changes},
    )


@contextmanager
def unread_pipe() -> Iterator[int]:
    """Yield the writing end of a pipe whose reader has left."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def break_a_command(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Put a command that fails in the place of ``headroom version``."""

    def run(_options: object) -> int:
        raise error

    broken = ModuleType("service.cli.commands.about.version", "Fail.")
    vars(broken).update(add_arguments=lambda _parser: None, run=run)
    monkeypatch.setitem(sys.modules, "service.cli.commands.about.version", broken)


@pytest.mark.parametrize("arguments", [FIT, (*FIT, "--json"), ("fit", "--help"), ("version",)])
def test_a_reader_that_has_left_ends_it_quietly(arguments: tuple[str, ...]) -> None:
    """Tables, JSON and help end as by SIGPIPE, without a word and without the code of a verdict."""
    with unread_pipe() as writer:
        ended = headroom(*arguments, stdout=writer)

    assert (ended.returncode, ended.stderr) == (141, "")


def test_an_error_that_nobody_reads_is_still_an_error() -> None:
    """When stderr is gone as well, the exit code still says that there is no answer."""
    with unread_pipe() as writer:
        ended = headroom("fit", "no-such-model", *FIT[2:], stdout=subprocess.PIPE, stderr=writer)

    assert ended.returncode == 2


@pytest.mark.parametrize("arguments", [FIT, (*FIT, "--json"), ("version",)])
def test_an_output_that_takes_no_more_is_told(arguments: tuple[str, ...]) -> None:
    """A full disk is one line and code 2."""
    with Path("/dev/full").open("w") as full:
        ended = headroom(*arguments, stdout=full.fileno())

    assert (ended.returncode, ended.stderr) == (2, "headroom: No space left on device\n")


def test_a_closed_output_asks_for_the_code_alone() -> None:
    """With stdout closed the verdict is the exit code, and nothing fails for lack of a place to
    print.
    """
    command = [sys.executable, "-m", "service", *FIT]
    closed = ["sh", "-c", '"$@" >&-', "sh", *command]
    ended = subprocess.run(closed, capture_output=True, text=True, check=False, timeout=120)

    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_consoles_lost_reader_is_the_commands_affair() -> None:
    """Rich would leave with 1 by itself; our console raises instead."""
    with pytest.raises(BrokenPipeError):
        make_console().on_broken_pipe()


def test_an_unknown_error_is_one_line_and_code_two(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error that nobody expected is told by its kind and its words, on one line, with the way to
    its place.
    """
    monkeypatch.delenv("HEADROOM_DEBUG", raising=False)
    monkeypatch.delenv("HEADROOM_LOG_LEVEL", raising=False)
    break_a_command(monkeypatch, KeyError("first\nsecond"))

    assert main(["version"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("headroom: an error that nobody expected, KeyError: ")
    assert told.count("\n") == 1
    assert "HEADROOM_DEBUG=1" in told


@pytest.mark.parametrize(
    ("variable", "value"), [("HEADROOM_DEBUG", "1"), ("HEADROOM_LOG_LEVEL", "debug")]
)
def test_who_debugs_sees_the_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], variable: str, value: str
) -> None:
    """The traceback is there for who asks for it, and the code stays 2."""
    monkeypatch.setenv(variable, value)
    break_a_command(monkeypatch, KeyError("lost"))

    assert main(["version"]) == 2
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_an_interrupt_has_the_code_of_its_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is 130, as a shell has it."""
    break_a_command(monkeypatch, KeyboardInterrupt())

    assert main(["version"]) == 130


def test_the_systems_errors_name_their_file() -> None:
    """What the system refuses is told with the file that it was about."""
    assert (
        describe_error(PermissionError(13, "Permission denied", "/data/x"))
        == "Permission denied: /data/x"
    )
    assert describe_error(OSError(5, "Input/output error")) == "Input/output error"


@pytest.mark.parametrize("below", [".", "data"])
def test_a_data_directory_that_cannot_be_is_one_line(tmp_path: Path, below: str) -> None:
    """A file where a directory should be, or on the way to it, is code 2 and no traceback."""
    taken = tmp_path / "taken"
    taken.touch()
    ended = headroom("up", "--port", "0", "--data-dir", str(taken / below), stdout=subprocess.PIPE)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"headroom: {taken / below} cannot be the data directory: ")
    assert ended.stderr.count("\n") == 1


def test_a_database_that_does_not_answer_is_one_line() -> None:
    """``headroom migrate`` against a dead host says what the driver said, once."""
    url = "postgresql://headroom:secret@127.0.0.1:1/headroom"
    ended = headroom("migrate", stdout=subprocess.PIPE, DATABASE_URL=url)

    assert ended.returncode == 2
    assert ended.stderr.startswith("headroom: the database at DATABASE_URL could not be migrated: ")
    assert ended.stderr.count("\n") == 1
    assert "secret" not in ended.stderr
