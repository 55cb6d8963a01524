"""``headroom measure``: what is asked, what is shown on the way, what ends it, and with which
code.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from service.__main__ import main
from service.cli.commands import measure

ASKED = ("measure", "llama-3.2-1b", "--task", "train", "--sequence-length", "2048")
PLAN = {
    "runs": [
        {
            "num_layers": 2,
            "micro_batch_size": 1,
            "sequence_length": 2048,
            "why": "what a layer adds",
            "expected_s": 1.5,
        },
    ],
    "expected_s": 1.5,
    "notes": ["ran 1 and 2 of 16 layers"],
}
EVENTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("status", {"status": "running"}),
    ("plan", PLAN),
    ("progress", {"phase": "backward", "progress": 0.5, "reading": "1.2 GiB"}),
)


def measured(status: str, *, out_of_memory: bool = False) -> dict[str, Any]:
    """Return a measurement as the server tells of it."""
    return {
        "id": "m1",
        "status": status,
        "phase": status,
        "progress": 1.0 if status == "succeeded" else 0.0,
        "device": "cpu",
        "attempt": 1,
        "problem": {"detail": "the probe was killed"} if status == "failed" else None,
        "warnings": [],
        "instants": [{"name": "backward", "allocated_bytes": 2**30}],
        "peaks": {"allocated_bytes": 2**30, "out_of_memory": out_of_memory},
        "prediction": {"allocated_bytes": 2**30, "error": 0.0},
        "extrapolated": True,
        "probes": [],
        "step_time_s": None,
        "calibration": None,
        "notes": [],
    }


class Server:
    """Server with one measurement, over once its events were read; Ctrl-C ``interrupts`` first."""

    def __init__(self, end: dict[str, Any], *, interrupts: int = 0) -> None:
        """Begin with a queued measurement."""
        self.end, self.interrupts = end, interrupts
        self.asked: list[tuple[str, str]] = []
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.now = measured("queued")
        self.refuses_to_cancel = False

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        self.asked.append((request.method, request.url.path))
        match request.method:
            case "POST":
                self.bodies.append(json.loads(request.content))
                self.keys.append(request.headers["idempotency-key"])
                return httpx.Response(202, json=self.now)
            case "DELETE" if self.refuses_to_cancel:
                return httpx.Response(409, json={"title": "Conflict", "detail": "it has ended"})
            case "DELETE":
                return httpx.Response(200, json=self.now)
        if not request.url.path.endswith("/events"):
            return httpx.Response(200, json=self.now)
        if self.interrupts:
            self.interrupts -= 1
            raise KeyboardInterrupt
        self.now = self.end
        return httpx.Response(
            200, content=b"".join(_sent(number, *one) for number, one in enumerate(EVENTS, start=1))
        )


def _sent(number: int, kind: str, data: dict[str, Any]) -> bytes:
    return f"id: {number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n".encode()


def served(monkeypatch: pytest.MonkeyPatch, server: Server) -> Server:
    """Let commands ask a server that is in this process."""

    @contextmanager
    def connect(_server: str | None) -> Iterator[httpx.Client]:
        with httpx.Client(
            base_url="http://server", transport=httpx.MockTransport(server)
        ) as client:
            yield client

    monkeypatch.setattr(measure, "connect", connect)
    return server


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (measured("succeeded"), 0),
        (measured("succeeded", out_of_memory=True), 1),
        (measured("failed"), 2),
        (measured("cancelled"), 2),
    ],
)
def test_the_code_says_how_it_ended(
    end: dict[str, Any], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured, out of memory, or no result."""
    served(monkeypatch, Server(end))

    assert main([*ASKED]) == code


def test_what_is_piped_is_the_result_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Plan and progress are for who watches; without a terminal no line moves and none is
    coloured.
    """
    served(monkeypatch, Server(measured("succeeded")))

    main([*ASKED])
    out, err = capsys.readouterr()

    assert "peak allocated 1.00 GiB" in out
    assert "plan: 1 run, about 1.5 s" not in out
    assert (
        "plan: 1 run, about 1.5 s\n  2 layers, 1 x 2048 tokens: what a layer adds (about 1.5 s)"
        in err
    )
    assert "ran 1 and 2 of 16 layers" in err
    assert "\x1b" not in out + err


def test_json_is_the_whole_measurement(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script reads what the server said, and nothing else."""
    served(monkeypatch, Server(measured("succeeded")))

    main([*ASKED, "--json"])

    assert json.loads(capsys.readouterr().out) == measured("succeeded")


