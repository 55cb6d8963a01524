"""The generated files of the documentation."""

from pathlib import Path

from tests.accuracy.after import report as after
from tests.accuracy.picture import scatter
from tests.accuracy.published.report import Published, markdown
from tests.accuracy.report import markdown_report
from tests.accuracy.scoring import Scores
from tests.accuracy.times import report as times

_DOCS = Path(__file__).resolve().parents[2] / "docs"


def pages(scores: Scores, published: Published) -> dict[Path, str]:
    """Return what each file must hold."""
    parts = (markdown_report(scores), after.markdown(), times.format_markdown())
    return {
        _DOCS / "accuracy.md": "\n".join(parts),
        _DOCS / "accuracy.svg": scatter(scores),
        _DOCS / "published.md": markdown(published),
    }
