"""Rendering of command lines, JSON and TOML.

A shell and a parser read back what was meant.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence

Scalar = str | int | float | bool
TomlValue = Scalar | list[str] | list[list[str]]
_REQUIRED = re.compile(r"\$\{(\w+):\?\}")


def render_shell_line(command: Sequence[str]) -> str:
    """Return one shell line.

    Environment variables are left for the shell to expand.
    """
    return " ".join(
        _quote_with_variables(word) if "${" in word else shlex.quote(word) for word in command
    )


def list_required_variables(commands: str) -> tuple[str, ...]:
    """Return the variables without which a shell stops at these commands."""
    return tuple(dict.fromkeys(_REQUIRED.findall(commands)))


def render_flags(
    values: Mapping[str, Scalar | None], *, switches: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return ``--name value`` for each set value, then the switches."""
    pairs = [
        (f"--{name}", _format_word(value)) for name, value in values.items() if value is not None
    ]
    return (*(word for pair in pairs for word in pair), *(f"--{name}" for name in switches))


def select_enabled(switches: Mapping[str, bool]) -> tuple[str, ...]:
    """Return the names of the switches that are on."""
    return tuple(name for name, on in switches.items() if on)


def as_json(value: object) -> str:
    """Return a document as indented JSON."""
    return json.dumps(value, indent=2) + "\n"


def as_toml(tables: Mapping[str, Mapping[str, TomlValue]]) -> str:
    """Return tables of plain values as TOML.

    Strings in TOML are JSON's (TOML 1.0, basic strings).
    """
    return "\n".join(f"[{name}]\n" + _render_pairs(table) for name, table in tables.items())


def _quote_with_variables(word: str) -> str:
    """Return a word in double quotes, in which only variables expand."""
    return '"' + re.sub(r'(["`\\])', r"\\\1", word) + '"'


def _render_pairs(table: Mapping[str, TomlValue]) -> str:
    return "".join(f"{key} = {_render_toml_value(value)}\n" for key, value in table.items())


def _render_toml_value(value: TomlValue) -> str:
    return json.dumps(value) if isinstance(value, (bool, str, list)) else str(value)


def _format_word(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
