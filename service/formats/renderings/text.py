"""Command lines and TOML, written so that a shell and a parser read back what was meant."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence

Scalar = str | int | float | bool


def shell_line(command: Sequence[str]) -> str:
    """Return one line for a shell; environment variables are left for it to fill in."""
    return " ".join(_filled_in(word) if "${" in word else shlex.quote(word) for word in command)


def flags(values: Mapping[str, Scalar | None], *, switches: Sequence[str] = ()) -> tuple[str, ...]:
    """Return ``--name value`` for each value that is there, then the switches."""
    pairs = [(f"--{name}", _word(value)) for name, value in values.items() if value is not None]
    return (*(word for pair in pairs for word in pair), *(f"--{name}" for name in switches))


def chosen(switches: Mapping[str, bool]) -> tuple[str, ...]:
    """Return the names of the switches that are on."""
    return tuple(name for name, on in switches.items() if on)


def as_json(value: object) -> str:
    """Return a document as a person would write it."""
    return json.dumps(value, indent=2) + "\n"


def as_toml(tables: Mapping[str, Mapping[str, Scalar]]) -> str:
    """Return tables of plain values; strings in TOML are JSON's (TOML 1.0, basic strings)."""
    return "\n".join(f"[{name}]\n" + _pairs(table) for name, table in tables.items())


def _filled_in(word: str) -> str:
    """Return a word in double quotes, in which nothing but variables means anything."""
    return '"' + re.sub(r'(["`\\])', r"\\\1", word) + '"'


def _pairs(table: Mapping[str, Scalar]) -> str:
    return "".join(f"{key} = {_toml(value)}\n" for key, value in table.items())


def _toml(value: Scalar) -> str:
    return json.dumps(value) if isinstance(value, (bool, str)) else str(value)


def _word(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
