"""How long something lives, as a person writes it, within what a database can write down."""

import argparse
import json
import re
from pathlib import Path

import pytest

from service.cli.lifetimes import MAX_LIFETIME_S, parse_lifetime
from service.contract.schemas.access.keys import MAX_LIFE_S

CHART = Path(__file__).resolve().parents[3] / "deploy" / "chart" / "headroom"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("30m", 1800), ("8h", 28_800), ("2d", 172_800), ("3660d", MAX_LIFETIME_S)],
)
def test_a_time_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    """Up to ten years."""
    assert parse_lifetime(text) == seconds


@pytest.mark.parametrize("text", ["", "0d", "d", "1", "1.5h", "-1d", "1w", "1d ", "1d\n"])
def test_what_is_no_time_is_refused(text: str) -> None:
    """With examples of what is one."""
    with pytest.raises(argparse.ArgumentTypeError, match="say 90s, 30m, 8h or 2d"):
        parse_lifetime(text)


@pytest.mark.parametrize("text", ["3661d", "87841h", "316224001s", "999999999d"])
def test_a_time_that_no_database_can_write_down_is_refused(text: str) -> None:
    """By the bound that the API has for keys, and before any database is asked."""
    with pytest.raises(
        argparse.ArgumentTypeError, match="longer than ten years; say 3660d at most"
    ):
        parse_lifetime(text)
    assert MAX_LIFETIME_S == MAX_LIFE_S


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("", True),
        ("99999999s", True),
        ("999999m", True),
        ("9999h", True),
        ("3660d", True),
        ("3661d", False),
        ("4000d", False),
        ("999999999d", False),
        ("999999999m", False),
        ("0d", False),
    ],
)
def test_the_chart_takes_no_time_that_the_loop_refuses(text: str, *, fits: bool) -> None:
    """A loop that refuses its argument would be started again and again."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    pattern = schema["properties"]["reconcile"]["properties"]["keep"]["pattern"]

    assert (re.search(pattern, text) is not None) is fits
    if fits and text:
        assert parse_lifetime(text) <= MAX_LIFETIME_S
