"""The data directory: what stands in its way is told in words."""

from pathlib import Path

import pytest

from service.base.startup_errors import EmbeddedServerError
from service.embedded.datadir import own_data_dir
from service.embedded.events import NULL_LOG


def test_a_lock_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    """The file that cannot be opened is named, and so is the way out."""
    (tmp_path / "lock").mkdir()

    with pytest.raises(
        EmbeddedServerError,
        match=r"cannot be the data directory: Is a directory \(.*/lock\); .*--data-dir",
    ):
        own_data_dir(tmp_path, NULL_LOG).__enter__()


def test_a_part_that_cannot_be_made_lets_the_directory_go(tmp_path: Path) -> None:
    """When a directory below cannot be made the lock is free again, so that the next start can
    succeed.
    """
    (tmp_path / "logs").symlink_to(tmp_path / "nowhere")
    with pytest.raises(EmbeddedServerError, match="cannot be the data directory"):
        own_data_dir(tmp_path, NULL_LOG).__enter__()
    (tmp_path / "logs").unlink()

    with own_data_dir(tmp_path, NULL_LOG) as data:
        assert data.root == tmp_path


def test_what_fails_while_it_is_held_is_not_its_fault(tmp_path: Path) -> None:
    """An error of whoever holds the directory passes through as it is."""
    with pytest.raises(TimeoutError, match="mine"), own_data_dir(tmp_path, NULL_LOG):
        raise TimeoutError(110, "mine")
