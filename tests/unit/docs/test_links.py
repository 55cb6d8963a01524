"""Links between pages lead somewhere."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.docs.pages import ROOT, list_pages, read_page

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", list_pages())
def test_every_link_leads_to_a_file_and_a_heading(page: str) -> None:
    """No page points at what was moved or renamed."""
    broken = [target for target in _iter_targets(page) if not _leads_somewhere(page, target)]

    assert broken == []


def test_every_page_is_linked_to() -> None:
    """Nobody has to guess that a page exists."""
    linked = {
        (ROOT / page).parent.joinpath(target.partition("#")[0]).resolve()
        for page in list_pages()
        for target in _iter_targets(page)
        if not target.startswith("#")
    }

    assert [
        page
        for page in list_pages()
        if page != "README.md" and (ROOT / page).resolve() not in linked
    ] == []


def _iter_targets(page: str) -> Iterator[str]:
    text = _FENCE.sub("", read_page(page))
    yield from (
        target for target in _LINK.findall(text) if not target.startswith(("http://", "https://"))
    )


def _leads_somewhere(page: str, target: str) -> bool:
    path, _, anchor = target.partition("#")
    file = (ROOT / page).parent / path if path else ROOT / page
    return file.exists() and (not anchor or anchor in _list_anchors(file))


def _list_anchors(file: Path) -> list[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = _HEADING.findall(_FENCE.sub("", file.read_text(encoding="utf-8")))
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
