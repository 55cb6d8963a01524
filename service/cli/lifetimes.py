"""How long something lives, as a person writes it: 90s, 30m, 8h, 2d."""

import argparse
import re

LIFE_HELP = "90s, 30m, 8h, 2d"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LIFE = re.compile(r"([1-9][0-9]{0,8})([smhd])")


def seconds_of(text: str) -> int:
    """Return the seconds of a lifetime."""
    found = _LIFE.fullmatch(text)
    if found is None:
        message = f"{text!r} is no time; say 90s, 30m, 8h or 2d"
        raise argparse.ArgumentTypeError(message)
    return int(found[1]) * _SECONDS[found[2]]


def add_keep(parser: argparse.ArgumentParser) -> None:
    """Take how long progress, samples and changes are kept."""
    parser.add_argument(
        "--keep",
        type=seconds_of,
        metavar="TIME",
        help=f"how long progress and samples of measurements that are over, and changes, are kept: {LIFE_HELP}; else for ever",
    )
