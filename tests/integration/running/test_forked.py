"""Programs that start as forks: what a test sees of them is what it sees of a ``Popen``."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.running.forked import ForkedProgram, make_probe_command, put_on_path, run_forked
from tests.waiting import eventually

PROBE = "tests.fake_probe"


@pytest.fixture(name="waiting")
def wait_for_input() -> ForkedProgram:
    """Return a program that waits for its input."""
    return ForkedProgram(
        PROBE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_a_program_has_its_arguments_streams_and_code() -> None:
    """Output and errors are apart, and its code is its own."""
    version, unknown = (run_forked("service", word) for word in ("version", "versoin"))

    assert (version.returncode, version.stderr) == (0, "")
    assert version.stdout.startswith("headroom ")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "Did you mean 'version'?" in unknown.stderr


def test_a_program_has_its_input(waiting: ForkedProgram) -> None:
    """It reads to the end; what is no request ends it with a traceback, as any program."""
    _, told = waiting.communicate(b"nonsense")

    assert waiting.returncode == 1
    assert b"Traceback" in told


def test_a_program_has_the_environment_and_the_folder(tmp_path: Path) -> None:
    """A file that it is to read lies in its own folder, and no variable is another's."""
    (tmp_path / "config.json").write_text("{}")
    question = ("fit", "./config.json", "--gpu", "T4", "--task", "train")

    here, elsewhere = (run_forked("service", *question, cwd=folder) for folder in (tmp_path, "/"))
    told = run_forked("service", "reconcile", env={"HEADROOM_LOG_LEVEL": "shrill"})

    assert "neither a directory" in here.stderr
    assert here.stderr != elsewhere.stderr
    assert "shrill" in told.stderr


def test_a_program_is_waited_for_and_signalled(waiting: ForkedProgram) -> None:
    """Patience ends, and a signal is a negative code."""
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(timeout=0.01)

    waiting.send_signal(signal.SIGINT)
    waiting.kill()

    assert waiting.wait() in {1, -signal.SIGKILL}
    waiting.communicate()


def test_shells_have_a_headroom_that_is_a_fork() -> None:
    """Its output goes through pipes, and its code to the shell."""
    environment = {**os.environ, "PATH": f"{put_on_path()}:{os.environ['PATH']}"}

    done = subprocess.run(
        ["/bin/sh", "-c", "headroom version | tr a-z A-Z; headroom versoin 2> /dev/null; echo $?"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.startswith("HEADROOM ")
    assert done.stdout.endswith("\n2\n")


def list_forks() -> set[int]:
    """Return the fork servers of this process, and forks of theirs, that run."""
    running: set[int] = set()
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "tests.running.fork_server" in process.cmdline():
                running.add(process.pid)
    return running


def test_a_probe_has_a_session_and_ends_when_it_is_killed() -> None:
    """A worker's probe leads a session, and whoever kills the program that stands for it ends the
    fork.
    """
    command = make_probe_command()
    # Its server has loaded torch when it has answered once.
    refused = subprocess.run([command], input=b"", capture_output=True, check=True)
    servers = list_forks()
    with subprocess.Popen([command], stdin=subprocess.PIPE, start_new_session=True) as client:
        eventually(lambda: list_forks() > servers)
        (fork,) = list_forks() - servers
        eventually(lambda: os.getsid(fork) == fork)
        client.kill()

    eventually(lambda: fork not in list_forks())
    assert b"invalid-request" in refused.stdout
