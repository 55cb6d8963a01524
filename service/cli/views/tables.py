"""How answers look on a terminal: tables of the same make."""

import sys
from collections.abc import Iterable, Sequence
from typing import NoReturn

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from service.estimator.values.units import format_bytes


class Screen(Console):
    """A console whose reader may leave: rich itself would then end the program with 1, which means "does not fit"."""

    def on_broken_pipe(self) -> NoReturn:
        """Leave it to the command."""
        raise BrokenPipeError


def console() -> Console:
    """Return the terminal; piped output is as wide as it needs to be."""
    return Screen(highlight=False, width=None if sys.stdout.isatty() else 120, soft_wrap=False)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = ()) -> Table:
    """Return a table; columns named in ``right`` hold numbers."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made


def titled(title: str, made: Table) -> Group:
    """Return a table under a title; its own would be wrapped to the width of the table."""
    return Group(Text(title, style="bold"), made)


def show_bytes(value: object) -> str:
    """Return bytes for a person, or a dash where there is no such number."""
    return format_bytes(value) if isinstance(value, int) else "-"
