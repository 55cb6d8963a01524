"""``--confidence`` and ``--tight``: the level that fit, how-many and plan are asked at."""

import json

import pytest

from service.__main__ import main
from service.base.errors import InvalidRequestError
from service.cli.confidence import add_search_confidence, get_confidence
from service.terminal.arguments import Parser

FIT = ("fit", "gpt2", "--gpu", "T4", "--task", "train", "--sequence-length", "64", "--json")


@pytest.mark.parametrize(
    ("said", "level"),
    [((), 0.95), (("--confidence", "0.8"), 0.8), (("--tight",), None)],
    ids=["default", "level", "point"],
)
def test_a_search_is_asked_at_a_level_or_at_the_point(
    said: tuple[str, ...], level: float | None
) -> None:
    """What is not said is 0.95."""
    parser = Parser(prog="headroom")
    add_search_confidence(parser.add_argument_group("search"))

    assert get_confidence(parser.parse_args(said)) == level


def test_a_level_and_the_point_at_once_are_refused() -> None:
    """One of them would have no effect."""
    parser = Parser(prog="headroom")
    add_search_confidence(parser.add_argument_group("search"))

    with pytest.raises((InvalidRequestError, SystemExit)):
        parser.parse_args(["--tight", "--confidence", "0.8"])


def test_a_fit_has_the_intervals_that_were_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """The same bytes, in a narrower interval that says its level."""
    found = []
    for said in ((), ("--confidence", "0.6")):
        main([*FIT, *said])
        found.append(json.loads(capsys.readouterr().out)["per_gpu"])
    usual, narrow = found

    assert usual["device_bytes"] == narrow["device_bytes"]
    assert (usual["intervals"]["level"], narrow["intervals"]["level"]) == (0.95, 0.6)
    assert usual["intervals"]["reserved"][1] > narrow["intervals"]["reserved"][1]
