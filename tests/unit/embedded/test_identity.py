"""Records of processes: what was written is read, and what a power failure left of it names
nobody.
"""

from pathlib import Path

import pytest

from service.embedded.identity import get_own_identity, is_alive, read_record, write_record


def test_a_record_names_the_process_that_it_was_written_for(tmp_path: Path) -> None:
    """What is read back is the same process, and it is alive."""
    write_record(tmp_path / "own.json", get_own_identity())
    found = read_record(tmp_path / "own.json")

    assert found == get_own_identity()
    assert is_alive(found)


@pytest.mark.parametrize("left", [b"", b"\0\0\0\0", b"{", b"{}", b"[]", b'"x"', b"\xff"])
def test_a_record_that_was_cut_off_names_nobody(tmp_path: Path, left: bytes) -> None:
    """An empty or broken record does not keep the next start from happening."""
    path = tmp_path / "postgres.json"
    path.write_bytes(left)

    assert read_record(path) is None
