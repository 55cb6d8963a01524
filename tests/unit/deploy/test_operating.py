"""The operator guide says what the program does."""

import re
from pathlib import Path

from service.access.keys import Scope
from service.cli.command_table import COMMANDS
from service.runtime.settings import Settings
from service.runtime.variables import VARIABLES

GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "operating.md").read_text()


def test_every_setting_is_in_the_table_with_its_default() -> None:
    """Nobody has to read the source to know what can be set, and to what."""
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \|.*\| ([^|]+) \|$", GUIDE, re.MULTILINE))
    defaults = Settings()

    assert set(rows) == {variable for variable, _ in VARIABLES.values()}
    for field, (variable, _) in VARIABLES.items():
        value = getattr(defaults, field)
        if isinstance(value, bool | int | float) or field in {"host", "log_level", "log_format"}:
            shown = f"{value:g}" if isinstance(value, float) else str(value).lower()
            assert rows[variable] == shown, variable


def test_every_command_in_it_exists() -> None:
    """What is typed after `headroom` is a command."""
    assert set(re.findall(r"headroom ([a-z][a-z-]*)", GUIDE)) <= set(COMMANDS)


def test_every_scope_is_explained() -> None:
    """The table of scopes is whole."""
    assert set(
        re.findall(r"^\| `([a-z]+)` \| (?:look|the same|what|everything)", GUIDE, re.MULTILINE)
    ) == set(Scope)
