"""What was learnt, on the command line: tables of answers that a server gave, and refusals before
one is asked.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from service.__main__ import main
from service.cli.commands import accuracy, calibrations

ERRORS = {"median": 0.0909, "p95": 0.12, "bias": -0.09, "coverage": 0.5, "width": 0.02}
ANSWERS: dict[str, Any] = {
    "/v1/accuracy": {
        "level": 0.95,
        "classes": [
            {
                "kind": "transformers training, full, alone",
                "quantity": "allocated",
                "gpu": "H200-SXM5-141GB",
                "count": 4,
                "before": ERRORS,
                "after": {**ERRORS, "median": 0.0001, "coverage": None},
            },
        ],
        "shipped": [],
    },
    "/v1/calibrations": {
        "items": [
            {
                "id": "c1",
                "quantity": "allocated",
                "family": "llama",
                "kind": "training",
                "environment": "torch 2.13",
                "evidence": ["m1", "m2"],
                "drift": {
                    "stale": stale,
                    "drifting": drifting,
                    "current_environment": "torch 2.14",
                    "measured": 2,
                    "outside": 2,
                },
            }
            for stale, drifting in ((False, False), (True, False), (True, True))
        ],
        "next_cursor": None,
    },
    "/v1/calibrations/pools": {
        "items": [
            {
                "level": "family",
                "quantity": "allocated",
                "name": "llama, training",
                "keys": 3,
                "measurements": 7,
                "shares": {"backward": 0.02},
                "half_width": None,
            },
        ],
    },
    "/v1/calibrations/c1/remeasure": {"measurements": ["m3", "m4"]},
}


@pytest.fixture(autouse=True)
def _answering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer from the table above in place of a server."""

    @contextmanager
    def connect(_server: str | None) -> Iterator[httpx.Client]:
        def answered(request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, json=ANSWERS[request.url.path])

        with httpx.Client(
            base_url="http://server", transport=httpx.MockTransport(answered)
        ) as client:
            yield client

    for module in (accuracy, calibrations):
        monkeypatch.setattr(module, "connect", connect)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("accuracy",), ("H200-SXM5-141GB", "9.090%", "0.010%", "-9.000%", "50%")),
        (("calibrations",), ("holds: 2 of 2", "stale: torch 2.14", "drifting: 2 of 2")),
        (("calibrations", "pools"), ("llama, training", "backward +2.00%")),
        (("calibrations", "remeasure", "c1"), ("measurement m3", "measurement m4")),
        (("accuracy", "--json"), ('"median": 0.0909',)),
        (("calibrations", "--json"), ('"id": "c1"',)),
    ],
)
def test_what_a_server_learnt_is_shown(
    arguments: tuple[str, ...], told: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Errors before and after, what holds and what drifts, and what was asked for again."""
    assert main(arguments) == 0

    shown = " ".join(capsys.readouterr().out.split())
    assert [words for words in told if words not in shown] == []


def test_what_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Measuring again needs to know what."""
    assert main(["calibrations", "remeasure"]) == 2

    assert "headroom calibrations remeasure ID" in capsys.readouterr().err
