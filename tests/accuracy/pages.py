"""The generated files of the documentation."""

from pathlib import Path

from tests.accuracy.after import report as after
from tests.accuracy.picture import scatter
from tests.accuracy.published.report import Published, markdown
from tests.accuracy.report import markdown_report
from tests.accuracy.scoring import Scores

_DOCS = Path(__file__).resolve().parents[2] / "docs"


def pages(scores: Scores, published: Published) -> dict[Path, str]:
    """Return what each file must hold."""
    return {
        _DOCS / "accuracy.md": f"{markdown_report(scores)}\n{after.markdown()}",
        _DOCS / "accuracy.svg": scatter(scores),
        _DOCS / "published.md": markdown(published),
    }
