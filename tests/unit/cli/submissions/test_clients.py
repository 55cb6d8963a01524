"""What submissions read from the clients of schedulers, in their own words."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from service.base.errors import InvalidRequestError
from service.cli.submissions.clients import Output, fill_variables, require_success, run_client
from service.cli.submissions.dstack import Dstack
from service.cli.submissions.errors import SchedulerError
from service.cli.submissions.journal import Entry, Journal
from service.cli.submissions.ray import Ray
from service.cli.submissions.scheduler import Scheduler, Sighting
from service.cli.submissions.skypilot import SkyPilot
from tests.unit.cli.submissions.fakes import SAMPLES

ENTRY = Entry(
    id="s1",
    scheduler="any",
    server="http://headroom",
    cluster="c",
    holder="ann",
    payload="{}",
    placement={},
    lease_s=900,
    sent_at=1.0,
)
MARK = ENTRY.mark
TWICE = (
    f'[\n {{"job_id": 4, "job_name": "{MARK}", "status": "FAILED_SETUP"}},'
    f' {{"job_id": 3, "job_name": "{MARK}", "status": "RECOVERING"}}\n]\n'
)
LAUNCHING = '[\n {"name": "sky.jobs.launch", "status": "RUNNING"}\n]\n'


def answer(monkeypatch: pytest.MonkeyPatch, printed: dict[str, Output]) -> None:
    """Let clients print something for the first two words of a command."""

    def run(command: Sequence[str], _text: str = "", **_options: object) -> Output:
        return printed[" ".join(command[:3])]

    for module in ("ray", "skypilot", "dstack"):
        monkeypatch.setattr(f"service.cli.submissions.{module}.run_client", run)


def say(text: str, code: int = 0) -> Output:
    """Return what a client printed, on either stream."""
    return Output(code=code, out="" if code else text, err=text if code else "")


def read(name: str) -> str:
    """Return what a real client printed."""
    return (SAMPLES / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("scheduler", "printed", "sighting"),
    [
        (
            Ray(),
            {"ray job status": say(read("ray_2_60_failed.txt").replace("headroom-f1", MARK))},
            Sighting(job=MARK),
        ),
        (
            Ray(),
            {"ray job status": say(read("ray_2_60_unknown.txt"), code=1)},
            Sighting(is_certain=True),
        ),
        (
            SkyPilot(),
            {"sky api status": say(LAUNCHING), "sky jobs queue": say("[]\n")},
            Sighting(),
        ),
        (
            SkyPilot(),
            {
                "sky api status": say(read("skypilot_0_14_requests.json")),
                "sky jobs queue": say("\x1b[2mA local server was started.\x1b[0m\n[]\n"),
            },
            Sighting(is_certain=True),
        ),
        (
            SkyPilot(),
            {
                "sky api status": say("[]\n"),
                "sky jobs queue": say(read("skypilot_0_14_stopped.txt"), code=1),
            },
            Sighting(),
        ),
        (
            SkyPilot(),
            {"sky api status": say("[]\n"), "sky jobs queue": say(TWICE)},
            Sighting(job="3", is_alive=True),
        ),
        (
            Dstack(),
            {"dstack run get": say(f"Run {MARK} not found\n", code=1)},
            Sighting(is_certain=True),
        ),
    ],
)
def test_what_a_client_knows_of_a_job(
    monkeypatch: pytest.MonkeyPatch,
    scheduler: Scheduler,
    printed: dict[str, Output],
    sighting: Sighting,
) -> None:
    """A log that speaks like the client is no state; nothing is certain while a launch is on."""
    answer(monkeypatch, printed)

    assert scheduler.find(ENTRY) == sighting


@pytest.mark.parametrize(
    ("scheduler", "printed", "reason"),
    [
        (Ray(), {"ray job status": say("RUNNING")}, "says nothing of the job"),
        (
            Ray(),
            {
                "ray job status": say(
                    "Traceback (most recent call last):\nConnectionError: no", code=1
                )
            },
            "ray job status failed with 1: ConnectionError: no$",
        ),
        (
            SkyPilot(),
            {"sky api status": say("[]\n"), "sky jobs queue": say("? 1 job")},
            "printed no JSON",
        ),
        (Dstack(), {"dstack run get": say("Project x not found", code=1)}, "Project x not found"),
        (Dstack(), {"dstack run get": say("a new version of dstack")}, "printed no JSON"),
    ],
)
def test_what_is_not_understood_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, scheduler: Scheduler, printed: dict[str, Output], reason: str
) -> None:
    """Neither a job nor its absence is made of words that nobody knows."""
    answer(monkeypatch, printed)

    with pytest.raises(SchedulerError, match=reason):
        scheduler.find(ENTRY)


def test_an_error_of_python_is_its_last_line() -> None:
    """Fifty lines of a traceback say nothing to who submits."""
    with pytest.raises(SchedulerError, match=r"^ray failed with 1: RuntimeError: .* not exist\.$"):
        require_success(("ray",), say(read("ray_2_60_unknown.txt"), code=1))


@pytest.mark.parametrize(
    ("scheduler", "document", "reason"),
    [
        (Ray(), {"job": None}, "--format rayservice"),
        (SkyPilot(), {"service": {}}, "sky serve up"),
        (SkyPilot(), {"envs": {"CHECKPOINT": None}}, "reads CHECKPOINT: set it here"),
        (Dstack(), {"env": ["CHECKPOINT", "DRAFT"]}, "reads CHECKPOINT, DRAFT: set them here"),
    ],
)
def test_what_cannot_run_there(scheduler: Scheduler, document: Any, reason: str) -> None:  # noqa: ANN401 - JSON
    """It is told before anything is reserved."""
    with pytest.raises(InvalidRequestError, match=reason):
        scheduler.prepare(document, ENTRY)


def test_variables_are_those_of_who_submits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job has them, and who goes on with it elsewhere need not."""
    monkeypatch.setenv("CHECKPOINT", "/models/a")

    assert fill_variables({"CHECKPOINT": None, "A": "b"}) == {"CHECKPOINT": "/models/a", "A": "b"}


def test_a_client_that_outlives_its_caller_keeps_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who was killed while it submitted may yet have a job: nobody else begins until it ends."""
    journal, (reader, writer) = Journal(folder=tmp_path), os.pipe()
    clients: list[subprocess.Popen[str]] = []

    def run(command: Sequence[str], **options: Any) -> Any:  # noqa: ANN401 - as subprocess has it
        kept = {"close_fds": options["close_fds"]}
        clients.append(subprocess.Popen(command, text=True, stdin=reader, **kept))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr("subprocess.run", run)
    with journal.lock("s1"):
        run_client(("cat",))
    with journal.lock("s1") as is_free_while_it_runs:
        pass
    os.close(writer)
    clients[0].wait(timeout=30)
    with journal.lock("s1") as is_free_after_it:
        pass
    os.close(reader)

    assert (is_free_while_it_runs, is_free_after_it) == (False, True)
