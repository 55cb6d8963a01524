"""A probe process: its lines, its end, and that nothing of it stays behind."""

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from service.jobs.artifacts import ArtifactName
from service.jobs.contract import ProbeFailure, ProbeResult, ProbeUpdate, Progress, Sample
from service.runtime import line_process
from service.runtime.deadline import Allowance, DeadlineExceeded
from service.runtime.line_process import Stopped
from service.usecases.jobs.outcomes import describe_deadline
from tests.job_builders import a_probe_request
from tests.processes import has_ended
from tests.waiting import eventually
from worker import process
from worker.process import Died, Outcome, follow_probe, start_probe

PROBE = (sys.executable, "-m", "tests.fake_probe")
Line = ProbeUpdate


def run(
    script: list[dict[str, object]],
    *,
    deadline_s: float = 60.0,
    should_stop: Callable[[], bool] = lambda: False,
) -> tuple[Outcome, list[Line]]:
    """Play a script to its end; return the outcome and the lines before it."""
    lines: list[Line] = []
    with start_probe(PROBE, a_probe_request(script)) as probe:
        outcome = follow_probe(
            probe,
            allowance=Allowance(deadline_s=deadline_s),
            on_line=lines.append,
            should_stop=should_stop,
        )
    return outcome, lines


def test_lines_come_in_order_before_the_answer() -> None:
    """Progress and samples are handed on as they were written, and the result is the outcome."""
    outcome, lines = run([{"say": {"phase": "layer 1 of 2", "fraction": 0.5}}, {"sample": 7}])

    assert isinstance(outcome, ProbeResult)
    assert [type(line) for line in lines] == [Progress, Sample]
    assert isinstance(lines[0], Progress)
    assert lines[0].phase == "layer 1 of 2"


def test_a_refusal_is_an_outcome() -> None:
    """A probe that says why it cannot run is not a probe that died."""
    outcome, _ = run([{"fail": "mamba has no attention"}])

    assert isinstance(outcome, ProbeFailure)
    assert outcome.message == "mamba has no attention"


def test_a_probe_that_ends_without_an_answer_has_died_with_its_last_words() -> None:
    """The reason names the status and the end of stderr, for whoever reads the failed job."""
    outcome, _ = run([{"stderr": "MemoryError: no room"}, {"exit": 3}])

    assert isinstance(outcome, Died)
    assert "status 3" in outcome.reason
    assert "MemoryError: no room" in outcome.reason


def test_what_a_probe_logged_is_not_its_last_words() -> None:
    """Its own events are in the log; who reads why a job failed is told what is no event."""
    event = '{"event": "probe.began", "logger": "worker.probes", "level": "info"}\n'
    silent, _ = run([{"stderr": event}, {"exit": 3}])
    spoken, _ = run([{"stderr": f"{event}MemoryError: no room\n"}, {"exit": 3}])

    assert isinstance(silent, Died)
    assert isinstance(spoken, Died)
    assert silent.reason == "the probe ended with status 3 without an answer"
    assert spoken.reason.endswith("its last words: MemoryError: no room")


def test_a_probe_inherits_the_files_that_it_is_to_fill_and_no_others(tmp_path: Path) -> None:
    """What else its worker has open is none of its business."""
    with tempfile.TemporaryFile() as own, (tmp_path / "secret").open("wb") as other:
        os.set_inheritable(other.fileno(), True)  # noqa: FBT003 - as os has it
        wanted, unwanted = own.fileno(), other.fileno()
        request = structs.replace(a_probe_request(), files={ArtifactName.MEMORY_SNAPSHOT: wanted})
        code = (
            "import os, sys; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd')), "
            "file=sys.stderr)"
        )
        with start_probe((sys.executable, "-c", code), request) as probe:
            outcome = follow_probe(
                probe,
                allowance=Allowance(deadline_s=60.0),
                on_line=lambda _line: None,
                should_stop=lambda: False,
            )

    assert isinstance(outcome, Died)
    opened = json.loads(outcome.reason.partition("its last words: ")[2])
    assert wanted in opened
    assert unwanted not in opened


