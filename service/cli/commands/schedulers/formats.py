"""Words and options of the formats that commands render jobs in."""

import argparse

from service.base.errors import InvalidRequestError

FORMATS = (
    "kubernetes",
    "dra",
    "kueue",
    "podgroup",
    "jobset",
    "trainjob",
    "lws",
    "rayjob",
    "rayservice",
    "llminferenceservice",
    "dynamo",
    "volcano",
    "kai",
    "hami",
    "runai",
    "slinky",
    "slurm",
    "ray",
    "skypilot",
    "dstack",
)
"""Words of ``service/formats/manifests/registry.py``, which a question alone need not load."""
OPTIONS = ("queue", "topology", "gate", "namespace", "name")
_SWITCHES = {"true": True, "false": False}


def add_format_options(parser: argparse.ArgumentParser) -> None:
    """Add what an installation calls things."""
    parser.add_argument(
        "--format-option",
        action="append",
        metavar="KEY=VALUE",
        help=f"of --format, several times: {', '.join(OPTIONS)} (gate=true)",
    )


def read_format_options(options: argparse.Namespace) -> dict[str, object]:
    """Return the part of a request that has the options, if any is said.

    Raises InvalidRequestError for an option that there is not, and without a format.
    """
    if options.format_option is None:
        return {}
    if options.format is None:
        message = "--format-option is of a rendered job: say --format as well"
        raise InvalidRequestError(message)
    return {"format_options": dict(map(_read_option, options.format_option))}


def _read_option(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if name not in OPTIONS or not equals or not value:
        message = f"--format-option takes KEY=VALUE of {', '.join(OPTIONS)}; {text!r} is none"
        raise InvalidRequestError(message)
    if name != "gate":
        return name, value
    if value not in _SWITCHES:
        message = f"--format-option gate is true or false, not {value!r}"
        raise InvalidRequestError(message)
    return name, _SWITCHES[value]
