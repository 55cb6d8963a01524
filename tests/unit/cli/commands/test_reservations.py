"""Reservations on the command line: what is missing or misspelt is told before a server is
asked.
"""

import pytest

from service.__main__ import main


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("add", "prod-a", "--holder", "alice", "--for", "1h"), "--gpus POOL=N or --file FILE"),
        (("add", "prod-a", "--gpus", "a=1"), "--holder WHO, --for TIME"),
        (("show", "prod-a"), "headroom reservations show prod-a ID"),
        (("extend", "prod-a", "1"), "extend also needs --for TIME"),
    ],
)
def test_what_is_missing_is_named(
    arguments: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A request that cannot be complete never leaves."""
    assert main(["reservations", *arguments]) == 2

    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "value", "told"),
    [
        ("--gpus", "a", "a100/n1=4"),
        ("--gpus", "a=0", "a100/n1=4"),
        ("--for", "2", "8h"),
        ("--for", "0h", "8h"),
    ],
)
def test_words_that_mean_nothing(
    flag: str, value: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The refusal shows what would be right."""
    with pytest.raises(SystemExit) as left:
        main(["reservations", "add", "prod-a", flag, value])

    assert left.value.code == 2
    assert told in capsys.readouterr().err
