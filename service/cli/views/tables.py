"""Terminal tables of one style."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from service.estimator.values.units import format_bytes
from service.terminal.controls import spell_controls


class Screen(Console):
    """Console that lets the command handle a broken pipe.

    rich itself would end the program with 1, which means "does not fit". Names and reasons come
    from strangers: no text is markup unless the command says so, and control characters are spelled
    out.
    """

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        """Write to stdout or stderr, as wide as the terminal unless told."""
        super().__init__(
            stderr=stderr, width=width, highlight=False, markup=False, emoji=False, soft_wrap=False
        )

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401 - rich's options, passed on
        """Return the text without control characters of its own."""
        return super().render_str(spell_controls(text), **options)

    def on_broken_pipe(self) -> NoReturn:
        """Raise, so that the command decides."""
        raise BrokenPipeError


def make_console() -> Console:
    """Return the terminal.

    Piped output is as wide as it needs to be.
    """
    return Screen(width=None if sys.stdout.isatty() else 120)


def make_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = ()
) -> Table:
    """Return a table.

    Columns named in ``right`` hold numbers.
    """
    result = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        result.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        result.add_row(*row)
    return result


def add_title(title: str, table: Table) -> Group:
    """Return a table under a title.

    rich's own title would be wrapped to the width of the table.
    """
    return Group(Text(spell_controls(title), style="bold"), table)


def show_bytes(value: object) -> str:
    """Return readable bytes, or a dash for no number."""
    return format_bytes(value) if isinstance(value, int) else "-"