def test_every_word_reaches_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The question, the device and how it is run, under a key that makes asking twice safe."""
    server = served(monkeypatch, Server(measured("succeeded")))

    main(
        [
            *ASKED,
            "--device",
            "trace",
            "--gpu",
            "H200-SXM5-141GB",
            "--full-depth",
            "--rank",
            "3",
            "--priority",
            "high",
        ],
    )

    [body] = server.bodies
    assert body["workload"]["sequence_length"] == 2048
    assert {
        name: body[name] for name in ("model", "device", "gpu", "full_depth", "rank", "priority")
    } == {
        "model": "llama-3.2-1b",
        "device": "trace",
        "gpu": "H200-SXM5-141GB",
        "full_depth": True,
        "rank": 3,
        "priority": "high",
    }
    assert all(server.keys)


def test_nobody_waits_for_what_is_detached(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The id alone, to watch it later."""
    server = served(monkeypatch, Server(measured("succeeded")))

    assert main([*ASKED, "--no-wait"]) == 0
    assert capsys.readouterr().out == "m1\n"
    assert server.asked == [("POST", "/v1/measurements")]


def test_ctrl_c_cancels_what_this_command_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It waits for the end of the probe, so that nothing runs on unseen, and ends as any
    interrupted program.
    """
    server = served(monkeypatch, Server(measured("cancelled"), interrupts=1))

    assert main([*ASKED]) == 130
    assert ("DELETE", "/v1/measurements/m1") in server.asked
    assert "measurement m1 is cancelled" in capsys.readouterr().err


def test_ctrl_c_leaves_a_measurement_of_somebody_else_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who only watches stops watching."""
    server = served(monkeypatch, Server(measured("succeeded"), interrupts=1))

    assert main(["measure", "--watch", "m1"]) == 130
    assert all(method == "GET" for method, _ in server.asked)
    assert "measurement m1 goes on; `headroom measure --watch m1`" in capsys.readouterr().err


def test_cancelling_needs_no_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """The id is enough."""
    server = served(monkeypatch, Server(measured("cancelled")))

    assert main(["measure", "--cancel", "m1"]) == 0
    assert server.asked == [("DELETE", "/v1/measurements/m1")]


STRANDED = "waits for a worker on device cuda; none is alive: start one with `headroom worker`"


def stranded(monkeypatch: pytest.MonkeyPatch) -> Server:
    """Serve a measurement that no living worker can run."""
    server = served(monkeypatch, Server(measured("succeeded")))
    server.now = {**measured("queued"), "warnings": [STRANDED]}
    monkeypatch.setattr(measure, "_LOOK_INTERVAL_S", 0.0)
    return server


def test_what_no_worker_can_run_ends_with_what_to_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody waits for ever: the job is cancelled and the code is that of no result."""
    server = stranded(monkeypatch)

    assert main([*ASKED]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert f"measurement m1 {STRANDED}" in err
    assert "--wait" in err
    assert ("DELETE", "/v1/measurements/m1") in server.asked


def test_what_a_worker_ended_meanwhile_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that can no longer be cancelled has a result, which is the answer."""
    stranded(monkeypatch).refuses_to_cancel = True

    assert main([*ASKED]) == 0


def test_who_says_so_waits_for_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ``--wait`` the command follows the job until a worker has run it."""
    server = stranded(monkeypatch)

    assert main([*ASKED, "--wait"]) == 0

    assert "DELETE" not in {method for method, _ in server.asked}


def test_what_is_detached_stays_queued_and_says_what_to_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The id is all of stdout, whoever may run it later."""
    server = stranded(monkeypatch)

    assert main([*ASKED, "--no-wait"]) == 0

    out, err = capsys.readouterr()
    assert (out, STRANDED in err) == ("m1\n", True)
    assert "DELETE" not in {method for method, _ in server.asked}


def test_the_server_chooses_the_device_that_nobody_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows which workers are alive and which GPUs they have."""
    server = served(monkeypatch, Server(measured("succeeded")))

    main([*ASKED])

    assert "device" not in server.bodies[0]
