"""The generated files of the documentation."""

from pathlib import Path

from tests.accuracy.after import report as after
from tests.accuracy.loop import report as loop
from tests.accuracy.picture import scatter
from tests.accuracy.published.report import Published, markdown
from tests.accuracy.real.bounds import score_bounds
from tests.accuracy.real.picture import draw_runs
from tests.accuracy.real.report import render_markdown
from tests.accuracy.real.scoring import CLIENTS, score_real_runs
from tests.accuracy.report import markdown_report
from tests.accuracy.scoring import Scores
from tests.accuracy.times import report as times

_DOCS = Path(__file__).resolve().parents[2] / "docs"


def make_published_page(published: Published) -> dict[Path, str]:
    """Return what the page of published readings must hold."""
    return {_DOCS / "published.md": markdown(published)}


def make_pages(scores: Scores) -> dict[Path, str]:
    """Return what each file beside it must hold."""
    parts = (
        markdown_report(scores),
        after.markdown(),
        loop.format_markdown(),
        times.format_markdown(),
    )
    real = score_real_runs()
    clients = [score for score in real.scores if score.group in CLIENTS]
    return {
        _DOCS / "accuracy.md": "\n".join(parts),
        _DOCS / "accuracy.svg": scatter(scores),
        _DOCS / "real-gpus.md": render_markdown(real, score_bounds()),
        _DOCS / "real-gpus.svg": draw_runs(clients),
    }
