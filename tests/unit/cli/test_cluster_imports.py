"""Imports by command: what is sent, and a watch that goes on, backs off and ends."""

import argparse
import json
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from service.__main__ import main
from service.base.errors import InvalidRequestError, UnavailableError
from service.base.server_refusals import ServerRefusalError
from service.cli.cluster_imports.repeating import (
    MAX_FAILURES,
    Rounds,
    repeat,
    run_command,
    stop_on_signals,
)
from service.cli.cluster_imports.sending import build_body
from service.cli.views.cluster_imports import show_import
from service.terminal.arguments import Parser

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


def make_options(**changes: object) -> argparse.Namespace:
    """Return the options of an import."""
    fields = dict.fromkeys(("format", "node", "scope", "gpu", "tolerate"))
    return argparse.Namespace(**fields | changes)


def test_what_no_reader_looks_at_is_not_sent() -> None:
    """Lists of images are most of a node's bytes; text stays as it is."""
    node = {
        "kind": "Node",
        "metadata": {"name": "n1", "managedFields": [1]},
        "status": {"images": [{"names": ["a"]}], "capacity": {"cpu": "1"}},
    }

    body = build_body(make_options(), [json.dumps({"items": [node]}), "<nvidia_smi_log/>"])

    assert body == {
        "content": {
            "items": [
                {
                    "kind": "Node",
                    "metadata": {"name": "n1"},
                    "status": {"capacity": {"cpu": "1"}},
                }
            ]
        },
        "also": ["<nvidia_smi_log/>"],
    }


def test_words_of_the_command_are_fields_of_the_request() -> None:
    """A GPU is a name of the catalogue, or an amount of memory."""
    options = make_options(
        format="slurm",
        scope="cluster",
        gpu=[("A100", "A100-SXM4-40GB"), ("z", {"memory_bytes": "24Gi"})],
        tolerate=["dedicated"],
    )

    assert build_body(options, ["{}"]) == {
        "content": {},
        "format": "slurm",
        "scope": "cluster",
        "gpus": {"A100": "A100-SXM4-40GB", "z": {"memory_bytes": "24Gi"}},
        "tolerates": ["dedicated"],
    }


def test_a_command_stands_behind_two_dashes() -> None:
    """Its own flags are not ours."""
    parser = Parser(prog="headroom clusters")
    parser.add_argument("name")
    parser.add_argument("--every", type=int)
    parser.accept_command("command")

    options = parser.parse_args(["a", "--every", "3", "--", "kubectl", "get", "--", "-o", "json"])

    assert (options.name, options.every) == ("a", 3)
    assert options.command == ["kubectl", "get", "--", "-o", "json"]
    assert parser.parse_args(["a"]).command == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("clusters import a", "which nodes? name a tool's output with --from FILE"),
        ("clusters import --from -", "import needs a name"),
        ("clusters import a --from /nonexistent", "cannot read /nonexistent"),
        ("clusters watch a", "which command? it stands behind --"),
        ("clusters watch a --apply -- ls", "`headroom clusters watch` takes no --apply"),
        ("clusters show a -- ls", "takes no command behind --"),
        ("clusters show a --gpu a=b", "`headroom clusters show` takes no --gpu"),
    ],
)
def test_what_is_missing_or_ignored_is_told(
    arguments: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before any server is asked."""
    assert main(arguments.split()) == 2

    assert told in capsys.readouterr().err


def test_a_file_that_is_no_text_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A packed file is not sent."""
    path = tmp_path / "nodes.json.gz"
    path.write_bytes(b"\x1f\x8b\x08\x00\xff\xfe\xfd")

    assert main(["clusters", "import", "a", "--from", str(path)]) == 2
    assert "is no text; send the tool's output as it prints it" in capsys.readouterr().err


def test_an_import_shows_what_changes(capsys: pytest.CaptureFixture[str]) -> None:
    """Before and after of each field, unknown GPUs with what may be meant, and warnings."""
    change = {
        "kind": "changed",
        "pool": "l4-x4",
        "node": "n1",
        "gpu": "L4",
        "fields": [
            {"name": "allocations", "before": [], "after": [{"holder": "ml/p"}]},
            {"name": "unavailable", "before": None, "after": "cordoned"},
        ],
    }
    answer = {
        "cluster": "lab",
        "applied": False,
        "source": "kubernetes",
        "num_added": 0,
        "num_removed": 0,
        "num_changed": 1,
        "num_changes": 1,
        "after": {"nodes": 1, "gpus": 4, "free_gpus": 3},
        "changes": [change],
        "unknown_gpus": [
            {
                "name": "A100",
                "num_nodes": 2,
                "num_gpus": 16,
                "memory_bytes": None,
                "candidates": ["A100-SXM4-40GB", "A100-SXM4-80GB"],
            }
        ],
        "left_out": [{"what": "c1", "reason": "has no GPUs"}],
        "warnings": ["old"],
    }

    show_import(answer)

    screen = capsys.readouterr().out
    for text in (
        "would change: 1 changed nodes by kubernetes; then 1 nodes, 4 GPUs, 3 free",
        "allocations none → ml/p, unavailable none → cordoned",
        "--gpu A100=A100-SXM4-40GB or A100-SXM4-80GB",
        "left out: c1: has no GPUs",
        "warning: old",
    ):
        assert text in " ".join(screen.split())
