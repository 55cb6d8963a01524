"""Names and reasons of strangers cannot write on a terminal what they like."""

import json

import pytest
from rich.text import Text

from service.cli.printing import print_json
from service.cli.views.fit import show_fit
from service.cli.views.tables import add_title, make_console, make_table
from service.terminal.controls import spell_controls

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil"
SPELLED = "\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\u202eevil"


def test_control_characters_are_spelled_out() -> None:
    """Escapes, their one-byte forms and reordering marks; lines and tabs stay."""
    assert spell_controls(f"a\n\tb {ESCAPES} é 模型") == f"a\n\tb {SPELLED} é 模型"


@pytest.mark.parametrize("place", ["line", "cell", "title", "column"])
def test_a_screen_shows_escapes_and_markup_as_they_are_typed(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wherever a stranger's name stands on a screen."""
    name = f"[red]m[/red] {ESCAPES}"
    parts: dict[str, object] = {
        "line": name,
        "cell": make_table(("model",), [(name,)]),
        "title": add_title(name, make_table(("model",), [("m",)])),
        "column": make_table((name,), [("m",)]),
    }

    make_console().print(parts[place])

    assert f"[red]m[/red] {SPELLED}" in capsys.readouterr().out


def test_the_line_of_a_verdict_takes_no_markup_from_a_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command colours its verdict, and nobody else."""
    monkeypatch.setattr("service.cli.views.fit.describe_balance", lambda _answer: "")
    monkeypatch.setattr("service.cli.views.fit._iter_tables", lambda _answer: iter(()))
    monkeypatch.setattr("service.cli.views.fit._iter_lines", lambda _answer: iter(()))

    show_fit(f"[link=https://evil.example]m {ESCAPES}", {"verdict": "fits"})

    line = capsys.readouterr().out.splitlines()[0]
    assert line == f"[link=https://evil.example]m {SPELLED}: fits"


def test_json_is_the_same_document_without_controls(capsys: pytest.CaptureFixture[str]) -> None:
    """What json leaves as it is, one-byte escapes and reordering marks, is spelled as JSON does."""
    print_json({"name": ESCAPES})

    text = capsys.readouterr().out
    assert json.loads(text) == {"name": ESCAPES}
    assert not set(text) & set("\x1b\x07\x9b\u202e")


def test_styles_of_the_program_itself_stay() -> None:
    """A text that the program built keeps its style."""
    assert make_console().render_str("m", style="bold").style == Text("m", style="bold").style
