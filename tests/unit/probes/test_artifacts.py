"""What a probe keeps beside its numbers: whole, within a limit, the last one; and its loss costs no
measurement.
"""

import gzip
import os
import pickle
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import IO

import pytest

from service.jobs.artifacts import ArtifactName
from worker.probes.artifacts import ArtifactWriter

NAME = ArtifactName.MEMORY_SNAPSHOT


@pytest.fixture
def file() -> Iterator[IO[bytes]]:
    """Open a file without a name, as a worker does."""
    with tempfile.TemporaryFile() as opened:
        yield opened


def test_what_is_kept_is_there_as_it_is_told(file: IO[bytes]) -> None:
    """Bytes and SHA-256 are of what was written, packed bytes of the file; the same is the same
    bytes every time.
    """
    shelf = ArtifactWriter(files={NAME: file.fileno()})
    keep = shelf.make_saver(NAME)
    assert keep is not None
    keep({"segments": list(range(1000))})
    (kept,) = shelf.saved
    file.seek(0)
    packed = file.read()
    keep({"segments": list(range(1000))})
    file.seek(0)

    assert pickle.loads(gzip.decompress(packed)) == {"segments": list(range(1000))}  # noqa: S301 - made above
    assert (kept.bytes, kept.packed_bytes) == (len(gzip.decompress(packed)), len(packed))
    assert kept.sha256 == sha256(gzip.decompress(packed)).hexdigest()
    assert file.read() == packed
    assert shelf.notes == ()


def test_the_last_one_stays(file: IO[bytes]) -> None:
    """A larger run takes the place of a smaller one, and nothing of that is left behind it."""
    shelf = ArtifactWriter(files={NAME: file.fileno()})
    keep = shelf.make_saver(NAME)
    assert keep is not None
    keep(os.urandom(10_000))
    keep("small")
    file.seek(0)

    assert pickle.loads(gzip.decompress(file.read())) == "small"  # noqa: S301 - made above


def test_what_is_too_large_is_left_out_and_said(file: IO[bytes]) -> None:
    """The measurement is whole without it; so it is where the disk is full."""
    shelf = ArtifactWriter(files={NAME: file.fileno()}, max_bytes=5000)
    keep = shelf.make_saver(NAME)
    assert keep is not None
    keep("small")
    keep(os.urandom(10_000))

    assert shelf.saved == ()
    assert shelf.notes == (
        (
            "memory_snapshot was not kept: packed it is larger than 4.88 KiB, the most that is "
            "stored; ask for fewer layers"
        ),
    )


def test_a_full_disk_costs_no_measurement() -> None:
    """The note has the system's own words."""
    with Path("/dev/full").open("wb", buffering=0) as full:
        shelf = ArtifactWriter(files={NAME: full.fileno()})
        keep = shelf.make_saver(NAME)
        assert keep is not None
        keep("anything")

        assert shelf.saved == ()
        assert "No space left" in shelf.notes[0] or "Invalid argument" in shelf.notes[0]


def test_what_nobody_asked_for_is_not_kept() -> None:
    """And what was asked for and never came is said."""
    assert ArtifactWriter(files={}).make_saver(NAME) is None
    assert ArtifactWriter(files={NAME: 99}).notes == (
        "memory_snapshot was not kept: no run left one",
    )
