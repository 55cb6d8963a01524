"""Flags for images, videos and audio: ``--image 1024x768x4``."""

import argparse
import json
import re
from pathlib import Path
from typing import Any

_SIZE = re.compile(r"([0-9]{1,9})x([0-9]{1,9})(?:x([0-9]{1,9}))?", re.ASCII)
_CLIP = re.compile(r"([0-9]{1,9})x([0-9]{1,9})x([0-9]{1,9})(?:x([0-9]{1,9}))?", re.ASCII)
_SOUND = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)s?(?:x([0-9]{1,9}))?", re.ASCII)
_MOST_BYTES = 1 << 20


def add_input_flags(parser: argparse._ActionsContainer) -> None:
    """Add the flags of what a sequence has beside its text."""
    group = parser.add_argument_group("images, videos and audio of each sequence")
    for option, field, read, metavar, text in (
        ("--image", "images", _read_picture, "WxH[xN]", "N images of W by H pixels; may repeat"),
        (
            "--video",
            "videos",
            _read_clip,
            "FxWxH[xN]",
            "N videos of F frames of W by H pixels; may repeat",
        ),
        ("--audio", "audio", _read_sound, "S[xN]", "N stretches of S seconds; may repeat"),
    ):
        group.add_argument(
            option,
            dest=f"workload.inputs.{field}",
            type=read,
            metavar=metavar,
            action="extend",
            help=text,
        )
    group.add_argument(
        "--inputs-processor",
        dest="workload.inputs.processor",
        type=_read_processor,
        metavar="FILE",
        help="a preprocessor_config.json, or its fields as JSON; default those of the type's "
        "checkpoints",
    )


def _read_picture(text: str) -> list[dict[str, int]]:
    """Return the images of ``1024x768x4``."""
    match = _match(_SIZE, text, "1024x768, or 1024x768x4 for four")
    return _name_numbers(("width", "height", "count"), match)


def _read_clip(text: str) -> list[dict[str, int]]:
    """Return the videos of ``64x448x448``."""
    match = _match(_CLIP, text, "64x448x448 for 64 frames of 448 by 448 pixels")
    return _name_numbers(("frames", "width", "height", "count"), match)


def _read_sound(text: str) -> list[dict[str, float]]:
    """Return the audio of ``30s`` or ``30sx2``."""
    match = _match(_SOUND, text, "30s, or 30sx2 for two")
    sound: dict[str, float] = {"seconds": float(match[1])}
    return [sound | {"count": int(match[2])} if match[2] else sound]


def _read_processor(text: str) -> dict[str, Any]:
    """Return the fields of a processor, of a file or as typed."""
    if not text.lstrip().startswith("{"):
        path = Path(text)
        try:
            if path.stat().st_size > _MOST_BYTES:
                message = f"{text} is larger than {_MOST_BYTES} bytes"
                raise argparse.ArgumentTypeError(message)
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            message = f"{text} cannot be read: {error}"
            raise argparse.ArgumentTypeError(message) from error
    try:
        fields = json.loads(text)
    except json.JSONDecodeError as error:
        message = f"no JSON: {error}"
        raise argparse.ArgumentTypeError(message) from error
    if not isinstance(fields, dict):
        message = "no JSON object; a preprocessor_config.json is one"
        raise argparse.ArgumentTypeError(message)
    return fields


def _match(pattern: re.Pattern[str], text: str, example: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        message = f"{text!r:.40} is no size; say {example}"
        raise argparse.ArgumentTypeError(message)
    return match


def _name_numbers(names: tuple[str, ...], match: re.Match[str]) -> list[dict[str, int]]:
    numbers = zip(names, match.groups(), strict=True)
    return [{name: int(number) for name, number in numbers if number is not None}]
