"""Download of a measurement's file.

It arrives complete and verified, or not at all.
"""

import argparse
import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from httpx import Client

from service.base.errors import InvalidRequestError, ServiceError
from service.cli.http import Document, build_path, read, read_refusal
from service.cli.views.tables import show_bytes
from service.jobs.artifacts import FILE_NAMES

STDOUT = "-"
_ID_AND_NAME = 2


def add_output(group: argparse._ArgumentGroup) -> None:
    """Add the flag that names the output file."""
    group.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="where to write it (- is stdout; default: by its own name, in this directory)",
    )


def describe_artifacts(measurement: Document) -> Iterator[str]:
    """Yield each kept artifact and the command that fetches it.

    A server of the version before knows of no files.
    """
    for artifact in measurement.get("artifacts", ()):
        size = show_bytes(artifact["bytes"])
        yield (
            f"kept {artifact['name']}, {size}: headroom measurements artifact {measurement['id']} "
            f"{artifact['name']}"
        )


def download(client: Client, names: Sequence[str], output: str | None) -> None:
    """Write an artifact to a file or to stdout.

    The file's name and size go to stderr.
    """
    if len(names) != _ID_AND_NAME:
        message = (
            "which one? headroom measurements artifact ID NAME [-o FILE]; headroom measurements "
            "show ID lists them"
        )
        raise InvalidRequestError(message)
    measurement_id, name = names
    listed = {
        artifact["name"]: artifact
        for artifact in read(client, build_path("measurements", measurement_id))["artifacts"]
    }
    path = build_path("measurements", measurement_id, "artifacts", name)
    if output == STDOUT:
        _fetch(client, path, listed.get(name), sys.stdout.buffer)
        return
    target = Path(output or FILE_NAMES.get(name, name))
    try:
        _replace(client, path, listed.get(name), target)
    except OSError as error:
        message = f"cannot write {target}: {error.strerror}"
        raise InvalidRequestError(message) from None
    sys.stderr.write(f"{target}: {target.stat().st_size:,} bytes\n")


def _replace(client: Client, path: str, listed: Document | None, target: Path) -> None:
    """Write a temporary file, then move it over the target.

    What breaks off leaves the target as it was, and nothing beside it.
    """
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with temporary.open("xb") as file:
            _fetch(client, path, listed, file)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _fetch(client: Client, path: str, listed: Document | None, file: IO[bytes]) -> None:
    """Write what the server sends and verify it.

    Raises ServiceError where that is not what the measurement lists.
    """
    digest, num_bytes = hashlib.sha256(), 0
    with client.stream("GET", path, headers={"accept": "application/octet-stream"}) as answer:
        if not answer.is_success:
            raise read_refusal(answer)
        for piece in answer.iter_bytes():
            digest.update(piece)
            num_bytes += len(piece)
            file.write(piece)
    if listed is None or (num_bytes, digest.hexdigest()) != (listed["bytes"], listed["sha256"]):
        message = (
            f"{num_bytes:,} bytes came, and they are not what the measurement lists; ask again"
        )
        raise ServiceError(message)
