"""The README: short, and its figures are those of the pages that it links to."""

import re

from tests.unit.docs.pages import iter_rows, read_page

README = read_page("README.md")
_FIGURE = re.compile(r"^\[([^\]]+)\]\((docs/[a-z]+\.md)[^)]*\)")


def test_it_is_short() -> None:
    """Whoever opens it reads it to its end."""
    assert len(README.splitlines()) <= 120
    assert len(README.encode()) <= 6 * 1024


def test_its_errors_are_those_of_the_pages() -> None:
    """Each row of its table stands on the page that the row links to, figure by figure."""
    rows = [row for row in iter_rows(README) if _FIGURE.match(row[0])]

    assert len(rows) == 5
    for name, *figures in rows:
        match = _FIGURE.match(name)
        assert match is not None
        wanted = [
            *match[1].split(", "),
            *(figure.removeprefix("p95 ").removeprefix("p90 ") for figure in figures),
        ]
        lines = [re.split(r", | \| ", " | ".join(row)) for row in iter_rows(read_page(match[2]))]
        assert any(_is_part_of(wanted, line) for line in lines), name


def test_it_lists_twelve_questions() -> None:
    """Each is a link to the page that answers it."""
    section = README.partition("## Questions it answers\n")[2].partition("\n## ")[0]

    assert len(re.findall(r"^- \[[^\]]+[?.]\]\(docs/[^)]+\)$", section, re.MULTILINE)) == 12


def _is_part_of(wanted: list[str], line: list[str]) -> bool:
    """Return whether the wanted cells stand in a line, in their order."""
    cells = iter(line)
    return all(cell in cells for cell in wanted)
