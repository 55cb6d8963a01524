"""The house rules for what is no Python: one subject a file, no other host, nothing that the policy
would refuse.
"""

import re
from pathlib import Path

import pytest

_WEB = Path(__file__).resolve().parents[3] / "service" / "web"
_OURS = sorted(
    path
    for kind in ("js", "css", "html")
    for path in _WEB.rglob(f"*.{kind}")
    if "vendor" not in path.parts
)
_MAX_LINES = 300


@pytest.mark.parametrize("path", _OURS, ids=lambda path: path.name)
def test_a_file_has_one_subject(path: Path) -> None:
    """A file of more than 300 lines has two."""
    assert len(path.read_text().splitlines()) <= _MAX_LINES


@pytest.mark.parametrize("path", _OURS, ids=lambda path: path.name)
def test_text_is_never_read_as_html(path: Path) -> None:
    """Nothing of an answer can become an element or a script."""
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function",
        path.read_text(),
    )
