"""The command line of submissions: what cannot be submitted is told before anything happens."""

import io
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from service.__main__ import main
from service.base.errors import InvalidRequestError
from service.cli.commands.schedulers import submit
from service.cli.submissions.journal import Entry, Journal

PLACED = {
    "placement": {"status": "placed", "nodes": []},
    "requests": {"slurm": "#!/bin/sh\n", "kubernetes": None},
}
ENTRY = Entry(
    id="s1",
    scheduler="slurm",
    server="http://127.0.0.1:1",
    cluster="c",
    holder="ann",
    payload="",
    placement={},
    lease_s=60,
)
TARGET = ("--to", "slurm", "--cluster", "c")


def ask(
    monkeypatch: pytest.MonkeyPatch, folder: Path, plan: dict[str, Any], *arguments: str
) -> int:
    """Submit a plan from stdin."""
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(plan)))
    return main(["submit", *arguments, "--journal", str(folder)])


@pytest.mark.parametrize(
    ("plan", "arguments", "refusal"),
    [
        ({"candidates": [PLACED]}, ("--to", "slurm"), (2, "submit also needs --cluster NAME")),
        ({"candidates": [PLACED]}, (*TARGET, "--lease", "30s"), (2, "between 60s and 12h")),
        ({"candidates": [PLACED]}, (*TARGET, "--submission-id", "A b"), (2, "such as run-7")),
        ({"verdict": "fits"}, TARGET, (2, "it has no candidates")),
        ({"candidates": [], "reason": "too large"}, TARGET, (1, "no plan to submit: too large")),
        ({"candidates": [{"placement": None}]}, TARGET, (2, "is on no cluster")),
        (
            {"candidates": [{"placement": {"status": "not_today", "reason": "8 are taken"}}]},
            TARGET,
            (1, "does not run today: 8 are taken"),
        ),
        (
            {"candidates": [PLACED]},
            ("--to", "kubernetes", "--cluster", "c"),
            (2, "--format kubernetes --json"),
        ),
    ],
)
def test_what_cannot_be_submitted(
    plan: dict[str, Any],
    arguments: tuple[str, ...],
    refusal: tuple[int, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The refusal says what would be right, and nothing is written down."""
    code, reason = refusal

    assert ask(monkeypatch, tmp_path / "journal", plan, *arguments) == code
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "journal").exists()


def test_a_second_process_keeps_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While one is at a submission, another does nothing."""
    with Journal(folder=tmp_path).lock("s1"):
        code = ask(
            monkeypatch, tmp_path, {"candidates": [PLACED]}, *TARGET, "--submission-id", "s1"
        )

    assert (code, list(tmp_path.glob("*.json"))) == (2, [])
    assert "another process is at submission s1" in capsys.readouterr().err


def test_what_has_ended_is_not_submitted_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same submission is the same job, long after its end."""
    Journal(folder=tmp_path).write(replace(ENTRY, job="4711", is_over=True))

    assert main(["submit", "--submission-id", "s1", "--journal", str(tmp_path)]) == 0

    assert "it ran as slurm job 4711" in capsys.readouterr().err


def test_the_same_plan_is_the_same_submission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its id is a digest; another cluster, server or user makes another."""
    monkeypatch.setattr(submit, "_submit", lambda *_: 0)
    for cluster, server, user in (
        ("c", "http://a", "ann"),
        ("c", "http://a", "ann"),
        ("d", "http://a", "ann"),
        ("c", "http://b", "ann"),
        ("c", "http://a", "bob"),
    ):
        monkeypatch.setenv("LOGNAME", user)
        words = ("--to", "slurm", "--cluster", cluster, "--server", server)
        ask(monkeypatch, tmp_path, {"candidates": [PLACED]}, *words)

    names = [line.split()[2] for line in capsys.readouterr().err.splitlines()]
    assert (names[0] == names[1], len(set(names))) == (True, 4)
    assert len(list(tmp_path.glob("*.json"))) == 4


def test_the_question_of_a_plan_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once, before anything is submitted; a server that keeps none is no reason to stop."""
    monkeypatch.setattr(submit, "_submit", lambda *_: 0)
    candidate = {
        **PLACED,
        "gpu": "L40S",
        "layout": {"data_parallel": 1},
        "workload": {"task": "train"},
    }
    asked: list[dict[str, Any]] = []

    def name_question(_client: object, question: dict[str, Any]) -> str:
        asked.append(question)
        if len(asked) > 1:
            message = "there is no such resource"
            raise InvalidRequestError(message)
        return "9" * 32

    monkeypatch.setattr("service.cli.submissions.promises.name_question", name_question)
    plan = {"model": "gpt2", "candidates": [candidate]}
    for submission_id in ("s1", "s2"):
        ask(monkeypatch, tmp_path, plan, *TARGET, "--submission-id", submission_id)

    question = {"model": "gpt2", **{name: candidate[name] for name in ("layout", "workload")}}
    entries = [Journal(folder=tmp_path).read(name) for name in ("s1", "s2")]
    digests = [entry.digest for entry in entries if entry is not None]
    assert asked == [question | {"gpu": "L40S"}] * 2
    assert digests == ["9" * 32, ""]
    assert "will not be joined to its plan: there is no such resource" in capsys.readouterr().err


def test_an_unreadable_submission_hinders_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is told, those of a newer version too, and what can be looked after is."""
    journal = Journal(folder=tmp_path)
    for submission_id in ("s1", "s5"):
        journal.write(replace(ENTRY, id=submission_id))
    (tmp_path / "s2.json").write_text("{")
    (tmp_path / "s3.json").write_text(json.dumps(asdict(ENTRY) | {"id": "s3", "priority": 1}))
    journal.write(replace(ENTRY, id="s4", scheduler="flux"))

    code = main(["submit", "--reconcile", "--journal", str(tmp_path)])

    assert (code, journal.list_open()) == (1, ["s2", "s3", "s4"])
    errors = capsys.readouterr().err
    assert "submission s2: cannot read" in errors
    assert "unexpected keyword argument 'priority'" in errors
    assert "submission s4: this version of headroom knows no scheduler 'flux'" in errors


def test_what_ended_before_it_was_put_away_is_put_away(tmp_path: Path) -> None:
    """A crash leaves it among the open ones, and so did earlier versions."""
    journal = Journal(folder=tmp_path)
    path = tmp_path / "s1.json"
    path.write_text(json.dumps(asdict(replace(ENTRY, job="4711", is_over=True))))

    assert main(["submit", "--reconcile", "--journal", str(tmp_path)]) == 0

    assert (journal.list_open(), path.exists()) == ([], False)
    assert journal.read("s1") == replace(ENTRY, job="4711", is_over=True)
