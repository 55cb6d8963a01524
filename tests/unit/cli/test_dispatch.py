"""The command: one module for each name, loaded when it is asked for, and errors that say what
would be right.
"""

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version

import pytest

from service.__main__ import main
from service.cli.command_table import COMMANDS, load_command
from service.cli.commands.worker import DEVICES
from service.jobs.contract import ProbeDevice
from service.terminal.arguments import Parser
from worker.__main__ import AUTO
from worker.__main__ import main as start_worker


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_a_module(name: str) -> None:
    """Each command has arguments, a body and a sentence about itself."""
    module = load_command(name)

    module.add_arguments(Parser(prog=name))
    assert callable(module.run)
    assert module.__doc__


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``--help`` works for each command and leaves with 0."""
    with pytest.raises(SystemExit) as left:
        main([name, "--help"])

    assert left.value.code == 0
    assert f"headroom {name}" in capsys.readouterr().out


def test_the_overview_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command the overview is printed, and that is an error."""
    assert main([]) == 2

    shown = capsys.readouterr().out
    assert all(name in shown for name in COMMANDS)


def test_an_unknown_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt command is refused with the one that was meant."""
    assert main(["fitt"]) == 2

    assert "Did you mean 'fit'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("up --prot 8000", "Did you mean --port?"),
        ("fit gpt2 --batch 4", "Did you mean --micro-batch-size"),
        ("fit gpt2 --batch-size 4", "Did you mean --micro-batch-size"),
        ("measure gpt2 --batch 4", "or --micro-batch-size"),
        ("fit gpt2 --tp 2", "Did you mean --tensor-parallel?"),
        ("fit gpt2 --weight-type fp8", "Did you mean --weight-dtype?"),
        ("fit gpt2 --dtype fp8", "or --weight-dtype"),
        ("how-many gpt2 --tp 2", "Did you mean --tensor-parallel?"),
        ("fit gpt2 --device-map auto", "--cpu-offload-gb"),
        ("fit gpt2 --limit-mm-per-prompt image=2", "--image WxHxN"),
        ("fit gpt2 --swap-space 4", "-- vllm serve"),
    ],
)
def test_an_unknown_flag_names_what_was_meant(
    words: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A slip, a part of a longer flag and another program's word are each told their own."""
    with pytest.raises(SystemExit) as left:
        main(words.split())

    assert left.value.code == 2
    assert meant in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--num-gpus", "--gpus"])
def test_a_number_of_gpus_is_told_how_they_are_counted(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fit has the layout's degrees in its place."""
    with pytest.raises(SystemExit):
        main(["fit", "gpt2", "--gpu", "L4", "--task", "train", flag, "2"])

    assert "--data-parallel" in capsys.readouterr().err


def test_flags_are_not_abbreviated(capsys: pytest.CaptureFixture[str]) -> None:
    """An abbreviation would change its meaning with the next flag, so it is refused."""
    with pytest.raises(SystemExit):
        main(["up", "--work", "1"])

    assert "unknown argument '--work'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["plan", "gpt2", "--gpus", "L4", "--gpus", "H200"],
            "--gpus: said more than once; say it once, with commas between",
        ),
        (["fit", "gpt2", "--gpu", "L4", "--gpu=H200"], "--gpu: said more than once; say it once\n"),
        (
            ["fit", "gpt2", "--padding-mask", "--no-padding-mask"],
            "--padding-mask/--no-padding-mask: said more than once",
        ),
    ],
)
def test_a_flag_is_said_once(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two values one would be dropped without a word, so the second is refused."""
    with pytest.raises(SystemExit) as left:
        main(arguments)

    assert left.value.code == 2
    assert told in capsys.readouterr().err


def test_a_parser_reads_many_lines() -> None:
    """What one line said is not held against the next, and a flag for several values takes them."""
    parser = Parser(prog="headroom")
    parser.add_argument("--gpu")
    parser.add_argument("--price", action="append")

    assert [parser.parse_args(["--gpu", name]).gpu for name in ("L4", "L4")] == ["L4", "L4"]
    assert parser.parse_args(["--price", "a=1", "--price", "b=2"]).price == ["a=1", "b=2"]


@pytest.mark.parametrize("arguments", [["version"], ["--version"]])
def test_the_version_is_the_installed_one(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The version comes from the installation's metadata."""
    assert main(arguments) == 0

    assert capsys.readouterr().out == f"headroom {version('gpu-headroom')}\n"


def test_an_expected_refusal_is_one_line_and_code_two(capsys: pytest.CaptureFixture[str]) -> None:
    """What the user can mend is told on stderr, without a traceback."""
    assert main(["migrate"]) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("headroom: DATABASE_URL is not set")
    assert captured.err.count("\n") == 1


def test_the_dispatch_loads_nothing_heavy() -> None:
    """Before a command is known, neither the web framework nor the database nor a terminal library
    is loaded.
    """
    script = (
        "import sys, service.__main__; print(*(name for name in sys.argv[1:] if name in "
        "sys.modules))"
    )
    heavy = ["litestar", "sqlalchemy", "rich", "httpx", "msgspec", "structlog", "rq", "uvicorn"]
    answer = subprocess.run(
        [sys.executable, "-c", script, *heavy], capture_output=True, text=True, check=True
    )

    assert answer.stdout.split() == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("fit", "gpt2", "--task", "trian"),
            "--task: unknown value 'trian'. Did you mean 'train'? Known: train, serve.",
        ),
        (("models", "lst"), "unknown value 'lst'. Did you mean 'list'?"),
        (
            ("measure", "gpt2", "--device", "cdua"),
            "--device: unknown value 'cdua'. Did you mean 'cuda'?",
        ),
        (
            ("measure", "gpt2", "--priority", "asap"),
            "--priority: unknown value 'asap'. Known: low, normal, high.",
        ),
    ],
)
def test_an_unknown_word_names_the_nearest(
    arguments: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A misspelt word is refused with the one that was meant, and with all that are known."""
    with pytest.raises(SystemExit) as left:
        main(arguments)

    assert left.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("start", [main, lambda arguments: start_worker(arguments[1:])])
def test_a_worker_refuses_as_every_command_does(
    start: Callable[[list[str]], int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A device that is none is refused with those there are, by the command and by the process that
    it becomes.
    """
    monkeypatch.delenv("DATABASE_URL", raising=False)
    with pytest.raises(SystemExit) as left:
        start(["worker", "--device", "tpu"])

    assert left.value.code == 2
    assert capsys.readouterr().err.startswith(
        "headroom worker: argument --device: unknown value 'tpu'. Did you mean 'cpu'?"
    )
    assert start_worker(["--device", "cpu"]) == 2
    assert capsys.readouterr().err.startswith("headroom: DATABASE_URL is not set")
    assert {*DEVICES} == {*ProbeDevice, AUTO}


def test_a_server_has_at_least_one_process(capsys: pytest.CaptureFixture[str]) -> None:
    """None would have been read as one."""
    with pytest.raises(SystemExit) as left:
        main(["serve", "--workers", "0"])

    assert left.value.code == 2
    assert "--workers: '0' is none; say 1 or more" in capsys.readouterr().err
