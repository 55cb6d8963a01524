"""A watch of a cluster goes on, backs off, and ends."""

import signal
import sys
import threading
from typing import Any

import pytest

from service.base.errors import InvalidRequestError, UnavailableError
from service.base.server_refusals import ServerRefusalError
from service.cli.cluster_imports.repeating import (
    MAX_FAILURES,
    Rounds,
    repeat,
    run_command,
    stop_on_signals,
)

_FAILING = "import sys; sys.stderr.write('no such context'); sys.exit(3)"


class Server:
    """A server that answers imports from a list; what is not listed changes nothing."""

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        """Keep the answers, in their order."""
        self.answers = list(answers)
        self.calls: list[tuple[str, str | None, bool]] = []

    def __call__(
        self, output: str, *, etag: str | None = None, applies: bool = False
    ) -> tuple[dict[str, Any], str | None]:
        """Answer one request."""
        self.calls.append((output, etag, applies))
        answer = self.answers.pop(0) if self.answers else {"num_changes": 0}
        if isinstance(answer, Exception):
            raise answer
        return answer, f"v{len(self.calls)}"


def watch(
    server: Server, rounds: int, *, fails: frozenset[int] = frozenset()
) -> tuple[int, list[float], int]:
    """Return the exit code, the pauses, and how often something was shown."""
    pauses: list[float] = []
    shown: list[object] = []
    runs = iter(range(1000))

    def run() -> str:
        number = next(runs)
        if number in fails:
            message = f"kubectl ended with code {number}"
            raise InvalidRequestError(message)
        return f"output {number}"

    def wait(seconds: float) -> bool:
        if seconds:
            pauses.append(seconds)
        return False

    code = repeat(run, server, shown.append, Rounds(interval_s=10, limit=rounds), wait)
    return code, pauses, len(shown)


def test_a_watch_applies_each_output_to_the_version_it_saw() -> None:
    """It looks once, and then goes on from its own last version; nothing new is not shown."""
    server = Server({"num_changes": 3}, {"num_changes": 3}, {"num_changes": 0}, {"num_changes": 1})

    code, pauses, num_shown = watch(server, 3)

    assert server.calls == [
        ("output 0", None, False),
        ("output 0", "v1", True),
        ("output 1", "v2", True),
        ("output 2", "v3", True),
    ]
    assert (code, pauses, num_shown) == (0, [10, 10], 2)


def test_a_watch_looks_again_where_somebody_else_changed_the_cluster() -> None:
    """412 is no failure: the difference to what is there now is applied."""
    conflict = ServerRefusalError({"detail": "changed", "status": 412})
    server = Server({"num_changes": 1}, {"num_changes": 1}, conflict)

    code, _, _ = watch(server, 2)

    assert code == 0
    assert server.calls[2:] == [
        ("output 1", "v2", True),
        ("output 1", None, False),
        ("output 1", "v4", True),
    ]


def test_a_watch_backs_off_and_recovers(capsys: pytest.CaptureFixture[str]) -> None:
    """Failures of the command and of the server are told, and the pause doubles."""
    server = Server(UnavailableError("no server answers"))

    code, pauses, _ = watch(server, 4, fails=frozenset({1}))

    assert (code, pauses) == (0, [20, 40, 10])
    errors = capsys.readouterr().err
    assert "failed 1 times in a row: no server answers" in errors
    assert "failed 2 times in a row: kubectl ended with code 1" in errors


def test_a_watch_that_never_works_gives_up() -> None:
    """After many failures in a row somebody should know; pauses are bounded."""
    code, pauses, _ = watch(Server(), 0, fails=frozenset(range(1000)))

    assert (code, len(pauses), max(pauses)) == (2, MAX_FAILURES - 1, 600)


def test_a_watch_ends_without_an_error_when_it_is_told_to() -> None:
    """A command that is ended with it is no failure."""

    def run() -> str:
        message = "cat was ended"
        raise InvalidRequestError(message)

    code = repeat(run, Server(), print, Rounds(interval_s=10), lambda _seconds: True)

    assert code == 0


def test_a_command_is_run_and_its_failure_told() -> None:
    """Its output comes back whole; of a failure its code and its words."""
    stop = threading.Event()

    assert run_command([sys.executable, "-c", "print('{}')"], stop) == "{}\n"
    with pytest.raises(InvalidRequestError, match=r"ended with code 3: no such context"):
        run_command([sys.executable, "-c", _FAILING], stop)
    with pytest.raises(InvalidRequestError, match="cannot run /nonexistent"):
        run_command(["/nonexistent"], stop)


def test_a_command_ends_with_the_watch() -> None:
    """One that hangs is killed when the end has come."""
    stop = threading.Event()
    stop.set()

    with pytest.raises(InvalidRequestError, match="was ended"):
        run_command([sys.executable, "-c", "import threading; threading.Event().wait()"], stop)


def test_signals_end_a_watch_and_are_given_back() -> None:
    """SIGTERM sets the event in place of ending the process; afterwards it is as it was."""
    before = signal.getsignal(signal.SIGTERM)

    with stop_on_signals() as stop:
        signal.raise_signal(signal.SIGTERM)
        assert stop.is_set()

    assert signal.getsignal(signal.SIGTERM) is before
