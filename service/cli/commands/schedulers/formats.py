"""Words and options of the formats that commands render jobs in."""

import argparse
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from service.base.errors import InvalidRequestError
from service.terminal.arguments import format_choices, make_choice_reader

FORMATS = (
    "kubernetes",
    "dra",
    "kueue",
    "podgroup",
    "jobset",
    "trainjob",
    "lws",
    "disaggregatedset",
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


def add_format(parser: argparse.ArgumentParser, text: str) -> None:
    """Add a format, with what it prints, and what an installation calls things in it."""
    parser.add_argument(
        "--format",
        type=make_choice_reader(FORMATS),
        metavar=format_choices(FORMATS),
        help=text,
    )
    parser.add_argument(
        "--container-image", metavar="NAME", help="image of the pods, in place of the engine's own"
    )
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


def read_formats(options: argparse.Namespace) -> dict[str, object]:
    """Return the part of a search's request that says what its candidates are rendered in."""
    document = read_format_options(options)
    if options.format is not None:
        document["format"] = [options.format]
    if options.container_image is not None:
        document["container_image"] = options.container_image
    return document


def require_format(options: argparse.Namespace) -> None:
    """Refuse an image without a format, where it would have no effect."""
    if options.format is None and options.container_image is not None:
        message = "--container-image is of a rendered job: say --format as well"
        raise InvalidRequestError(message)


def print_candidate(word: str, candidate: Mapping[str, Any]) -> None:
    """Print a candidate of a search in a format; who answered is no part of it.

    Raises InvalidRequestError where the format cannot carry it.
    """
    requests = candidate["requests"]
    if requests[word] is None:
        notes = requests["launch"]["notes"]
        raise InvalidRequestError(
            next(note for note in reversed(notes) if note.startswith(f"{word}: "))
        )
    text = import_module("service.formats.manifests.yaml_text").as_text(requests[word])
    sys.stdout.write(text)


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
