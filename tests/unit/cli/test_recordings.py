"""Commands wait for a server's recording, and say why there is none."""

from typing import Any

import httpx
import pytest

from service.base.errors import ServiceError
from service.cli.watching import wait_for_recording

Json = dict[str, Any]


def build_model(state: str, progress: float = 0.0, reason: str | None = None) -> Json:
    """Return a stored model as a server shows it."""
    recording = {"progress": progress, "phase": "recording half", "reason": reason}
    return {"name": "mine", "state": state, "recording": None if state == "ready" else recording}


def wait(models: list[Json]) -> Json:
    """Return what comes of a model that a server shows so, one after another."""
    answers = iter(models)
    transport = httpx.MockTransport(lambda _request: httpx.Response(200, json=next(answers)))
    with httpx.Client(transport=transport, base_url="http://server") as client:
        return wait_for_recording(client, next(answers), pause=lambda _seconds: None)


def test_a_command_waits_until_a_model_is_ready(capsys: pytest.CaptureFixture[str]) -> None:
    """Each step is shown once."""
    steps = [build_model("recording", share) for share in (0.0, 0.5, 0.5)]

    model = wait([*steps, build_model("ready")])

    assert model["state"] == "ready"
    assert capsys.readouterr().err.splitlines() == [
        "headroom:   0% recording half",
        "headroom:  50% recording half",
    ]


def test_a_command_ends_with_the_recorders_words() -> None:
    """A model that cannot be recorded is an error of the command."""
    models = [build_model("recording"), build_model("refused", reason="its loss is a list")]

    with pytest.raises(ServiceError, match="mine could not be recorded: its loss is a list"):
        wait(models)
