"""The sweep itself: children that work, hang, die and talk nonsense, and the whole of it under fake
tensors.
"""

import sys
import time
from pathlib import Path

import pytest

from tests.gpu.sweep import __main__ as sweep
from tests.gpu.sweep.case import read_lines
from tests.gpu.sweep.cases import list_cases
from tests.gpu.sweep.child import CaseResult
from tests.gpu.sweep.runner import open_pool, run_all, run_case

CASE = list_cases()[0]
ANSWERS = "import sys; sys.stdin.read(); print('ready'); print('{\"refused\": \"not here\"}')"


def asked(tmp_path: Path, program: str, *, deadline_s: float = 30.0) -> CaseResult:
    """Return what is made of a child that runs this program."""
    command = (sys.executable, "-S", "-c", program)
    with open_pool(command, ahead=1, num_cases=1, log=tmp_path / "log") as children:
        return run_case(CASE, children, deadline_s=deadline_s)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import time; time.sleep(600)", "no answer within 0 s"),
        ("raise SystemExit(3)", "ended with status 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended with status -9"),
        ("print('ready'); print('nonsense')", "nonsense"),
    ],
)
def test_a_child_that_gives_no_answer_has_failed(tmp_path: Path, program: str, reason: str) -> None:
    """Whatever happens to one case, it is written down and the next one is run."""
    answer = asked(tmp_path, program, deadline_s=0.2 if "sleep" in program else 30.0)

    assert answer.failed is not None
    assert reason in answer.failed


def test_a_childs_words_are_its_answer(tmp_path: Path) -> None:
    """What it says first, that it is ready, is no part of it."""
    assert asked(tmp_path, ANSWERS) == CaseResult(refused="not here")


def test_a_budget_that_is_spent_ends_the_sweep(tmp_path: Path) -> None:
    """No case is begun after the end, and one that the end cut off is left for the next time."""
    taken: list[str] = []

    def run(program: str, budget_s: float) -> int:
        command = (sys.executable, "-S", "-c", program)
        with open_pool(command, ahead=0, num_cases=2, log=tmp_path / "log") as children:
            until = time.monotonic() + budget_s
            return run_all(
                [CASE, CASE],
                children,
                until=until,
                on_answer=lambda case, *_: taken.append(case.name),
            )

    assert run(ANSWERS, -1.0) == 0
    assert run("import time; time.sleep(600)", 0.2) == 0
    assert taken == []
    assert run(ANSWERS, 60.0) == 2
    assert taken == [CASE.name, CASE.name]


def test_a_sweep_runs_from_end_to_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fresh process, a data file with the prediction beside what was found, and nothing to do the
    second time.
    """
    smoke = next(case for case in list_cases() if case.group == "smoke")
    monkeypatch.setattr(sweep, "list_cases", lambda: [smoke])
    out = tmp_path / "sweep.jsonl"
    arguments = ["--out", str(out), "--device", "trace", "--only", "smoke", "--ahead", "1"]
    status = sweep.main(arguments)
    header, rows = read_lines(out.read_bytes())

    assert status == 0
    assert header is not None
    assert header.device == "trace"
    assert [row.failed or row.refused for row in rows] == [None]
    for row in rows:
        assert row.predicted is not None
        assert row.measured is not None
        assert row.measured.live_bytes == pytest.approx(row.predicted.allocated_bytes, rel=0.001)
    assert sweep.main(arguments) == 0
    assert "0 of 0 cases run, 1 were there" in capsys.readouterr().out
    assert sweep.main([*arguments, "--device", "cpu"]) == 2
