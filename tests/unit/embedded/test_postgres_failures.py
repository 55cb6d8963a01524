"""The log of a Postgres that ended comes with what to do about it."""

from pathlib import Path

import pytest

from service.embedded.postgres_failures import advise

FULL = 'PANIC:  could not write to file "pg_wal/xlogtemp.7": No space left on device'
OLD = 'FATAL:  could not open file "global/1": No such file or directory\n'


@pytest.mark.parametrize(
    ("log_text", "advice"),
    [
        (FULL, "the disk of /d is full"),
        (f"{OLD}LOG:  ready\n{FULL}", "the disk of /d is full"),
        (OLD, "is damaged"),
        ('FATAL:  "/d" is not a valid data directory', "is damaged"),
        ("PANIC:  could not locate a valid checkpoint record at 0/1", "is damaged"),
    ],
)
def test_the_last_severe_line_says_what_to_do(log_text: str, advice: str) -> None:
    """What was mended before the last start is no advice any more."""
    assert advice in str(advise(log_text, Path("/d")))


@pytest.mark.parametrize("log_text", ["", "LOG:  could not open file", "FATAL:  out of memory"])
def test_nothing_is_guessed(log_text: str) -> None:
    """A line that ends nothing, or that nobody knows, gives no advice."""
    assert advise(log_text, Path("/d")) is None
