"""Lifetimes as a person writes them: 90s, 30m, 8h, 2d."""

import argparse
import re

LIFE_HELP = "90s, 30m, 8h, 2d"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
MAX_LIFETIME_S = 10 * 366 * _SECONDS["d"]
"""Ten years, as the API has it for keys: a moment that lies further away is none that every
database can write down.
"""
_LIFE = re.compile(r"([1-9][0-9]{0,8})([smhd])")


def parse_lifetime(text: str) -> int:
    """Return the seconds of a lifetime, up to ten years."""
    match = _LIFE.fullmatch(text)
    if match is None:
        message = f"{text!r} is no time; say 90s, 30m, 8h or 2d"
        raise argparse.ArgumentTypeError(message)
    seconds = int(match[1]) * _SECONDS[match[2]]
    if seconds > MAX_LIFETIME_S:
        message = (
            f"{text!r} is longer than ten years; say {MAX_LIFETIME_S // _SECONDS['d']}d at most"
        )
        raise argparse.ArgumentTypeError(message)
    return seconds


def add_keep(parser: argparse.ArgumentParser) -> None:
    """Add how long progress, samples and changes are kept."""
    parser.add_argument(
        "--keep",
        type=parse_lifetime,
        metavar="TIME",
        help="how long progress, samples and files of measurements that are over, and changes, are "
        "kept: "
        f"{LIFE_HELP}; else for ever",
    )