def test_a_killed_probe_names_the_signal(tmp_path: Path) -> None:
    """Kill -9 is seen as such."""
    ready = tmp_path / "ready"
    script: list[dict[str, object]] = [{"touch": str(ready)}, {"wait_for": str(tmp_path / "never")}]
    with start_probe(PROBE, a_probe_request(script)) as probe:
        eventually(ready.exists)
        os.kill(int(ready.read_text()), 9)
        outcome = follow_probe(
            probe,
            allowance=Allowance(deadline_s=60),
            on_line=lambda _line: None,
            should_stop=lambda: False,
        )

    assert outcome == Died(reason="the probe was killed by SIGKILL without an answer")


@pytest.mark.parametrize(
    "text",
    ["not json\n", '{"type": "progress"}\n', '{"type": "other"}\n', '{"type": "sample", "x": 1}\n'],
)
def test_a_line_that_is_no_message_ends_the_attempt(text: str) -> None:
    """Noise on stdout is never skipped: what follows could be half of an answer."""
    outcome, _ = run([{"raw": text}, {"say": {"phase": "never seen", "fraction": 0.0}}])

    assert isinstance(outcome, Died)
    assert "probe protocol" in outcome.reason


def test_a_line_without_an_end_is_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A probe cannot fill the worker's memory with one line."""
    monkeypatch.setattr(process, "MAX_LINE_BYTES", 1000)

    outcome, _ = run([{"raw": "x" * 2000}, {"wait_for": str(tmp_path / "never")}])

    assert isinstance(outcome, Died)


def test_half_an_answer_is_none() -> None:
    """A result without its newline may be cut off, so it does not count."""
    outcome, _ = run(
        [{"raw": '{"type": "failure", "kind": "unsupported", "message": "x"}'}, {"exit": 0}]
    )

    assert isinstance(outcome, Died)


def test_the_deadline_holds_for_a_probe_that_says_nothing(tmp_path: Path) -> None:
    """The parent's clock decides, whatever the probe is stuck in."""
    outcome, _ = run([{"wait_for": str(tmp_path / "never")}], deadline_s=0.3)

    assert outcome == DeadlineExceeded(deadline_s=0.3)


@pytest.mark.parametrize(
    ("waited_s", "reason", "remedy"),
    [
        (30.0, "killed after 600 s", "HEADROOM_PROBE_DEADLINE_S"),
        (1500.0, "waited 1500 s for a processor", "HEADROOM_JOB_DEADLINE_S"),
    ],
)
def test_what_would_help_is_said(waited_s: float, reason: str, remedy: str) -> None:
    """A question that is too large asks for less, a host that is busy for patience."""
    text = describe_deadline(DeadlineExceeded(deadline_s=600.0, waited_s=waited_s))

    assert reason in text
    assert remedy in text


def test_a_probe_that_ignores_sigterm_is_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Politeness ends after the grace."""
    monkeypatch.setattr(line_process, "TERMINATE_GRACE_S", 0.1)
    ready = tmp_path / "ready"

    outcome, _ = run(
        [{"deaf": True}, {"touch": str(ready)}, {"wait_for": str(tmp_path / "never")}],
        should_stop=ready.exists,
    )

    assert outcome == Stopped()
    assert has_ended(int(ready.read_text()))


def test_a_job_does_not_hang_with_a_probe_that_the_kernel_cannot_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A driver that hangs keeps even a killed process; whoever waits for it is let go."""
    gate = tmp_path / "gate"
    with start_probe(PROBE, a_probe_request([{"wait_for": str(gate)}])) as probe:
        with monkeypatch.context() as hanging:
            hanging.setattr(line_process, "TERMINATE_GRACE_S", 0.0)
            hanging.setattr(line_process, "KILL_GRACE_S", 0.0)
            hanging.setattr(line_process, "_signal_group", lambda _process, _number: None)
            line_process.kill_group(probe)
        is_still_there = not has_ended(probe.pid)

    assert is_still_there
    assert has_ended(probe.pid)


def test_what_the_probe_started_ends_with_it(tmp_path: Path) -> None:
    """The whole process group goes, also after an answer."""
    child = tmp_path / "child"

    outcome, _ = run([{"child": str(child)}])

    assert isinstance(outcome, ProbeResult)
    pid = int(child.read_text())
    eventually(lambda: has_ended(pid))
