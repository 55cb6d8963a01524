"""Commands of systemd's units: ``ExecStart`` with the unit's environment."""

import re
from collections.abc import Iterator
from dataclasses import replace

from service.formats.command_words import split_words
from service.formats.launches.shell.scripts import ScriptCommand, read_script
from service.formats.launches.values.errors import LaunchFormatError

SUFFIX = ".service"
_CONTINUED = re.compile(r"\\\n")
_COMMENT = re.compile(r"^[ \t]*+[#;].*\n?", re.MULTILINE)
"""A line that is skipped, also within a continued one (``systemd.syntax``)."""
_MAX_STARTS = 100
_PREFIXES = "@-:+!|"
"""Signs before a command (``systemd.service``, special executable prefixes)."""


def list_unit_commands(name: str, text: str) -> Iterator[ScriptCommand]:
    """Yield the commands that a unit starts, with its variables in place."""
    environment: dict[str, str] = {}
    starts: list[str] = []
    text = _COMMENT.sub("", text.replace("\r\n", "\n"))
    for line in _CONTINUED.sub(" ", text).splitlines():
        key, value = (part.strip() for part in line.partition("=")[::2])
        if key == "Environment":
            pairs = (word.partition("=") for word in _split(name, value))
            environment |= {variable: entry for variable, _, entry in pairs}
        elif key == "ExecStart" and value:
            starts.append(value.lstrip(_PREFIXES))
        elif key == "ExecStart":
            starts.clear()
    if len(starts) > _MAX_STARTS:
        message = f"starts {len(starts):,} commands; {_MAX_STARTS} are read at most"
        raise LaunchFormatError(message, where=name)
    for start in starts:
        for command in read_script(name, start, environment).commands:
            unused = {key: value for key, value in environment.items() if key not in start}
            yield replace(command, environment={**unused, **command.environment})


def _split(name: str, text: str) -> list[str]:
    try:
        return split_words(text)
    except ValueError as error:
        message = f"Environment cannot be cut into words: {error}"
        raise LaunchFormatError(message, where=name) from None
