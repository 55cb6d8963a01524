"""The page of written families beside recordings of their types."""

from collections.abc import Sequence
from pathlib import Path

from tests.accuracy.written.questions import QUESTIONS
from tests.accuracy.written.rows import Row

PAGE = Path(__file__).resolve().parents[3] / "docs" / "written-types.md"


def render_page(rows: Sequence[Row]) -> str:
    """Return the page in Markdown."""
    return ""
