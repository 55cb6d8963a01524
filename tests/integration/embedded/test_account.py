"""Letting one user through: no more than that, for nobody else, and reversibly."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.embedded.account import SERVER_USER, grant_traversal, revoke_traversal
from service.embedded.events import NULL_LOG

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
STRANGER = SERVER_USER - 1


def _can_read(path: Path, user: int) -> bool:
    command = ["/bin/cat", str(path)]
    answer = subprocess.run(
        command, user=user, group=user, extra_groups=[], capture_output=True, check=False, cwd="/"
    )
    return answer.returncode == 0


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """Return a readable file at the end of a way that only root can go."""
    way = tmp_path / "closed" / "deeper"
    way.mkdir(parents=True)
    way.parent.chmod(0o700)
    way.chmod(0o750)
    file = way / "file"
    file.write_text("content")
    # pytest's own directories are closed to everybody else as well.
    outside = [
        *grant_traversal(tmp_path, SERVER_USER, NULL_LOG),
        *grant_traversal(tmp_path, STRANGER, NULL_LOG),
    ]
    yield file
    revoke_traversal(reversed(outside), NULL_LOG)


def test_the_way_is_open_for_one_user_only(closed: Path) -> None:
    """The user can read what lies at the end, another cannot, and nobody can list the
    directories.
    """
    grant_traversal(closed, SERVER_USER, NULL_LOG)

    assert _can_read(closed, SERVER_USER)
    assert not _can_read(closed, STRANGER)
    assert closed.parent.parent.stat().st_mode & 0o007 == 0


def test_two_users_can_have_the_way(closed: Path) -> None:
    """A second user is let through without shutting the first one out."""
    grant_traversal(closed, SERVER_USER, NULL_LOG)
    grant_traversal(closed, STRANGER, NULL_LOG)

    assert _can_read(closed, SERVER_USER)
    assert _can_read(closed, STRANGER)


def test_closing_puts_everything_back(closed: Path) -> None:
    """After closing, modes and lists are what they were."""
    before = [path.stat().st_mode for path in (closed.parent, closed.parent.parent)]
    revoke_traversal(reversed(grant_traversal(closed, SERVER_USER, NULL_LOG)), NULL_LOG)

    assert [path.stat().st_mode for path in (closed.parent, closed.parent.parent)] == before
    assert not _can_read(closed, SERVER_USER)


def test_what_is_open_is_left_alone(closed: Path) -> None:
    """A second call finds nothing to change."""
    assert grant_traversal(closed, SERVER_USER, NULL_LOG) != []

    assert grant_traversal(closed, SERVER_USER, NULL_LOG) == []
