"""Pages of the documentation, as text and as tables."""

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def read_page(name: str) -> str:
    """Return the text of a page, by its path in the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


def list_pages() -> list[str]:
    """Return README, CONTRIBUTING and every page under docs."""
    pages = sorted((ROOT / "docs").rglob("*.md"))
    return ["README.md", "CONTRIBUTING.md", *(str(page.relative_to(ROOT)) for page in pages)]


def iter_rows(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the cells of every row of every table, without their headings' rules."""
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith("| ---"):
            yield tuple(cell.strip() for cell in line.strip("|").split(" | "))
